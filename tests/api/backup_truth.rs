//! Consistent protection reports. After any sequence of jobs, settings, devices and time, the asset inventory, the report on
//! customers, the signed evidence and the analytics count the same devices as a naive model of the jobs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};

use tenantd_base::{clock::Timestamp, entropy::Entropy};

use crate::{
    backup::{REPORT, device, job, organization, set, until},
    evaluations::evaluate,
    harness::{Actor, TestApp, with_app},
    inventory::{REPORT as INVENTORY, ingest},
};

const DAY: Duration = Duration::from_hours(24);
const ORGANIZATIONS: [&str; 3] = ["acme", "beta", "gamma"];
const CLASSES: [&str; 6] = ["server", "hypervisor", "workstation", "vm", "printer", "network"];
const LIFECYCLES: [&str; 5] = ["active", "active", "in_repair", "spare", "retired"];

#[derive(Clone, Debug)]
struct Machine {
    organization: &'static str,
    class: &'static str,
    lifecycle: &'static str,
    last_success: Option<Timestamp>,
}

/// The expected reports, computed only from the data that was sent.
#[derive(Debug, Default)]
struct Model {
    machines: BTreeMap<String, Machine>,
    made: usize,
    workloads: Option<Vec<&'static str>>,
    enabled: BTreeMap<&'static str, bool>,
}

/// All devices, devices to back up, and protected devices.
type Counts = (u64, u64, u64);

impl Model {
    fn workload(&self, machine: &Machine) -> Option<&'static str> {
        let workload = match machine.class {
            "server" | "hypervisor" => "server",
            class @ ("workstation" | "vm") => class,
            _ => return None,
        };
        let wanted = self.workloads.as_ref().is_none_or(|wanted| wanted.contains(&workload));
        let enabled = self.enabled.get(machine.organization).copied().unwrap_or(true);
        (wanted && enabled && ["active", "in_repair"].contains(&machine.lifecycle)).then_some(workload)
    }

    fn is_protected(&self, machine: &Machine, now: Timestamp) -> bool {
        self.workload(machine).is_some() && machine.last_success.is_some_and(|at| now < at + DAY * 30)
    }

    fn is_within_objective(&self, machine: &Machine, now: Timestamp) -> bool {
        let Some(workload) = self.workload(machine) else { return false };
        let objective = if workload == "workstation" { DAY * 2 } else { DAY };
        machine.last_success.is_some_and(|at| now < at + objective)
    }

    fn count(&self, organization: Option<&str>, now: Timestamp) -> Counts {
        let of = self.machines.values().filter(|machine| organization.is_none_or(|wanted| wanted == machine.organization));
        of.fold((0, 0, 0), |(all, eligible, protected), machine| {
            let is_eligible = self.workload(machine).is_some();
            (all + 1, eligible + u64::from(is_eligible), protected + u64::from(self.is_protected(machine, now)))
        })
    }

    fn names(&self, now: Timestamp, protected: bool) -> BTreeSet<String> {
        let wanted = |machine: &Machine| self.workload(machine).is_some() && self.is_protected(machine, now) == protected;
        self.machines.iter().filter(|(_, machine)| wanted(machine)).map(|(name, _)| name.clone()).collect()
    }
}

struct World<'a> {
    app: &'a TestApp,
    key: Actor,
    ids: BTreeMap<&'static str, String>,
    model: Model,
    random: Entropy,
    sent: usize,
}

