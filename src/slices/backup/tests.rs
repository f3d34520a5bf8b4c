//! Compares the report with a model without sums, timers and records. The model keeps the whole history and counts everything
//! again.

use std::{ops::Bound, time::Duration};

use proptest::{collection::vec, prelude::*};

use tenantd_base::{
    access::Reach,
    clock::{Clock, Timestamp},
    clocks::Clocks,
    config,
    entropy::Entropy,
    id::{DeviceId, OrganizationId, TenantId},
    secrets::InstallationKey,
};
use tenantd_directory::{self as directory, Device, DeviceClass, Directory, JobLine, JobStatus, NewOrganization, Reference};
use tenantd_store::{
    Flow, RedbEngine, Store, StoreError, WriterSettings,
    events::{Actor, Intent},
};
use tenantd_tickets::Tickets;

use super::{
    Backups,
    listing::{self, AggregateQuery, Assessment, SortBy},
    model::{
        Cap, Minutes, Objectives, OwnConfig, Posture, Rhythm, Schedule, Scope, Share, State, Target, TargetKind, Verification,
        Window,
    },
    repo::{postures, rollups},
};

const CLASSES: [DeviceClass; 4] = [DeviceClass::Server, DeviceClass::Workstation, DeviceClass::Vm, DeviceClass::Printer];
const TARGETS: [(&str, TargetKind, bool, u32); 3] =
    [("disk", TargetKind::Local, false, 0), ("nas", TargetKind::Nas, false, 0), ("vault", TargetKind::Object, true, 30)];
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const START: i64 = 1_767_225_600_000;

/// An event some minutes after the previous one.
#[derive(Clone, Debug)]
struct Step {
    wait_minutes: i64,
    device: usize,
    status: JobStatus,
    bytes: u64,
    target: usize,
    verified: bool,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    interval: i64,
    rpo: [i64; 3],
    test_every: i64,
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![
        6 => Just(JobStatus::Success),
        1 => Just(JobStatus::Warning),
        2 => Just(JobStatus::Failed),
        1 => Just(JobStatus::Cancelled),
        1 => Just(JobStatus::Running),
    ];
    let wait = prop_oneof![4 => 1_i64..600, 2 => 600_i64..4_000, 1 => 10_000_i64..60_000];
    (wait, 0_usize..4, status, 1_u64..1_000_000, 0_usize..4, 0_u8..8).prop_map(
        |(wait_minutes, device, status, bytes, target, tested)| {
            let verified = tested == 0 && matches!(status, JobStatus::Success | JobStatus::Warning);
            Step { wait_minutes, device, status, bytes, target, verified }
        },
    )
}

fn rules() -> impl Strategy<Value = Rules> {
    (60_i64..3_000, 60_i64..6_000, 60_i64..6_000, 60_i64..6_000, 1_i64..100)
        .prop_map(|(interval, server, workstation, vm, test_every)| Rules { interval, rpo: [server, workstation, vm], test_every })
}

struct World {
    store: Store,
    backups: Backups,
    tenant: TenantId,
    organization: OrganizationId,
    devices: Vec<DeviceId>,
    _directory: tempfile::TempDir,
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

impl World {
    async fn new(rules: Rules) -> Self {
        let config = config::load(None, [], &[]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&folder.path().join("store"), 1 << 20).unwrap();
        let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
        let tickets = Tickets::new(store.clone(), Clocks::new(Clock::System), &config.tickets, &config.limits);
        let key = InstallationKey::generate(&mut Entropy::from_seed(1));
        let backups =
            Backups::new(store.clone(), Clocks::new(Clock::System), config.backup, &config.limits, &key, tickets).unwrap();
        let directory = Directory::new(&config.directory, |_, _, _| Ok(()));
        let tenant = TenantId::from_bytes([7; 16]);
        let (intent, made) = (Intent::new(tenant, at(START), Actor::system("test")), backups.clone());
        let (organization, devices) = store
            .write(move |tx| {
                let mut act = intent.begin();
                let new = NewOrganization { external_id: None, name: "Acme".to_owned() };
                let organization = directory.create_organization(tx, &mut act, &new).unwrap().id;
                made.configure(tx, &mut act, Scope::Tenant, &settings(rules)).unwrap();
                let mut devices = Vec::new();
                for class in CLASSES {
                    let id = directory.create_device(tx, &mut act, device(organization, class)).unwrap().id;
                    made.follow_device(tx, &mut act, id).unwrap();
                    devices.push(id);
                }
                Ok::<_, StoreError>((organization, devices))
            })
            .await
            .unwrap();
        Self { store, backups, tenant, organization, devices, _directory: folder }
    }

