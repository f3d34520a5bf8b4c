//! Compares the stored records with the golden files.

use tenantd_base::{
    clock::Timestamp,
    id::{BackupJobId, DeviceId, OrganizationId, TenantId, TicketId},
};
use tenantd_directory::JobStatus;
use tenantd_store::codec::assert_golden;
use tenantd_tickets::Priority;

use super::{
    super::model::{
        Alarm, Counts, Encryption, Job, KeySource, Minutes, Notifications, Objectives, OwnConfig, Posture, Retention, Rhythm,
        Rollup, Rpo, Schedule, Share, Standing, Target, TargetKind, Trouble, Verification, Workload,
    },
    configs::ConfigRecord,
    sweeps::Sweep,
};

fn at() -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000)
}

#[test]
fn stored_settings_match_the_golden_files() {
    let minutes = Minutes { server: 240, workstation: 1440, vm: Some(480) };
    let own = OwnConfig {
        enabled: Some(true),
        workloads: Some(vec![Workload::Server, Workload::Vm]),
        schedule: Some(Schedule {
            rhythm: Rhythm::Cron("0 1 * * *".to_owned()),
            timezone: "Europe/Berlin".to_owned(),
            window: Some((1320, 360)),
        }),
        retention: Some(Retention { hourly: 24, daily: 14, weekly: 8, monthly: 12, yearly: 3 }),
        objectives: Some(Objectives { rpo_minutes: minutes, rto_minutes: None }),
        targets: Some(vec![Target { name: "vault".to_owned(), kind: TargetKind::Object, offsite: true, immutable_days: 30 }]),
        encryption: Some(Encryption { at_rest: true, key_source: Some(KeySource::Customer) }),
        verification: Some(Verification { restore_test_every_days: 30 }),
        notifications: Some(Notifications {
            ticket_on: vec![Alarm::Missed],
            ticket_priority: Priority::High,
            resolve_on_recovery: false,
        }),
    };
    assert_golden("backup_config", &ConfigRecord { own, updated_at: at(), version: 3 });
    let ids = (OrganizationId::from_bytes([1; 16]), DeviceId::from_bytes([2; 16]));
    assert_golden("backup_sweep", &Sweep { after: Some(ids), ..Sweep::default() });
}

#[test]
fn stored_jobs_and_sums_match_the_golden_files() {
    let job = Job {
        id: BackupJobId::from_bytes([1; 16]),
        external_id: "job-1".to_owned(),
        device_id: DeviceId::from_bytes([2; 16]),
        started_at: at(),
        ended_at: Some(at().plus_days(1)),
        status: JobStatus::Warning,
        bytes: Some(1 << 40),
        target: Some("vault".to_owned()),
        verified_at: None,
        version: 2,
    };
    assert_golden("backup_job", &job);
    let posture = Posture {
        tenant_id: TenantId::from_bytes([3; 16]),
        organization_id: OrganizationId::from_bytes([4; 16]),
        device_id: job.device_id,
        workload: Some(Workload::Server),
        in_use: true,
        since: at(),
        last_success_at: Some(at()),
        last_failure_at: None,
        failing_since: None,
        last_verified_at: Some(at()),
        bytes: 1 << 40,
        points: vec![1_767_225_600],
        standing: Standing { protected: true, rpo: Some(Rpo::AtRisk), twice: false, missed: true },
        trouble: Some((Trouble::Missed, at())),
        tickets: [None, Some(TicketId::from_bytes([5; 16])), None],
        timer_at: Some(at()),
        version: 9,
    };
    assert_golden("backup_posture", &posture);
    let mut rollup = Rollup::new(posture.tenant_id, posture.organization_id);
    rollup.share = Share { devices: 300, bytes: 1 << 40, ..posture.share() };
    rollup.has_jobs = true;
    rollup.last_success_at = Some(at());
    rollup.targets = vec![("vault".to_owned(), at())];
    let counts = Counts { succeeded: 7, warned: 1, failed: 2, missed: 300 };
    (rollup.hours, rollup.days, rollup.sizes) = (vec![(490_000, counts)], vec![(20_454, counts)], vec![(20_454, 1 << 40)]);
    assert_golden("backup_rollup", &rollup);
}
