//! The examples of the published document.

use std::collections::BTreeMap;

use poem_openapi::types::Example;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{DeliveryId, EventId, OperationId, WebhookId},
};

use super::{
    super::{
        delivery::{Decision, DeliveryStatus, Trigger},
        health::HealthState,
        replay::Only,
        service::WantedStatus,
    },
    delivery_wire::{
        BodyEncoding, DeliveryAttempt, ReplayStatus, ReplayWebhook, WebhookDelivery, WebhookDeliveryWithAttempts, WebhookFigures,
        WebhookReplay, WebhookStats,
    },
    wire::{
        CreateWebhook, RotateWebhookSecret, UpdateWebhook, Webhook, WebhookHealth, WebhookOrdering, WebhookRetry, WebhookWithSecret,
    },
};

/// 2026-01-31T09:30:00Z
const AT: i64 = 1_769_851_800_000;

fn at() -> Timestamp {
    Timestamp::from_millis(AT)
}

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x24, last]
}

impl Example for Webhook {
    fn example() -> Self {
        Self {
            id: WebhookId::from_bytes(id_bytes(1)),
            name: "Chat room".to_owned(),
            url: "https://chat.example.com/hooks/tickets".to_owned(),
            events: vec!["ticket.*".to_owned()],
            description: None,
            filter: None,
            header_names: vec!["x-room".to_owned()],
            status: WantedStatus::Active,
            disabled_reason: None,
            ordering: WebhookOrdering::None,
            timeout_seconds: 20,
            rate_limit_per_second: None,
            retry: WebhookRetry::Standard,
            ca_certificate_pem: None,
            secret_hint: "whsec_Ab3…".to_owned(),
            secret_rotated_at: None,
            previous_secret_expires_at: None,
            health: WebhookHealth {
                state: HealthState::Healthy,
                consecutive_failures: 0,
                last_success_at: Some(at()),
                last_failure_at: None,
                last_status: Some(204),
                pending: 0,
                oldest_pending_at: None,
                shed: 0,
            },
            created_at: at(),
            updated_at: at(),
            version: 1,
        }
    }
}

impl Example for WebhookWithSecret {
    fn example() -> Self {
        Self { secret: "whsec_Ab3kQ2mB7xT0aLd8VnWz4RyCs6GpHu1EjKi5oYbNfXs=".to_owned(), record: Webhook::example() }
    }
}

impl Example for CreateWebhook {
    fn example() -> Self {
        Self {
            name: "Chat room".to_owned(),
            url: "https://chat.example.com/hooks/tickets".to_owned(),
            events: vec!["ticket.*".to_owned()],
            description: None,
            filter: None,
            headers: Some(BTreeMap::from([("x-room".to_owned(), "operations".to_owned())])),
            ordering: None,
            timeout_seconds: None,
            rate_limit_per_second: None,
            retry: None,
            ca_certificate_pem: None,
        }
    }
}

impl Example for UpdateWebhook {
    fn example() -> Self {
        Self {
            id: None,
            name: None,
            url: None,
            events: Some(vec!["ticket.created".to_owned(), "ticket.updated".to_owned()]),
            description: Change::Keep,
            filter: Change::Keep,
            headers: Change::Keep,
            status: Some(WantedStatus::Active),
            ordering: Some(WebhookOrdering::PerResource),
            timeout_seconds: Some(10),
            rate_limit_per_second: Change::Keep,
            retry: None,
            ca_certificate_pem: Change::Keep,
        }
    }
}

impl Example for RotateWebhookSecret {
    fn example() -> Self {
        Self { grace_seconds: Some(3600) }
    }
}

impl Example for DeliveryAttempt {
    fn example() -> Self {
        Self {
            number: 1,
            trigger: Trigger::Auto,
            started_at: at(),
            dns_ms: 2,
            connect_ms: 11,
            tls_ms: 19,
            first_byte_ms: 31,
            total_ms: 64,
            remote_ip: Some("203.0.113.7".to_owned()),
            status: Some(200),
            error: None,
            response_body: Some("ok".to_owned()),
            response_body_encoding: Some(BodyEncoding::Text),
            response_body_truncated: None,
            retry_after: None,
            decision: Decision::Delivered,
            next_attempt_at: None,
        }
    }
}

impl Example for WebhookDelivery {
    fn example() -> Self {
        Self {
            id: DeliveryId::from_bytes(id_bytes(2)),
            webhook_id: WebhookId::from_bytes(id_bytes(1)),
            event_id: EventId::from_bytes(id_bytes(3)),
            kind: "ticket.created".to_owned(),
            seq: 4711,
            status: DeliveryStatus::Delivered,
            attempt_count: 1,
            last_status: Some(200),
            last_error: None,
            next_attempt_at: None,
            skipped_reason: None,
            created_at: at(),
            settled_at: Some(at()),
        }
    }
}

impl Example for WebhookDeliveryWithAttempts {
    fn example() -> Self {
        Self { delivery: WebhookDelivery::example(), attempts: vec![DeliveryAttempt::example()] }
    }
}

impl Example for ReplayWebhook {
    fn example() -> Self {
        Self { from_seq: None, since: Some(at()), to_seq: None, until: None, only: Only::Missing }
    }
}

impl Example for WebhookReplay {
    fn example() -> Self {
        Self {
            id: OperationId::from_bytes(id_bytes(4)),
            webhook_id: WebhookId::from_bytes(id_bytes(1)),
            status: ReplayStatus::Running,
            progress: 40,
            from_seq: 4000,
            to_seq: 4711,
            only: Only::Missing,
            queued: 17,
            created_at: at(),
            updated_at: at(),
        }
    }
}

impl Example for WebhookStats {
    fn example() -> Self {
        let figures = |hour: Option<Timestamp>| WebhookFigures {
            at: hour,
            attempts: 120,
            failed_attempts: 2,
            delivered: 118,
            exhausted: 0,
            aborted: 0,
            skipped: 0,
            expired: 0,
            p50_ms: Some(50),
            p95_ms: Some(200),
        };
        Self { since: at(), total: figures(None), hours: vec![figures(Some(at()))] }
    }
}
