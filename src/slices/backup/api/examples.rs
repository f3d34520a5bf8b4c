//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_directory::OrganizationLabel;
use tenantd_http::page::Page;

use super::{
    super::{
        listing,
        model::{OwnConfig, Policy, Rollup, Share, State, rule_321, weigh},
    },
    aggregate_wire::{BackupAggregate, BackupRow, BackupSummary, Shape},
    config_wire::{BackupConfig, BackupMinutes, BackupObjectives, BackupRetention, BackupRhythm, BackupSchedule, BackupSettings},
};

/// 2026-01-31T09:30:00Z
const NOW: i64 = 1_769_851_800_000;

impl Example for BackupSettings {
    fn example() -> Self {
        Self {
            schedule: Some(BackupSchedule {
                kind: BackupRhythm::Cron,
                every_minutes: None,
                cron: Some("0 1 * * *".to_owned()),
                timezone: "Europe/Berlin".to_owned(),
                window: None,
            }),
            retention: Some(BackupRetention { hourly: 0, daily: 14, weekly: 8, monthly: 12, yearly: 3 }),
            objectives: Some(BackupObjectives {
                rpo_minutes: BackupMinutes { server: 1560, workstation: 2880, vm: None },
                rto_minutes: None,
            }),
            ..Self::from(OwnConfig::default())
        }
    }
}

impl Example for BackupConfig {
    fn example() -> Self {
        let own = BackupSettings::example();
        let inherited = ["enabled", "workloads", "targets", "encryption", "verification", "notifications"];
        let (schedule, retention, objectives) = (own.schedule.clone(), own.retention, own.objectives);
        let mut effective = super::config_wire::BackupPolicy::from(Policy::default());
        effective.schedule = schedule.unwrap_or(effective.schedule);
        effective.retention = retention.unwrap_or(effective.retention);
        effective.objectives = objectives.unwrap_or(effective.objectives);
        Self {
            scope: "tenant".to_owned(),
            own,
            effective,
            inherited_from: inherited.into_iter().map(|field| (field.to_owned(), "default".to_owned())).collect(),
            updated_at: Some(Timestamp::from_millis(NOW)),
            version: 3,
            impact: None,
        }
    }
}

impl Example for BackupAggregate {
    fn example() -> Self {
        let now = Timestamp::from_millis(NOW);
        let id =
            OrganizationId::from_bytes([1, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 5, 0x6e, 0xf1, 0x23, 4]);
        let mut rollup = Rollup::new(TenantId::from_bytes([1; 16]), id);
        rollup.has_jobs = true;
        rollup.share = Share {
            devices: 31,
            eligible: 24,
            protected: 24,
            weight: 32,
            credit: 62,
            rpo_ok: 22,
            rpo_at_risk: 2,
            bytes: 4_200_000_000_000,
            ..Share::default()
        };
        (rollup.last_success_at, rollup.last_verified_at) = (Some(now), Some(now));
        let policy = Policy::default();
        let (rule, weighing) = (rule_321(&rollup, &policy, now), weigh(&rollup, &policy, now));
        let weighed = listing::Weighed { rollup, policy, rule, weighing, state: State::Warning, position: Vec::new() };
        let summary = listing::summarize(std::slice::from_ref(&weighed), now);
        let organization = OrganizationLabel { id, name: "Acme".to_owned() };
        let shape = Shape { now, window: None, explain: false };
        let row = BackupRow::new(listing::Shown { weighed, organization, troubled: Vec::new() }, shape);
        Self {
            data: Some(vec![row]),
            page: Some(Page::example_of(1, 12)),
            summary: Some(BackupSummary::new(&summary, None)),
            evidence: None,
        }
    }
}
