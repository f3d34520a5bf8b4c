//! Generates backups: settings for the tenant and one customer, and a month of jobs. Most jobs succeed. Some devices fail
//! occasionally, a few have had no backup for days, and a few never had one. **Boundary:** only this file decides which devices are
//! backed up.

use std::time::Duration;

use tenantd_backup::{Alarm, Backups, Minutes, Notifications, Objectives, OwnConfig, Rhythm, Schedule, Scope, Target, TargetKind};
use tenantd_base::{clock::Timestamp, entropy::Entropy, id::DeviceId};
use tenantd_directory::{JobLine, JobStatus, Reference};
use tenantd_store::{
    WriteTx,
    events::{Act, Actor},
};
use tenantd_tickets::Priority;

use super::{
    SampleContext, SampleError, between,
    people::{Author, Participants},
};

/// More than the month of the reports, because they measure growth from the night before it.
pub(super) const DAYS: u32 = 32;
/// The number of devices per transaction.
const DEVICES_PER_TRANSACTION: usize = 100;
const DAY: Duration = Duration::from_hours(24);
const GIB: u64 = 1 << 30;
/// The name prefixes of devices that are backed up, as used in `fleet`.
const BACKED_UP_PREFIXES: [&str; 5] = ["srv-", "esx-", "vm-", "ws-", "mac-"];
const TARGETS: [&str; 2] = ["Backup NAS", "Cloud vault"];

/// The results of the backups of a device.
#[derive(Clone, Copy, Debug)]
struct BackupPattern {
    device: DeviceId,
    /// The percentage of jobs that fail.
    failing: u64,
    /// The day of the last job.
    last_day: u32,
    bytes: u64,
}

fn pattern(random: &mut Entropy, device: DeviceId) -> Option<BackupPattern> {
    let (failing, last_day) = match random.below(100) {
        0..82 => (2, DAYS),
        82..92 => (25, DAYS),
        92..97 => (10, DAYS - 1 - u32::try_from(random.below(9)).unwrap_or_default()),
        _ => return None,
    };
    Some(BackupPattern { device, failing, last_day, bytes: (20 + random.below(400)) * GIB })
}

fn settings() -> OwnConfig {
    let target = |(name, kind, offsite, immutable_days): (&str, TargetKind, bool, u32)| Target {
        name: name.to_owned(),
        kind,
        offsite,
        immutable_days,
    };
    let [nas, vault] = TARGETS;
    OwnConfig {
        schedule: Some(Schedule { rhythm: Rhythm::Every { minutes: 1440 }, timezone: "Europe/Berlin".to_owned(), window: None }),
        objectives: Some(Objectives {
            rpo_minutes: Minutes { server: 2160, workstation: 4320, vm: None },
            rto_minutes: Some(Minutes { server: 240, workstation: 1440, vm: None }),
        }),
        targets: Some([(nas, TargetKind::Nas, false, 0), (vault, TargetKind::Object, true, 30)].map(target).into()),
        ..OwnConfig::default()
    }
}

