//! The examples of the OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    delivery_wire::{
        DeliveryAttempt, ReplayWebhook, WebhookDelivery, WebhookDeliveryWithAttempts, WebhookReplay, WebhookStats, WebhookTest,
    },
    wire::{CreateWebhook, RotateWebhookSecret, UpdateWebhook, Webhook, WebhookWithSecret},
};

examples! {
    Webhook => "webhook.json",
    WebhookWithSecret => "webhook_with_secret.json",
    CreateWebhook => "create_webhook.json",
    UpdateWebhook => "update_webhook.json",
    RotateWebhookSecret => "rotate_webhook_secret.json",
    DeliveryAttempt => "delivery_attempt.json",
    WebhookDelivery => "webhook_delivery.json",
    WebhookDeliveryWithAttempts => "webhook_delivery_with_attempts.json",
    ReplayWebhook => "replay_webhook.json",
    WebhookReplay => "webhook_replay.json",
    WebhookStats => "webhook_stats.json",
    WebhookTest => "webhook_test.json",
}
