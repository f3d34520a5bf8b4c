//! Compares roll-ups with a naive model that recounts the log, across restarts at any moment. Also tests health across restarts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::tz::TimeZone;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::Notify;

use tenantd_base::{
    access::Grants,
    clock::{Clock, Timestamp},
    entropy::Entropy,
    fault::Fault,
    id::TenantId,
    telemetry::RELATIVE_ERROR,
};
use tenantd_store::{
    RedbEngine, Store, StoreError, WriterSettings,
    events::{self, Actor, ConsumerTask, Draft, EventKind, Intent},
    tasks::{Done, Task, TaskError, Tasks},
};

use super::{
    Analytics,
    health::{ComponentState, HealthMonitor, HealthParts, HealthWatch, Queue},
    model::{Bucket, Span, Zone},
    query::{Answer, Subject},
    rollup,
    service::{self, QueryParams},
    upkeep::{FINE_DAYS, KEPT_DAYS, RollUpUpkeep},
};

static CREATED: EventKind =
    EventKind { name: "ticket.created", summary: "", subject: "ticket", schema: "Ticket", reads: Grants::NONE, has_changes: false };
static COMMENTED: EventKind = EventKind { name: "ticket.commented", ..CREATED };
static RESOLVED: EventKind = EventKind { name: "ticket.resolved", ..CREATED };
static REOPENED: EventKind = EventKind { name: "ticket.reopened", ..CREATED };
static RUN_FAILED: EventKind = EventKind { name: "workflow.run.failed", subject: "run", ..CREATED };
static RUN_SUCCEEDED: EventKind = EventKind { name: "workflow.run.succeeded", subject: "run", ..CREATED };
static JOB_MISSED: EventKind = EventKind { name: "backup.job.missed", subject: "job", ..CREATED };
static NOTHING: EventKind = EventKind { name: "device.updated", subject: "device", ..CREATED };

fn open(directory: &tempfile::TempDir) -> Store {
    let path = directory.path().join("store");
    let engine = if path.exists() { RedbEngine::open(&path, 1 << 20, None) } else { RedbEngine::create(&path, 1 << 20) };
    Store::new(engine.unwrap(), WriterSettings { batch_size: 64, queue_length: 64 }).unwrap()
}

fn tenant(number: u8) -> TenantId {
    TenantId::from_bytes([number; 16])
}

async fn append(store: &Store, number: u8, at: Timestamp, kind: &'static EventKind, record: Value) {
    let intent = Intent::new(tenant(number), at, Actor::system("test"));
    let written = store.write(move |tx| {
        let shown = RawValue::from_string(record.to_string()).unwrap();
        let draft = Draft::new(kind, "x".to_owned(), 1, &shown);
        events::append(tx, &mut intent.begin(), &draft)
    });
    written.await.unwrap();
}