pub(super) async fn run(
    context: &SampleContext,
    seed: u64,
    participants: &Participants,
    now: Timestamp,
) -> Result<(), SampleError> {
    let mut random = Entropy::from_seed(seed);
    let begin = now - DAY * DAYS;
    let devices = || participants.customers.iter().flat_map(|customer| &customer.devices);
    let all: Vec<DeviceId> = devices().map(|(id, _)| *id).collect();
    let intent = context.intent("backup settings", 0, begin, participants.actor(Author::Staff(0)));
    let backups = context.parts.backups.clone();
    let set = move |tx: &mut WriteTx| backups.configure(tx, &mut intent.begin(), Scope::Tenant, &settings());
    context.parts.store.write(set).await?;
    for (part, devices) in (0..).zip(all.chunks(DEVICES_PER_TRANSACTION)) {
        let (backups, devices) = (context.parts.backups.clone(), devices.to_vec());
        let intent = context.intent("backup devices", part, begin, participants.actor(Author::Staff(0)));
        let follow = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            devices.iter().try_for_each(|device| backups.follow_device(tx, &mut act, *device))
        };
        context.parts.store.write(follow).await?;
    }
    let backed_up = devices().filter(|(_, name)| BACKED_UP_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let patterns: Vec<BackupPattern> = backed_up.filter_map(|(device, _)| pattern(&mut random, *device)).collect();
    for day in 0..DAYS {
        night(context, &mut random, &patterns, (day, begin + DAY * (day + 1))).await?;
    }
    // One customer gets tickets from now on. Earlier tickets would be numbered after later ones.
    let Some(customer) = participants.customers.first().map(|customer| customer.id) else { return Ok(()) };
    let (backups, intent) =
        (context.parts.backups.clone(), context.intent("backup alarms", 0, now, participants.actor(Author::Staff(0))));
    let alarms = Notifications {
        ticket_on: vec![Alarm::Failed, Alarm::RpoBreach],
        ticket_priority: Priority::High,
        resolve_on_recovery: true,
    };
    let own = OwnConfig { notifications: Some(alarms), ..OwnConfig::default() };
    let judge = context.intent("backup judgement", 0, now, Actor::system("Backup timers"));
    let listen = move |tx: &mut WriteTx| {
        backups.configure(tx, &mut intent.begin(), Scope::Organization(customer), &own)?;
        backups.evaluate_organization(tx, &judge, customer)
    };
    Ok(context.parts.store.write(listen).await?)
}

/// Reports the backups of a night in the morning.
async fn night(
    context: &SampleContext,
    random: &mut Entropy,
    patterns: &[BackupPattern],
    (day, morning): (u32, Timestamp),
) -> Result<(), SampleError> {
    let intent = |part: u64| context.intent("backups", u64::from(day) << 32 | part, morning, Actor::system("Backup software"));
    for (part, patterns) in (1..).zip(patterns.chunks(DEVICES_PER_TRANSACTION)) {
        let (backups, intent, patterns, seed) = (context.parts.backups.clone(), intent(part), patterns.to_vec(), random.next_u64());
        let play = move |tx: &mut WriteTx| {
            let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
            patterns
                .iter()
                .filter(|pattern| day < pattern.last_day)
                .try_for_each(|pattern| job(&backups, tx, &mut act, &mut random, (day, *pattern)))
        };
        context.parts.store.write(play).await?;
    }
    let (backups, intent) = (context.parts.backups.clone(), intent(0));
    Ok(context.parts.store.write(move |tx| backups.run_due_timers(tx, &mut intent.begin())).await?)
}

/// Reports the backup job of a device.
fn job(
    backups: &Backups,
    tx: &mut WriteTx,
    act: &mut Act,
    random: &mut Entropy,
    (day, pattern): (u32, BackupPattern),
) -> Result<(), SampleError> {
    let started_at = between(random, act.now - Duration::from_hours(9), act.now - Duration::from_hours(4));
    let status = match random.below(100) {
        fate if fate < pattern.failing => JobStatus::Failed,
        fate if fate > 95 => JobStatus::Warning,
        _ => JobStatus::Success,
    };
    let has_succeeded = status != JobStatus::Failed;
    let [nas, vault] = TARGETS;
    let line = JobLine {
        external_id: format!("night-{day}"),
        device: Reference::Id(pattern.device),
        started_at,
        ended_at: Some(started_at + Duration::from_mins(5 + random.below(150))),
        status,
        bytes: has_succeeded.then(|| pattern.bytes + pattern.bytes / 200 * u64::from(day)),
        target: Some(if day.is_multiple_of(2) { nas } else { vault }.to_owned()),
        verified: has_succeeded && random.below(200) == 0,
    };
    backups.take_job(tx, act, &line)?;
    Ok(())
}
