//! Backups of the story: settings for the tenant and one customer, and a month of jobs that mostly went well. Some devices fail now and
//! then, a few have not been backed up for days, and a few never were. Nothing else says which devices are backed up.

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
    SampleError, Stage, between,
    people::{Cast, Player},
};

/// More than the month that reports look back on: its growth is measured from the night before.
pub(super) const DAYS: u32 = 32;
/// Devices that share a transaction.
const AT_ONCE: usize = 100;
const DAY: Duration = Duration::from_hours(24);
const GIB: u64 = 1 << 30;
/// What the names of devices begin with that are backed up, as the fleet gives them.
const BACKED_UP: [&str; 5] = ["srv-", "esx-", "vm-", "ws-", "mac-"];
const TARGETS: [&str; 2] = ["Backup NAS", "Cloud vault"];

/// How the backups of a device go.
#[derive(Clone, Copy, Debug)]
struct Habit {
    device: DeviceId,
    /// Jobs that fail, in a hundred.
    failing: u64,
    /// The day after which nothing came any more.
    last_day: u32,
    bytes: u64,
}

fn habit(random: &mut Entropy, device: DeviceId) -> Option<Habit> {
    let (failing, last_day) = match random.below(100) {
        0..82 => (2, DAYS),
        82..92 => (25, DAYS),
        92..97 => (10, DAYS - 1 - u32::try_from(random.below(9)).unwrap_or_default()),
        _ => return None,
    };
    Some(Habit { device, failing, last_day, bytes: (20 + random.below(400)) * GIB })
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

pub(super) async fn run(stage: &Stage, seed: u64, cast: &Cast, now: Timestamp) -> Result<(), SampleError> {
    let mut random = Entropy::from_seed(seed);
    let begin = now - DAY * DAYS;
    let devices = || cast.customers.iter().flat_map(|customer| &customer.devices);
    let all: Vec<DeviceId> = devices().map(|(id, _)| *id).collect();
    let intent = stage.intent("backup settings", 0, begin, cast.actor(Player::Staff(0)));
    let backups = stage.parts.backups.clone();
    let set = move |tx: &mut WriteTx| backups.configure(tx, &mut intent.begin(), Scope::Tenant, &settings());
    stage.parts.store.write(set).await?;
    for (part, devices) in (0..).zip(all.chunks(AT_ONCE)) {
        let (backups, devices) = (stage.parts.backups.clone(), devices.to_vec());
        let intent = stage.intent("backup devices", part, begin, cast.actor(Player::Staff(0)));
        let follow = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            devices.iter().try_for_each(|device| backups.follow_device(tx, &mut act, *device))
        };
        stage.parts.store.write(follow).await?;
    }
    let backed_up = devices().filter(|(_, name)| BACKED_UP.iter().any(|beginning| name.starts_with(beginning)));
    let habits: Vec<Habit> = backed_up.filter_map(|(device, _)| habit(&mut random, *device)).collect();
    for day in 0..DAYS {
        night(stage, &mut random, &habits, (day, begin + DAY * (day + 1))).await?;
    }
    // From now on a customer wants to hear of it. Earlier, its tickets would stand behind later ones.
    let Some(customer) = cast.customers.first().map(|customer| customer.id) else { return Ok(()) };
    let (backups, intent) = (stage.parts.backups.clone(), stage.intent("backup alarms", 0, now, cast.actor(Player::Staff(0))));
    let alarms = Notifications {
        ticket_on: vec![Alarm::Failed, Alarm::RpoBreach],
        ticket_priority: Priority::High,
        resolve_on_recovery: true,
    };
    let own = OwnConfig { notifications: Some(alarms), ..OwnConfig::default() };
    let judge = stage.intent("backup judgement", 0, now, Actor::system("Backup timers"));
    let listen = move |tx: &mut WriteTx| {
        backups.configure(tx, &mut intent.begin(), Scope::Organization(customer), &own)?;
        backups.judge(tx, &judge, customer)
    };
    Ok(stage.parts.store.write(listen).await?)
}

/// One night's backups, told in the morning.
async fn night(stage: &Stage, random: &mut Entropy, habits: &[Habit], (day, morning): (u32, Timestamp)) -> Result<(), SampleError> {
    let intent = |part: u64| stage.intent("backups", u64::from(day) << 32 | part, morning, Actor::system("Backup software"));
    for (part, habits) in (1..).zip(habits.chunks(AT_ONCE)) {
        let (backups, intent, habits, seed) = (stage.parts.backups.clone(), intent(part), habits.to_vec(), random.next_u64());
        let play = move |tx: &mut WriteTx| {
            let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
            habits
                .iter()
                .filter(|habit| day < habit.last_day)
                .try_for_each(|habit| job(&backups, tx, &mut act, &mut random, (day, *habit)))
        };
        stage.parts.store.write(play).await?;
    }
    let (backups, intent) = (stage.parts.backups.clone(), intent(0));
    Ok(stage.parts.store.write(move |tx| backups.tend(tx, &mut intent.begin())).await?)
}

/// One night's backup of a device.
fn job(
    backups: &Backups,
    tx: &mut WriteTx,
    act: &mut Act,
    random: &mut Entropy,
    (day, habit): (u32, Habit),
) -> Result<(), SampleError> {
    let started_at = between(random, act.now - Duration::from_hours(9), act.now - Duration::from_hours(4));
    let status = match random.below(100) {
        fate if fate < habit.failing => JobStatus::Failed,
        fate if fate > 95 => JobStatus::Warning,
        _ => JobStatus::Success,
    };
    let has_succeeded = status != JobStatus::Failed;
    let [nas, vault] = TARGETS;
    let line = JobLine {
        external_id: format!("night-{day}"),
        device: Reference::Id(habit.device),
        started_at,
        ended_at: Some(started_at + Duration::from_mins(5 + random.below(150))),
        status,
        bytes: has_succeeded.then(|| habit.bytes + habit.bytes / 200 * u64::from(day)),
        target: Some(if day.is_multiple_of(2) { nas } else { vault }.to_owned()),
        verified: has_succeeded && random.below(200) == 0,
    };
    backups.take_job(tx, act, &line)?;
    Ok(())
}