impl World<'_> {
    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.random.below(choices.len() as u64)).unwrap()]
    }

    fn some_machine(&mut self) -> Option<String> {
        let names: Vec<String> = self.model.machines.keys().cloned().collect();
        if names.is_empty() { None } else { Some(names[usize::try_from(self.random.below(names.len() as u64)).unwrap()].clone()) }
    }

    async fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => self.add().await,
            3..=10 => self.run_job().await,
            11..=13 => {
                let hours = [1, 7, 26, 24 * 9, 24 * 21];
                let hours = self.pick(&hours);
                self.app.advance(Duration::from_hours(hours));
            }
            14..=16 => self.change().await,
            17 => self.remove().await,
            _ => self.configure().await,
        }
    }

    async fn add(&mut self) {
        let name = format!("m{}", self.model.made);
        let machine = Machine {
            organization: self.pick(&ORGANIZATIONS),
            class: self.pick(&CLASSES),
            lifecycle: self.pick(&LIFECYCLES),
            last_success: None,
        };
        let mut line = device(&name, machine.organization, machine.class);
        line["lifecycle"] = json!(machine.lifecycle);
        ingest(&self.key, &[line]).await;
        self.model.made += 1;
        self.model.machines.insert(name, machine);
    }

    async fn run_job(&mut self) {
        let Some(name) = self.some_machine() else { return };
        let status = self.pick(&["success", "success", "success", "warning", "failed", "cancelled"]);
        // Jobs arrive in any order, some long after they ended.
        let ago = [0, 0, 1, 5, 24, 24 * 20, 24 * 35];
        let at = self.app.now() - Duration::from_hours(self.pick(&ago));
        self.sent += 1;
        ingest(&self.key, &[job(&format!("j{}", self.sent), &name, status, &at.to_string())]).await;
        if ["success", "warning"].contains(&status) {
            let machine = self.model.machines.get_mut(&name).unwrap();
            machine.last_success = machine.last_success.max(Some(at));
        }
    }

    async fn change(&mut self) {
        let Some(name) = self.some_machine() else { return };
        let mut machine = self.model.machines[&name].clone();
        match self.random.below(3) {
            0 => machine.organization = self.pick(&ORGANIZATIONS),
            1 => machine.class = self.pick(&CLASSES),
            _ => machine.lifecycle = self.pick(&LIFECYCLES),
        }
        let line = json!({"kind": "device", "external_id": name, "organization_external_id": machine.organization,
            "class": machine.class, "lifecycle": machine.lifecycle});
        ingest(&self.key, &[line]).await;
        self.model.machines.insert(name, machine);
    }

    async fn remove(&mut self) {
        let Some(name) = self.some_machine() else { return };
        ingest(&self.key, &[json!({"kind": "device", "external_id": name, "deleted": true})]).await;
        self.model.machines.remove(&name);
    }

    async fn configure(&mut self) {
        if self.random.below(2) == 0 {
            let choices: [Option<&[&'static str]>; 4] =
                [None, Some(&["server"]), Some(&["workstation", "vm"]), Some(&["server", "workstation", "vm"])];
            let workloads = self.pick(&choices).map(<[&'static str]>::to_vec);
            let body = workloads.as_ref().map_or_else(|| json!({}), |workloads| json!({"workloads": workloads}));
            set(&self.key, "tenant", body).await;
            self.model.workloads = workloads;
            return;
        }
        let (organization, enabled) = (self.pick(&ORGANIZATIONS), self.random.below(3) > 0);
        set(&self.key, &self.ids[organization], json!({"enabled": enabled})).await;
        self.model.enabled.insert(organization, enabled);
    }

    /// Waits until all changes are processed, and compares all reports.
    async fn compare(&self) {
        let (model, now) = (&self.model, self.app.now());
        let counted = |devices: &Value| -> Counts {
            let of = |name: &str| devices[name].as_u64().unwrap();
            assert_eq!(of("unprotected"), of("eligible") - of("protected"), "{devices}");
            (of("total"), of("eligible"), of("protected"))
        };
        let expected = |id: &Value| {
            let (name, _) = self.ids.iter().find(|(_, found)| id == *found).unwrap();
            model.count(Some(name), now)
        };
        let matches = |report: &Value| {
            let rows = report["data"].as_array().unwrap();
            rows.len() == 3 && rows.iter().all(|row| counted(&row["devices"]) == expected(&row["organization"]["id"]))
        };
        let report = until(&self.key, REPORT, matches).await;
        assert_eq!(counted(&report["summary"]["devices"]), model.count(None, now));
        for row in report["data"].as_array().unwrap() {
            let rpo = |name: &str| row["rpo"][name].as_u64().unwrap();
            let all = rpo("ok") + rpo("at_risk") + rpo("breached") + rpo("pending");
            assert_eq!(json!(all), row["devices"]["eligible"], "{row}");
        }
        self.compare_inventory(&report).await;
        self.compare_evidence().await;
    }

    async fn compare_inventory(&self, report: &Value) {
        let (model, now) = (&self.model, self.app.now());
        let read = async |query: &str| self.key.get(&format!("{INVENTORY}?{query}")).send().await.ok(200).clone();
        let (all, eligible, protected) = model.count(None, now);
        let inventory = read("summary=true&sections=summary,backup&limit=200").await;
        let totals = &inventory["totals"];
        let counts = ["devices", "backup_eligible", "protected", "unprotected"].map(|name| totals[name].as_u64().unwrap());
        assert_eq!(counts, [all, eligible, protected, eligible - protected]);
        for row in inventory["data"].as_array().unwrap() {
            let machine = &model.machines[row["name"].as_str().unwrap()];
            let mut state = json!({"eligible": model.workload(machine).is_some(), "protected": model.is_protected(machine, now)});
            if let Some(at) = machine.last_success {
                state["last_success_at"] = json!(at);
            }
            assert_eq!(row["backup"], state, "{row}");
        }
        for wanted in [true, false] {
            let found = read(&format!("protected={wanted}&limit=200")).await;
            let names: BTreeSet<String> =
                found["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
            assert_eq!(names, model.names(now, wanted), "protected={wanted}");
            let groups = read(&format!("protected={wanted}&group_by=organization")).await["groups"]["values"].clone();
            let member = if wanted { "protected" } else { "unprotected" };
            for row in report["data"].as_array().unwrap() {
                let group = groups.as_array().unwrap().iter().find(|group| group["value"] == row["organization"]["id"]);
                assert_eq!(group.map_or(json!(0), |group| group["count"].clone()), row["devices"][member], "{row}");
            }
        }
    }

    async fn compare_evidence(&self) {
        let (model, now) = (&self.model, self.app.now());
        let evidence = self.key.get(&format!("{REPORT}?view=evidence")).send().await.ok(200)["evidence"]["statement"].clone();
        for row in evidence["organizations"].as_array().unwrap() {
            let (name, _) = self.ids.iter().find(|(_, id)| row["organization"]["id"] == **id).unwrap();
            let (all, eligible, protected) = model.count(Some(name), now);
            let devices = &row["devices"];
            assert_eq!((&devices["total"], &devices["eligible"]), (&json!(all), &json!(eligible)), "{row}");
            assert_eq!(devices["protected"], protected, "{row}");
            let mine = || model.machines.values().filter(|machine| machine.organization == *name);
            let within = mine().filter(|machine| model.is_within_objective(machine, now)).count();
            let never = mine().filter(|machine| model.workload(machine).is_some() && machine.last_success.is_none()).count();
            assert_eq!((&row["devices_within_rpo"], &row["devices_never_backed_up"]), (&json!(within), &json!(never)), "{row}");
        }
    }

    /// The hourly sample equals the other reports.
    async fn compare_analytics(&self) {
        let path = "/api/analytics/tenant?range=24h&metrics=backup_coverage_percent,devices";
        for _ in 0..10 {
            // A sample may precede the effects of time on devices. The next hour includes them.
            self.app.advance(Duration::from_hours(1));
            self.compare().await;
            let (all, eligible, protected) = self.model.count(None, self.app.now());
            let percent = (eligible > 0).then(|| (protected as f64 / eligible as f64 * 100_000.0).round() / 1000.0);
            for _ in 0..300 {
                let totals = self.key.get(path).send().await.ok(200)["totals"].clone();
                if totals["backup_coverage_percent"]["value"].as_f64() == percent && totals["devices"]["value"] == all {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
        panic!("the samples do not say what the reports do: {}", self.key.get(path).send().await.text);
    }
}

#[tokio::test]
async fn all_reports_count_the_same_devices() {
    for seed in 0..3 {
        with_app(async |app| {
            let tenant = app.tenant("acme").await;
            let scopes = ["ingest:write", "backup:*", "inventory:read", "analytics:read"];
            let key = tenant.key(&scopes).await;
            let made = ingest(&key, &ORGANIZATIONS.map(organization)).await;
            let ids = ORGANIZATIONS.into_iter().zip(&made).map(|(name, line)| (name, line["id"].as_str().unwrap().to_owned()));
            let (ids, random) = (ids.collect(), Entropy::from_seed(seed));
            let mut world = World { app, key, ids, model: Model::default(), random, sent: 0 };
            for _ in 0..8 {
                world.add().await;
            }
            for _ in 0..14 {
                for _ in 0..6 {
                    world.step().await;
                }
                world.compare().await;
            }
            world.compare_analytics().await;
        })
        .await;
    }
}

#[tokio::test]
async fn reports_agree_on_the_sample_data() {
    with_app(async |app| {
        let sample = json!({"seed": 11, "organizations": 4, "devices": 60, "tickets": 20});
        let (_, visitor) = evaluate(app, json!({"name": "trial", "slug": "trial", "expires_days": 5, "sample": sample})).await;
        let report = visitor.get(&format!("{REPORT}?limit=200")).send().await.ok(200).clone();
        let inventory = visitor.get(&format!("{INVENTORY}?summary=true&limit=1")).send().await.ok(200)["totals"].clone();
        let devices = &report["summary"]["devices"];
        for (left, right) in
            [("total", "devices"), ("eligible", "backup_eligible"), ("protected", "protected"), ("unprotected", "unprotected")]
        {
            assert_eq!(devices[left], inventory[right], "{left}: {devices} and {inventory}");
        }
        assert!(devices["unprotected"].as_u64().unwrap() > 0 && devices["protected"].as_u64().unwrap() > 10, "{devices}");
        let storage = &report["summary"]["storage"];
        let [growth, bytes] = ["growth_30d_bytes", "protected_bytes"].map(|name| storage[name].as_i64().unwrap());
        assert!(growth > 0 && growth < bytes / 2, "{storage}");
    })
    .await;
}