    /// Runs the timers that are due, as a server would, and processes a job.
    async fn play(&self, now: i64, number: usize, step: Option<Step>) {
        let (backups, intent, devices) =
            (self.backups.clone(), Intent::new(self.tenant, at(now), Actor::system("test")), self.devices.clone());
        self.store
            .write(move |tx| {
                let mut act = intent.begin();
                backups.run_due_timers(tx, &mut act).unwrap();
                if let Some(step) = &step {
                    let line = JobLine {
                        external_id: format!("job-{number}"),
                        device: Reference::Id(devices[step.device]),
                        started_at: at(now - MINUTE),
                        ended_at: (step.status != JobStatus::Running).then_some(at(now)),
                        status: step.status,
                        bytes: Some(step.bytes),
                        target: TARGETS.get(step.target).map(|(name, ..)| (*name).to_owned()),
                        verified: step.verified,
                    };
                    backups.take_job(tx, &mut act, &line).unwrap();
                }
                Ok::<_, StoreError>(())
            })
            .await
            .unwrap();
    }

    fn report(&self, now: i64) -> Assessment {
        let query = AggregateQuery {
            tenant_id: self.tenant,
            reach: Reach::Everything,
            now: at(now),
            organizations: Vec::new(),
            states: Vec::new(),
            score_lt: None,
            coverage_lt: None,
            rpo: Vec::new(),
            sort: SortBy::Score,
            descending: false,
        };
        self.store.read(|tx| listing::find(tx, &query)).unwrap().pop().unwrap()
    }

    /// The number of devices that the directory lists as eligible and as protected.
    fn listed(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        self.store
            .read(|tx| {
                directory::scan_devices(tx, self.tenant, Bound::Unbounded, |device| {
                    let state = device.backup.unwrap();
                    counts = (counts.0 + u64::from(state.eligible), counts.1 + u64::from(state.protected));
                    Ok(Flow::Continue)
                })
            })
            .unwrap();
        counts
    }