async fn random_event(store: &Store, random: &mut Entropy, now: Timestamp) {
    let at = now - Duration::from_secs(random.below(6 * 86_400));
    let age = Duration::from_secs(random.below(400_000));
    let priority = ["critical", "high", "low"][usize::try_from(random.below(3)).unwrap()];
    let breached = random.below(3) == 0;
    let first = if random.below(2) == 0 { at } else { at - Duration::from_secs(5) };
    let ticket = json!({
        "priority": priority, "organization": {"id": "org_x", "name": "X"}, "created_at": at - age, "first_responded_at": first,
        "sla": {"first_response": {"breached": false}, "resolution": {"breached": breached}},
    });
    let run = json!({"workflow": {"key": "k"}, "created_at": at - age});
    let kinds: [(&'static EventKind, Value); 8] = [
        (&CREATED, ticket.clone()),
        (&COMMENTED, ticket.clone()),
        (&RESOLVED, ticket.clone()),
        (&REOPENED, ticket),
        (&RUN_FAILED, run.clone()),
        (&RUN_SUCCEEDED, run),
        (&JOB_MISSED, json!({})),
        (&NOTHING, json!({})),
    ];
    let (kind, record) = kinds[usize::try_from(random.below(8)).unwrap()].clone();
    append(store, u8::try_from(1 + random.below(2)).unwrap(), at, kind, record).await;
}

/// The expected values: a recount of the whole log for one tenant, by the local date of each event.
#[derive(Debug, Default)]
struct Naive {
    counts: BTreeMap<(&'static str, String), f64>,
    values: BTreeMap<(&'static str, String), Vec<f64>>,
}

impl Naive {
    fn recount(store: &Store, of: Option<TenantId>, zone: &str) -> Self {
        let zone = TimeZone::get(zone).unwrap();
        let mut naive = Self::default();
        let mut after = 0;
        loop {
            let batch = store.read(|tx| events::read_batch(tx, after, 100)).unwrap();
            let Some(last) = batch.last() else { return naive };
            after = last.seq;
            for event in batch.iter().filter(|event| of.is_none_or(|tenant| event.record.tenant_id == tenant)) {
                let body: Value = serde_json::from_slice(&event.record.body).unwrap();
                let at: jiff::Timestamp = body["timestamp"].as_str().unwrap().parse().unwrap();
                naive.count(&body, at, &at.to_zoned(zone.clone()).date().to_string());
            }
        }
    }

    fn count(&mut self, body: &Value, at: jiff::Timestamp, date: &str) {
        let mut one = |name| *self.counts.entry((name, date.to_owned())).or_default() += 1.0;
        let record = body["data"].as_object().unwrap().values().next().unwrap();
        let age = |record: &Value| at.duration_since(record["created_at"].as_str().unwrap().parse().unwrap()).as_secs_f64();
        let measured = match body["type"].as_str().unwrap() {
            "ticket.created" => {
                one("tickets_created");
                None
            }
            "ticket.commented" if record["first_responded_at"] == body["timestamp"] => {
                Some(("first_response_p90_seconds", age(record).floor()))
            }
            "ticket.resolved" => {
                one("tickets_resolved");
                if record["sla"]["resolution"]["breached"] == false {
                    one("met");
                }
                Some(("resolution_p50_seconds", age(record).floor()))
            }
            kind @ ("workflow.run.failed" | "workflow.run.succeeded") => {
                one("workflow_runs_ended");
                if kind.ends_with("succeeded") {
                    one("succeeded");
                }
                Some(("workflow_run_p95_seconds", age(record)))
            }
            "backup.job.missed" => {
                one("backup_jobs");
                None
            }
            _ => None,
        };
        if let Some((name, value)) = measured {
            self.values.entry((name, date.to_owned())).or_default().push(value);
        }
    }

    fn get(&self, name: &'static str, date: &str) -> f64 {
        self.counts.get(&(name, date.to_owned())).copied().unwrap_or_default()
    }

    fn percentile(&self, name: &'static str, date: &str, percent: usize) -> Option<f64> {
        let mut values = self.values.get(&(name, date.to_owned()))?.clone();
        values.sort_by(f64::total_cmp);
        values.get((values.len() * percent).div_ceil(100).max(1) - 1).copied()
    }
}

fn ask(store: &Store, subject: Subject, now: Timestamp, params: &QueryParams) -> Answer {
    let question = service::validate(params, subject, Grants::all(), now).unwrap();
    store.read(|tx| service::answer(tx, &question)).unwrap()
}

/// Returns the points of a metric by local date.
fn points(answer: &Answer, metric: &str, zone: &str) -> BTreeMap<String, f64> {
    let zone = TimeZone::get(zone).unwrap();
    let line = answer.lines.iter().find(|line| line.metric == metric).unwrap();
    let date = |at: Timestamp| jiff::Timestamp::from_millisecond(at.as_millis()).unwrap().to_zoned(zone.clone()).date().to_string();
    line.points.iter().map(|point| (date(point.at), point.value)).collect()
}

fn compare(store: &Store, subject: Subject, now: Timestamp, zone: &str) {
    let of = match subject {
        Subject::Tenant(tenant) => Some(tenant),
        Subject::Platform => None,
    };
    let naive = Naive::recount(store, of, zone);
    let params = QueryParams {
        from: Some(now - Duration::from_hours(24 * 8)),
        bucket: Some(Bucket::Day),
        timezone: Some(zone.to_owned()),
        ..QueryParams::default()
    };
    let answer = ask(store, subject, now, &params);
    let expected = store.read(|tx| of.map_or_else(|| events::head(tx), |tenant| events::last_number(tx, tenant)));
    assert_eq!(answer.as_of_seq, expected.unwrap());
    for metric in ["tickets_created", "tickets_resolved", "workflow_runs_ended", "backup_jobs"] {
        for (date, value) in points(&answer, metric, zone) {
            assert!((value - naive.get(metric, &date)).abs() < 1e-9, "{metric} on {date} in {zone}: {value}");
        }
        let total: f64 = naive.counts.iter().filter(|((name, _), _)| *name == metric).map(|(_, count)| count).sum();
        let reported = answer.totals.iter().find(|(name, _)| *name == metric).unwrap().1.value.unwrap();
        assert!((reported - total).abs() < 1e-9, "{metric} in all: {reported} for {total}");
    }
    for (metric, part, whole) in
        [("sla_met_percent", "met", "tickets_resolved"), ("workflow_success_percent", "succeeded", "workflow_runs_ended")]
    {
        let shares = points(&answer, metric, zone);
        for (name, date) in naive.counts.keys().filter(|(name, _)| *name == whole) {
            let share = naive.get(part, date) / naive.get(name, date) * 100.0;
            assert!((shares[date] - share).abs() < 0.001, "{metric} on {date}");
        }
    }
    for (metric, percent) in [("first_response_p90_seconds", 90), ("resolution_p50_seconds", 50), ("workflow_run_p95_seconds", 95)]
    {
        for (date, value) in points(&answer, metric, zone) {
            let exact = naive.percentile(metric, &date, percent).unwrap();
            // Reported values are rounded to thousandths.
            assert!((value - exact).abs() <= exact * RELATIVE_ERROR + 0.002, "{metric} on {date}: {value} for {exact}");
        }
    }
}

#[tokio::test]
async fn roll_ups_equal_a_recount_of_the_log() {
    for seed in 0..6 {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Entropy::from_seed(seed);
        let now = Timestamp::parse("2026-03-31T07:10:00Z").unwrap();
        let clock = Clock::movable(now);
        let mut store = open(&directory);
        for _ in 0..400 {
            match random.below(12) {
                0 => drop(ConsumerTask::new(store.clone(), rollup::RollUps { clock: clock.clone() }).activate().await.unwrap()),
                1 => {
                    let task = ConsumerTask::new(store.clone(), rollup::RollUps { clock: clock.clone() });
                    let activation = tokio::spawn(async move { task.activate().await });
                    // Abort the activation while it runs, or before it starts.
                    activation.abort();
                    drop(activation.await);
                    drop(store);
                    store = open(&directory);
                }
                2 => drop(RollUpUpkeep { store: store.clone(), clock: clock.clone() }.activate().await.unwrap()),
                _ => random_event(&store, &mut random, now).await,
            }
        }
        let reader = ConsumerTask::new(store.clone(), rollup::RollUps { clock: clock.clone() });
        while reader.activate().await.unwrap() == Done::Some {}
        assert_eq!(reader.activate().await.unwrap(), Done::All);
        for zone in ["UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns"] {
            for subject in [Subject::Tenant(tenant(1)), Subject::Tenant(tenant(2)), Subject::Platform] {
                compare(&store, subject, now, zone);
            }
        }
        assert!(store.check(Analytics::tables()).await.unwrap().is_clean());
    }
}

#[tokio::test]
async fn a_23_hour_day_has_92_quarters() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let start = Timestamp::parse("2026-03-28T00:00:00Z").unwrap();
    let now = start + Duration::from_hours(24 * 4);
    for quarter in 0..(96 * 3) {
        append(&store, 1, start + Duration::from_mins(15 * quarter), &JOB_MISSED, json!({})).await;
    }
    let clock = Clock::movable(now);
    let reader = ConsumerTask::new(store.clone(), rollup::RollUps { clock });
    while reader.activate().await.unwrap() == Done::Some {}
    let params = |zone: &str| QueryParams {
        from: Some(start),
        to: Some(start + Duration::from_hours(24 * 3)),
        bucket: Some(Bucket::Day),
        timezone: Some(zone.to_owned()),
        metrics: vec!["backup_jobs".to_owned()],
        ..QueryParams::default()
    };
    let of = |zone: &str| {
        let answer = ask(&store, Subject::Tenant(tenant(1)), now, &params(zone));
        assert_eq!(answer.totals[0].1.value, Some(288.0), "the range has the same total in every zone");
        points(&answer, "backup_jobs", zone)["2026-03-29"]
    };
    assert_eq!((of("Europe/Berlin"), of("UTC"), of("Asia/Kathmandu")), (92.0, 96.0, 96.0), "a day of 23 hours");
}

#[tokio::test]
async fn the_total_of_a_range_does_not_depend_on_the_bucket() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let (mut random, now) = (Entropy::from_seed(5), Timestamp::parse("2026-01-19T07:10:00Z").unwrap());
    let mut at: Vec<Timestamp> = (0..300).map(|_| now - Duration::from_secs(random.below(100 * 86_400))).collect();
    // At the ends of years and months, in the tested time zones.
    at.extend(
        ["2025-12-31T22:59:59Z", "2025-12-31T23:00:00Z", "2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z"]
            .map(|text| Timestamp::parse(text).unwrap()),
    );
    at.sort_unstable();
    for at in &at {
        append(&store, 1, *at, &JOB_MISSED, json!({})).await;
    }
    let reader = ConsumerTask::new(store.clone(), rollup::RollUps { clock: Clock::movable(now) });
    while reader.activate().await.unwrap() == Done::Some {}
    let subject = Subject::Tenant(tenant(1));
    let mut compared = 0;
    for zone in ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"] {
        for range in Span::ALL {
            for bucket in Bucket::ALL {
                let params = QueryParams {
                    range: Some(*range),
                    bucket: Some(*bucket),
                    timezone: Some(zone.to_owned()),
                    metrics: vec!["backup_jobs".to_owned()],
                    compare: true,
                    ..QueryParams::default()
                };
                let Ok(question) = service::validate(&params, subject, Grants::all(), now) else { continue };
                let answer = store.read(|tx| service::answer(tx, &question)).unwrap();
                let within = |from: Timestamp, to: Timestamp| at.iter().filter(|at| (from..to).contains(*at)).count() as f64;
                let context = format!("{} by {} in {zone}", range.name(), bucket.name());
                let total = &answer.totals[0].1;
                assert_eq!(total.value, Some(within(question.buckets.from(), question.buckets.to())), "{context}");
                let (from, to) = question.previous.unwrap();
                assert_eq!(total.previous, Some(within(from, to)), "{context}");
                let points: f64 = answer.lines[0].points.iter().map(|point| point.value).sum();
                assert_eq!(Some(points), total.value, "{context}");
                let expected = Zone::parse(zone).unwrap().begin(*range, now).unwrap();
                assert_eq!((question.buckets.from(), answer.lines[0].points[0].at), (expected, expected), "{context}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * (7 * 4 - 2), "only 90d and 12mo by hour have too many points");
}

#[tokio::test]
async fn metrics_outlive_events_and_keep_hours_for_400_days() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let start = Timestamp::parse("2025-01-10T20:00:00Z").unwrap();
    for minutes in [0, 20, 300] {
        append(&store, 1, start + Duration::from_mins(minutes), &JOB_MISSED, json!({})).await;
    }
    let clock = Clock::movable(start + Duration::from_hours(6));
    let reader = ConsumerTask::new(store.clone(), rollup::RollUps { clock: clock.clone() });
    while reader.activate().await.unwrap() == Done::Some {}
    let upkeep = RollUpUpkeep { store: store.clone(), clock: clock.clone() };
    let count = |bucket| {
        let params = QueryParams {
            from: Some(start - Duration::from_hours(24)),
            to: Some(start + Duration::from_hours(48)),
            bucket: Some(bucket),
            metrics: vec!["backup_jobs".to_owned()],
            ..QueryParams::default()
        };
        let question = service::validate(&params, Subject::Tenant(tenant(1)), Grants::all(), clock.now()).ok()?;
        let answer = store.read(|tx| service::answer(tx, &question)).unwrap();
        Some(answer.lines[0].points.iter().map(|point| point.value).filter(|value| *value > 0.0).collect::<Vec<_>>())
    };
    assert_eq!(count(Bucket::Hour), Some(vec![2.0, 1.0]));
    clock.advance(Duration::from_hours(24 * 30));
    upkeep.activate().await.unwrap();
    assert_eq!(count(Bucket::Hour), Some(vec![2.0, 1.0]), "days keep their quarters");
    clock.advance(Duration::from_hours(24 * u64::from(FINE_DAYS)));
    upkeep.activate().await.unwrap();
    assert_eq!(count(Bucket::Hour), None, "hours that are no longer kept are refused");
    assert_eq!(count(Bucket::Day), Some(vec![2.0, 1.0]));
    clock.advance(Duration::from_hours(24 * u64::from(KEPT_DAYS)));
    upkeep.activate().await.unwrap();
    assert_eq!(count(Bucket::Month), Some(vec![]));
}

#[test]
fn an_invalid_query_is_refused_with_suggestions() {
    let now = Timestamp::parse("2026-03-31T07:10:00Z").unwrap();
    let faults = |params: QueryParams| match service::validate(&params, Subject::Tenant(tenant(1)), Grants::all(), now) {
        Err(super::error::AnalyticsError::Invalid(faults)) => {
            let summary = |fault: Fault| [fault.place.to_string(), fault.code, fault.suggestion.unwrap_or_default().into()];
            faults.into_iter().map(summary).collect()
        }
        _ => Vec::new(),
    };
    let hour = QueryParams { bucket: Some(Bucket::Hour), from: Some(now - Duration::from_hours(1001)), ..QueryParams::default() };
    assert_eq!(faults(hour.clone()), [["bucket", "too_many_points", "day"]]);
    assert_eq!(faults(QueryParams { from: Some(now - Duration::from_hours(999)), ..hour }), Vec::<[String; 3]>::new());
    let several = QueryParams {
        metrics: vec!["tickets_create".to_owned()],
        timezone: Some("Europe/Berlim".to_owned()),
        to: Some(now),
        ..QueryParams::default()
    };
    assert_eq!(
        faults(several),
        [
            ["timezone", "unknown_time_zone", "Europe/Berlin"],
            ["metrics", "unknown_metric", "tickets_created"],
            ["from", "required", ""]
        ]
    );
    let tenants = QueryParams { metrics: vec!["tenants".to_owned()], ..QueryParams::default() };
    assert_eq!(faults(tenants)[0][1], "unknown_metric", "a tenant cannot read platform metrics");
}

/// A task whose concern the test sets.
struct ConcernedTask {
    concern: Arc<Mutex<Option<String>>>,
    wake: Arc<Notify>,
    looked: Arc<Notify>,
}

impl Task for ConcernedTask {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn period(&self) -> Duration {
        Duration::from_hours(1_000_000)
    }

    async fn wake(&self) {
        self.looked.notify_one();
        self.wake.notified().await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        Ok(Done::All)
    }

    fn concern(&self) -> Option<String> {
        self.concern.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn an_incident_follows_its_signal_and_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::movable(Timestamp::parse("2026-03-31T07:10:00Z").unwrap());
    let (concern, wake, looked) = (Arc::new(Mutex::new(None)), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let store = open(&directory);
    let mut tasks = Tasks::new(clock.clone());
    tasks.spawn(ConcernedTask { concern: concern.clone(), wake: wake.clone(), looked: looked.clone() });
    looked.notified().await;
    let monitor = |store: &Store| {
        Arc::new(HealthMonitor::new(HealthParts {
            store: store.clone(),
            clock: clock.clone(),
            tasks: tasks.board(),
            queue: Arc::new(|| Queue { depth: 3, oldest: Some(Duration::from_secs(9)) }),
            consumers: vec![],
        }))
    };
    let first = monitor(&store);
    let watch = HealthWatch::new(first.clone());
    let minute = async |watch: &HealthWatch, trouble: Option<&str>| {
        *concern.lock().unwrap() = trouble.map(str::to_owned);
        wake.notify_one();
        looked.notified().await;
        clock.advance(Duration::from_mins(1));
        watch.activate().await.unwrap();
    };
    minute(&watch, None).await;
    assert!(first.health().unwrap().incidents.is_empty());
    minute(&watch, Some("a delivery has been due for 400 seconds")).await;
    minute(&watch, Some("a delivery has been due for 460 seconds")).await;
    let health = first.health().unwrap();
    assert_eq!((health.state(), health.queue_depth), (ComponentState::Degraded, 3));
    assert_eq!(health.incidents.len(), 1);
    assert_eq!((health.incidents[0].component, health.incidents[0].closed_at), ("webhooks", None));
    minute(&watch, None).await;
    let closed = first.health().unwrap().incidents[0].clone();
    assert_eq!(closed.closed_at, Some(clock.now()));
    let day = first.health().unwrap().days.iter().find(|day| day.component == "webhooks").unwrap().clone();
    assert_eq!((day.operational_minutes, day.degraded_minutes, day.down_minutes), (2, 2, 0));
    drop((watch, first));
    clock.advance(Duration::from_mins(30));
    let second = monitor(&store);
    HealthWatch::new(second.clone()).activate().await.unwrap();
    let health = second.health().unwrap();
    let incidents: Vec<_> = health.incidents.iter().map(|incident| (incident.component, incident.state)).collect();
    assert_eq!(incidents, [("api", ComponentState::Down), ("webhooks", ComponentState::Degraded)], "the outage is an incident too");
    let day = health.days.iter().find(|day| day.component == "api").unwrap();
    assert_eq!(day.down_minutes, 30);
    let uptime = ask(
        &store,
        Subject::Platform,
        clock.now(),
        &QueryParams { metrics: vec!["uptime_percent".to_owned()], ..QueryParams::default() },
    );
    let percent = uptime.totals[0].1.value.unwrap();
    assert!((percent - 5.0 / 35.0 * 100.0).abs() < 0.001, "{percent}");
    tasks.shutdown().await;
    let report: Result<_, StoreError> = store.check(Analytics::tables()).await;
    assert!(report.unwrap().is_clean());
}