    /// The sums of all postures, counted one by one.
    fn recounted(&self) -> Share {
        let mut sum = Share::default();
        self.store
            .read(|tx| {
                postures::scan(tx, self.tenant, None, None, |posture: Posture| {
                    sum = sum.with_replaced(Share::default(), posture.share());
                    Ok(Flow::Continue)
                })
            })
            .unwrap();
        sum
    }
}

fn settings(rules: Rules) -> OwnConfig {
    let minutes = |value: i64| u32::try_from(value).unwrap();
    let [server, workstation, vm] = rules.rpo.map(minutes);
    let target = |(name, kind, offsite, immutable_days): (&str, TargetKind, bool, u32)| Target {
        name: name.to_owned(),
        kind,
        offsite,
        immutable_days,
    };
    OwnConfig {
        schedule: Some(Schedule {
            rhythm: Rhythm::Every { minutes: minutes(rules.interval) },
            timezone: "UTC".to_owned(),
            window: None,
        }),
        objectives: Some(Objectives { rpo_minutes: Minutes { server, workstation, vm: Some(vm) }, rto_minutes: None }),
        targets: Some(TARGETS.map(target).into()),
        verification: Some(Verification { restore_test_every_days: minutes(rules.test_every) }),
        ..OwnConfig::default()
    }
}

fn device(organization_id: OrganizationId, class: DeviceClass) -> Device {
    Device { name: format!("{class:?}"), class, organization_id, ..Device::default() }
}

/// The expected report, computed from the history alone.
#[derive(Debug, PartialEq)]
struct Expected {
    state: State,
    score: Option<u64>,
    caps: Vec<Cap>,
    eligible: u64,
    protected: u64,
    /// Within the objective, at risk, breached, and pending.
    rpo: [u64; 4],
    /// Good, failed and missed jobs of a day, a week and a month.
    jobs: [[u64; 3]; 3],
    bytes: u64,
    growth: i64,
}

type History = Vec<(i64, Step)>;

fn is_good(step: &Step) -> bool {
    step.status == JobStatus::Success || step.status == JobStatus::Warning
}

/// The times at which a device missed a backup.
fn misses(history: &History, device: usize, rules: Rules, now: i64) -> Vec<i64> {
    let successes = history.iter().filter(|(_, step)| step.device == device && is_good(step)).map(|(at, _)| *at);
    let mut found = Vec::new();
    let mut from = START;
    for next in successes.chain([i64::MAX]) {
        let overdue = from + rules.interval * MINUTE * 3 / 2;
        if overdue <= next.min(now) {
            found.push(overdue);
        }
        from = next;
    }
    found
}

fn expected(history: &History, rules: Rules, now: i64) -> Expected {
    let last = |device: usize| history.iter().rev().find(|(_, step)| step.device == device && is_good(step));
    let (mut protected, mut rpo, mut halves, mut weight) = (0, [0; 4], 0, 0);
    let (mut late_server, mut bare_server) = (false, false);
    for device in 0..3 {
        let newest = last(device).map(|(at, _)| *at);
        let covered = newest.is_some_and(|at| now < at + 30 * DAY);
        let (age, objective) = (now - newest.unwrap_or(START), rules.rpo[device] * MINUTE);
        let standing = if age >= objective { 2 } else { usize::from(age * 4 >= objective * 3) };
        let times = if device == 0 { 3 } else { 1 };
        protected += u64::from(covered);
        rpo[if newest.is_none() && standing < 2 { 3 } else { standing }] += 1;
        weight += times;
        halves += if newest.is_some() { times * [2, 1, 0][standing] } else { 0 };
        if device == 0 {
            late_server = age >= 2 * objective;
            bare_server = !covered;
        }
    }
    let missed: Vec<i64> = (0..3).flat_map(|device| misses(history, device, rules, now)).collect();
    let count = |from: i64| {
        let ended = |wanted: &dyn Fn(&Step) -> bool| history.iter().filter(|(at, step)| *at >= from && wanted(step)).count() as u64;
        let failed = ended(&|step| step.status == JobStatus::Failed);
        [ended(&is_good), failed, missed.iter().filter(|at| **at >= from).count() as u64]
    };
    let (hour, today) = (now / HOUR * HOUR, now / DAY * DAY);
    let jobs = [count(hour - 23 * HOUR), count(today - 6 * DAY), count(today - 29 * DAY)];
    let size = |until: i64| -> u64 {
        let newest = |device: usize| history.iter().rev().find(|(at, step)| *at < until && step.device == device && is_good(step));
        (0..4).filter_map(newest).map(|(_, step)| step.bytes).sum()
    };
    let (bytes, then) = (size(i64::MAX), size(today - 29 * DAY));
    let tested = history.iter().rev().find(|(_, step)| step.verified).map(|(at, _)| now - at);
    let written = |target: usize| {
        // A job without a target went to the first target.
        let to = |step: &Step| if step.target == 3 { 0 } else { step.target };
        history.iter().any(|(at, step)| is_good(step) && to(step) == target && now < at + 30 * DAY)
    };
    let [disk, nas, vault] = [written(0), written(1), written(2)];
    let resilience = 3 * u64::from(1 + u64::from(disk) + u64::from(nas) + u64::from(vault) >= 3)
        + 2 * u64::from(nas || vault)
        + 5 * u64::from(vault);
    let [good, failed, lost] = jobs[1];
    let all = good + failed + lost;
    let verification = match tested {
        Some(age) if age <= rules.test_every * DAY => 20,
        Some(age) if age <= 2 * rules.test_every * DAY => 10,
        _ => 0,
    };
    let recency = 15 * halves / weight;
    let sum = 25 * protected / 3 + recency + (15 * good).checked_div(all).unwrap_or(0) + verification + resilience;
    let mut caps = Vec::new();
    let mut score = sum;
    for (applies, cap, most) in [
        (tested.is_none_or(|age| age > 90 * DAY), Cap::RestoreTestTooOld, 79),
        (late_server, Cap::ServerRpoBreachedTwice, 59),
        (bare_server, Cap::UnprotectedServer, 49),
    ] {
        if applies {
            caps.push(cap);
            score = score.min(most);
        }
    }
    let score = (!history.is_empty()).then_some(score);
    let state = match score {
        None => State::Unknown,
        Some(_) if protected == 0 => State::Unprotected,
        Some(score) if score >= 80 => State::Healthy,
        Some(score) if score >= 60 => State::Warning,
        Some(_) => State::Critical,
    };
    let caps = if score.is_some() { caps } else { Vec::new() };
    let growth = i64::try_from(bytes).unwrap() - i64::try_from(then).unwrap();
    Expected { state, score, caps, eligible: 3, protected, rpo, jobs, bytes, growth }
}

fn actual(assessment: &Assessment, now: i64) -> Expected {
    let (rollup, share) = (&assessment.rollup, &assessment.rollup.share);
    let jobs = [Window::Day, Window::Week, Window::Month].map(|window| {
        let counts = rollup.jobs(window, at(now));
        [counts.rate().0, u64::from(counts.failed), u64::from(counts.missed)]
    });
    Expected {
        state: assessment.state,
        score: assessment.breakdown.as_ref().map(|breakdown| u64::from(breakdown.score)),
        caps: assessment.breakdown.as_ref().map(|breakdown| breakdown.caps.clone()).unwrap_or_default(),
        eligible: share.eligible,
        protected: share.protected,
        rpo: [share.rpo_ok, share.rpo_at_risk, share.rpo_breached, share.rpo_pending],
        jobs,
        bytes: share.bytes,
        growth: rollup.growth(at(now)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_report_matches_the_whole_history(rules in rules(), steps in vec(step(), 0..40), rest in 0_i64..200_000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new(rules).await;
            let (mut now, mut history) = (START, History::new());
            for (number, step) in steps.into_iter().enumerate() {
                now += step.wait_minutes * MINUTE;
                world.play(now, number, Some(step.clone())).await;
                history.push((now, step));
                prop_assert_eq!(actual(&world.report(now), now), expected(&history, rules, now));
            }
            now += rest * MINUTE;
            world.play(now, 0, None).await;
            let report = world.report(now);
            prop_assert_eq!(actual(&report, now), expected(&history, rules, now));
            prop_assert_eq!(report.rollup.share, world.recounted());
            prop_assert_eq!(world.listed(), (3, report.rollup.share.protected));
            let stored = world.store.read(|tx| rollups::get(tx, (world.tenant, world.organization))).unwrap();
            prop_assert!(stored.hours.len() <= 24 && stored.days.len() <= 30 && stored.sizes.len() <= 32);
            Ok(())
        })?;
    }
}

#[test]
fn a_repeated_job_counts_once_and_an_ended_job_does_not_change() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new(Rules { interval: 60, rpo: [240; 3], test_every: 30 }).await;
        let step = Step { wait_minutes: 0, device: 0, status: JobStatus::Success, bytes: 5, target: 0, verified: false };
        for _ in 0..3 {
            world.play(START + HOUR, 1, Some(step.clone())).await;
        }
        let counts = world.report(START + HOUR).rollup.jobs(Window::Day, at(START + HOUR));
        assert_eq!((counts.succeeded, counts.failed), (1, 0));
        let posture = world.store.read(|tx| postures::of_device(tx, world.tenant, world.devices[0])).unwrap().unwrap();
        assert_eq!(posture.points.len(), 1);
        assert_eq!(posture.last_success_at, Some(at(START) + Duration::from_hours(1)));
    });
}
