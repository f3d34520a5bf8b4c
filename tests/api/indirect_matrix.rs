//! Indirect access equals direct access, for every surface, every kind of record and every authority. No response shows a record
//! that a credential cannot read directly. Surfaces that show a record show it to every credential that can read it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    cloud::{PROVIDERS, create, simulated},
    cloud_vms::ended,
    harness::{Actor, Receiver, Setup, Tenant, TestApp, WEBHOOKS, with_setup},
    sso,
    workflows::{PATH, set},
};

const KEYS: &str = "/api/admin/api-keys";
const TICKETS: &str = "/api/psa/tickets";
const INVENTORY: &str = "/api/rmm/reports/asset-inventory";
const AUDIT: &str = "/api/admin/audit";

/// A record, its path, and a text that only it contains.
struct Record {
    kind: &'static str,
    needle: &'static str,
    id: String,
    path: String,
    /// Its name in the analytics.
    metric: Option<&'static str>,
}

/// A reader, and the records that it can read directly.
struct Reader {
    name: String,
    actor: Actor,
    sees: Vec<bool>,
}

/// Responses by the name of the surface. `None` for a surface that refuses the reader.
type Answers = BTreeMap<String, Option<String>>;

/// The read scopes of all kinds of records.
const READS: [&str; 10] = [
    "tickets:read",
    "inventory:read",
    "users:read",
    "vms:read",
    "providers:read",
    "webhooks:read",
    "api_keys:read",
    "workflows:read",
    "backup:read",
    "secrets:write",
];

/// The scopes that lead to records of all kinds.
const WAYS: [&str; 8] = [
    "events:read",
    "search:read",
    "analytics:read",
    "workflows:read",
    "workflows:write",
    "workflows:run",
    "webhooks:read",
    "webhooks:write",
];

/// The kinds of events that the records of the fixture cause. Each starts a workflow that returns its event.
const KINDS: [&str; 11] = [
    "ticket.created",
    "device.created",
    "user.created",
    "vm.created",
    "cloud.provider.created",
    "webhook.created",
    "api_key.created",
    "workflow.created",
    "backup.config.updated",
    "secret.created",
    "identity_provider.created",
];

struct World<'a> {
    app: &'a TestApp,
    tenant: Tenant<'a>,
    full: Actor,
    ours: String,
    theirs: String,
    records: Vec<Record>,
    /// Runs of other people whose steps have read records, and their workflows.
    runs: Vec<(&'static str, String)>,
    /// The newest event of the fixture.
    last_seq: u64,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn make(actor: &Actor, collection: &str, body: Value) -> String {
    text(&actor.post(collection).json(body).send().await.ok(201)["id"])
}

async fn workflow(actor: &Actor, key: &str, triggers: Value, steps: Value) -> String {
    let definition = json!({"key": key, "name": key, "triggers": triggers, "steps": steps});
    make(actor, PATH, json!({"action": "create", "definition": definition})).await
}

async fn run(actor: &Actor, key: &str, inputs: Value) -> Value {
    let run = actor.post(PATH).json(json!({"workflow_key": key, "inputs": inputs})).send().await.ok(202).clone();
    let path = format!("{PATH}/runs/{}?wait_seconds=30", text(&run["id"]));
    actor.get(&path).send().await.ok(200).clone()
}

impl<'a> World<'a> {
    async fn new(app: &'a TestApp) -> Self {
        let tenant = app.evaluation_tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let full = tenant.key(&["*"]).await;
        let mut listening = Vec::new();
        for kind in KINDS {
            let steps = json!([{"id": "end", "type": "return", "with": {"output": "{{ event.data }}"}}]);
            let trigger = json!([{"type": "event", "event": kind}]);
            listening.push(workflow(&full, &format!("on-{}", kind.replace(['.', '_'], "-")), trigger, steps).await);
        }
        let mut world = Self { app, tenant, full, ours, theirs, records: Vec::new(), runs: Vec::new(), last_seq: 0 };
        world.fill().await;
        world.read_in_runs().await;
        for id in listening {
            world.full.patch(&format!("{PATH}/{id}")).json(json!({"enabled": false})).send().await.ok(200);
        }
        world.last_seq =
            world.full.get("/api/events?limit=200&types=workflow.updated").send().await.ok(200)["next_after"].as_u64().unwrap();
        world
    }

    fn note(&mut self, kind: &'static str, needle: &'static str, (id, path): (String, String), metric: Option<&'static str>) {
        self.records.push(Record { kind, needle, id, path, metric });
    }

    /// Creates one record of every kind. Records that can belong to an organization belong to `ours`.
    async fn fill(&mut self) {
        let full = self.full.clone();
        let at = |collection: &str, id: String| (id.clone(), format!("{collection}/{id}"));
        let ticket = json!({"subject": "zanzibar zzticket", "organization_id": self.ours});
        let ticket = make(&full, TICKETS, ticket).await;
        self.note("ticket", "zzticket", at(TICKETS, ticket), Some("tickets_created"));
        let device = self.tenant.device(&self.ours, "zanzibar zzdevice").await;
        self.note("device", "zzdevice", (device, INVENTORY.to_owned()), Some("devices"));
        let users = "/api/admin/users";
        let contact = self.tenant.contact(&self.ours, "zanzibar-zzcontact@ours.example").await;
        self.note("contact", "zzcontact", at(users, contact), None);
        let staff = json!({"email": "zz@acme.example", "name": "zanzibar zzstaff", "role": "viewer"});
        self.note("staff", "zzstaff", at(users, make(&full, users, staff).await), Some("active_users"));
        let mut provider = simulated("zanzibar cloud", json!({"seed": 738_291, "vm_count": 0}));
        provider["organization_id"] = json!(self.ours);
        let provider = create(&full, provider).await;
        let order = json!({"provider_id": provider["id"], "name": "zanzibar-zzvm", "region": "sim-east", "size": "sim.small", "image": "debian-13"});
        let order = full.post("/api/cloud/vms").json(order).send().await.ok(202).clone();
        ended(self.app, &full, &order).await;
        // VMs name their provider, like references.
        self.note("provider", "738291", at(PROVIDERS, text(&provider["id"])), None);
        self.note("vm", "zzvm", at("/api/cloud/vms", text(&order["vms"][0]["id"])), Some("vms"));
        let webhook = json!({"name": "zanzibar zzwebhook", "url": "https://hooks.example.com/", "events": ["ticket.created"]});
        let webhook = make(&full, WEBHOOKS, webhook).await;
        full.post(&format!("{WEBHOOKS}/{webhook}/pause")).send().await.ok(200);
        self.note("webhook", "zzwebhook", at(WEBHOOKS, webhook), Some("webhook_deliveries"));
        let key = make(&full, KEYS, json!({"name": "zanzibar zzkey", "scopes": ["tickets:read"]})).await;
        self.note("api key", "zzkey", at(KEYS, key), Some("active_keys"));
        let steps = json!([set("a", json!("zzworkflow"))]);
        let made = workflow(&full, "zanzibar-zzworkflow", json!([{"type": "manual"}]), steps).await;
        self.note("workflow", "zzworkflow", at(PATH, made), Some("workflow_success_percent"));
        workflow(&full, "plain", json!([{"type": "manual"}]), json!([set("a", json!(1))])).await;
        let started = run(&full, "plain", json!({"x": "zzrun"})).await;
        self.note("run", "zzrun", at(&format!("{PATH}/runs"), text(&started["id"])), Some("workflow_runs_ended"));
        let secrets = crate::named_secrets::SECRETS;
        let secret = json!({"name": "zanzibar_zzsecret", "value": "v4lue", "hosts": ["api.example.com"]});
        self.note("secret", "zzsecret", at(secrets, make(&full, secrets, secret).await), None);
        let provider = json!({"name": "zanzibar zzidp", "issuer": "https://id.acme.example", "client_id": "tenantd",
            "client_secret": "s3cret-of-the-client", "domains": ["zz.example"]});
        self.note("identity provider", "zzidp", at(sso::PROVIDERS, make(&full, sso::PROVIDERS, provider).await), None);
        let config = format!("/api/backup/config?scope={}", self.ours);
        let schedule = json!({"schedule": {"kind": "cron", "cron": "0 1 * * *", "timezone": "Antarctica/Troll"}});
        full.put(&config).json(schedule).send().await.ok(200);
        self.note("backup", "Antarctica/Troll", ("Antarctica/Troll".to_owned(), config), Some("backup_jobs"));
    }

    /// Runs of a caller with all rights: with a search, with a report, and with a call in both directions.
    async fn read_in_runs(&mut self) {
        let full = &self.full;
        let search = json!({"id": "find", "type": "search.query", "with": {"q": "{{ inputs.q }}", "limit": 100}});
        let report = json!({"id": "report", "type": "inventory.report", "with": {"limit": 10}});
        let ticket = json!({"id": "ticket", "type": "ticket.update", "with": {"id": self.records[0].id, "queue": "second"}});
        let back =
            |from: &str| json!({"id": "end", "type": "return", "with": {"output": format!("{{{{ steps.{from}.output }}}}")}});
        workflow(full, "searches", json!([{"type": "manual"}]), json!([search, back("find")])).await;
        workflow(full, "reports", json!([{"type": "manual"}]), json!([report, back("report")])).await;
        workflow(full, "changes", json!([{"type": "manual"}]), json!([ticket])).await;
        let call = |key: &str, inputs: Value| json!({"id": "call", "type": "workflow.call", "with": {"workflow_key": key, "inputs": inputs}});
        workflow(
            full,
            "calls",
            json!([{"type": "manual"}]),
            json!([call("searches", json!({"q": "{{ inputs.q }}"})), back("call")]),
        )
        .await;
        workflow(
            full,
            "passes",
            json!([{"type": "manual"}]),
            json!([search, call("plain", json!({"x": "{{ steps.find.output }}"}))]),
        )
        .await;
        let q = json!({"q": "zanzibar"});
        for key in ["searches", "reports", "changes", "calls", "passes"] {
            let ended = run(full, key, q.clone()).await;
            assert_eq!(ended["status"], "succeeded", "{key}: {ended}");
            self.runs.push((key, text(&ended["id"])));
            let effects = ended["steps"].as_array().unwrap().iter().flat_map(|step| step["effects"].as_array().unwrap());
            let called = effects.filter_map(|effect| effect["id"].as_str()).filter(|id| id.starts_with("run_"));
            self.runs.extend(called.map(|id| (if key == "calls" { "called" } else { "passed" }, id.to_owned())));
        }
        self.runs.sort_by(|left, right| left.1.cmp(&right.1));
        self.runs.dedup_by(|left, right| left.1 == right.1);
        assert_eq!(self.runs.len(), 7);
    }

    /// A key with these scopes, restricted to these organizations or not.
    async fn key(&self, name: &str, scopes: Value, organizations: Option<Value>) -> Reader {
        let mut body = json!({"name": name, "scopes": scopes});
        if let Some(organizations) = organizations {
            body["organization_ids"] = organizations;
        }
        let made = self.full.post(KEYS).json(body).send().await.ok(201).clone();
        self.reader(name, self.app.anonymous().bearer(made["key"].as_str().unwrap())).await
    }

    async fn reader(&self, name: &str, actor: Actor) -> Reader {
        let mut sees = Vec::new();
        for record in &self.records {
            let direct = actor.get(&record.path).send().await;
            assert!([200, 403, 404].contains(&direct.status), "{name} {}: {}", record.kind, direct.text);
            sees.push(direct.status == 200 && direct.text.contains(record.needle));
        }
        Reader { name: name.to_owned(), actor, sees }
    }

    async fn readers(&self) -> Vec<Reader> {
        let all: Vec<&str> =
            tenantd_base::access::Scope::ALL.iter().map(|scope| scope.name()).filter(|name| *name != "platform:read").collect();
        let mut readers = vec![self.reader("everything", self.full.clone()).await];
        assert!(readers[0].sees.iter().all(|sees| *sees), "{:?}", readers[0].sees);
        for scope in READS {
            let others: Vec<&str> = all.iter().copied().filter(|other| *other != scope).collect();
            readers.push(self.key(&format!("without {scope}"), json!(others), None).await);
            let with: Vec<&str> = WAYS.iter().copied().filter(|way| *way != scope).chain([scope]).collect();
            readers.push(self.key(&format!("with {scope}"), json!(with), None).await);
        }
        let audits = json!(["api_keys:read", "webhooks:read", "events:read", "users:read"]);
        readers.push(self.key("audits", audits, None).await);
        readers.push(self.key("ours", json!(["*"]), Some(json!([self.ours]))).await);
        readers.push(self.key("theirs", json!(["*"]), Some(json!([self.theirs]))).await);
        readers.push(self.reader("stranger", self.app.tenant("globex").await.key(&["*"]).await).await);
        for role in ["viewer", "technician"] {
            readers.push(self.reader(role, self.tenant.user(role).await).await);
        }
        readers
    }

    fn paths(&self) -> Vec<(String, String)> {
        let mut paths: Vec<(String, String)> = [
            ("tickets", format!("{TICKETS}?include_total=true&counts_by=organization,status")),
            ("tickets as csv", format!("{TICKETS}?format=csv")),
            ("tickets as lines", format!("{TICKETS}?format=ndjson")),
            ("inventory", format!("{INVENTORY}?include_total=true")),
            ("inventory as csv", format!("{INVENTORY}?format=csv")),
            ("inventory as lines", format!("{INVENTORY}?format=ndjson")),
            ("users", "/api/admin/users?limit=200".to_owned()),
            ("providers", PROVIDERS.to_owned()),
            ("vms", "/api/cloud/vms?limit=200".to_owned()),
            ("webhooks", format!("{WEBHOOKS}?limit=200")),
            ("keys", format!("{KEYS}?limit=200")),
            ("workflows", format!("{PATH}?limit=200")),
            ("run list", format!("{PATH}?view=runs&limit=200")),
            ("secrets", format!("{}?limit=200", crate::named_secrets::SECRETS)),
            ("identity providers", sso::PROVIDERS.to_owned()),
            ("search", "/api/search?q=zanzibar&limit=100&facets=organization,type".to_owned()),
            ("suggestions", "/api/search?q=zanz&mode=suggest&limit=20".to_owned()),
            ("audit", format!("{AUDIT}?limit=200")),
            ("audit as csv", format!("{AUDIT}?format=csv")),
            ("audit as lines", format!("{AUDIT}?format=ndjson")),
            ("analytics", "/api/analytics/tenant?range=24h".to_owned()),
            ("analytics as csv", "/api/analytics/tenant?range=24h&format=csv".to_owned()),
        ]
        .into_iter()
        .map(|(name, path)| (name.to_owned(), path))
        .collect();
        paths.extend(self.runs.iter().map(|(name, id)| (format!("run that {name}"), format!("{PATH}/runs/{id}"))));
        paths
    }

    async fn answers(&self, reader: &Reader) -> Answers {
        let actor = &reader.actor;
        let mut answers = Answers::new();
        for (name, path) in self.paths() {
            let reply = actor.get(&path).send().await;
            assert!([200, 403, 404].contains(&reply.status), "{} {name}: {}", reader.name, reply.text);
            answers.insert(name, (reply.status == 200).then_some(reply.text));
        }
        answers.insert("events".to_owned(), self.feed(actor).await);
        let rehearsal = json!({"workflow_key": "reports", "inputs": {"q": "zanzibar"}, "dry_run": true});
        let rehearsed = actor.post(PATH).json(rehearsal).send().await;
        answers.insert("dry run".to_owned(), (rehearsed.status == 200).then_some(rehearsed.text));
        if reader.name != "stranger" {
            answers.insert("own search in a run".to_owned(), self.own_search(reader).await);
            answers.insert("replayed webhook".to_owned(), self.replayed(reader).await);
        }
        answers
    }

    /// The whole feed of the fixture.
    async fn feed(&self, actor: &Actor) -> Option<String> {
        let (mut after, mut all) = (0, String::new());
        while after < self.last_seq {
            let page = actor.get(&format!("/api/events?limit=200&after={after}")).send().await;
            if page.status == 403 {
                return None;
            }
            after = page.ok(200)["next_after"].as_u64().unwrap();
            all.push_str(&page.text);
            if page.body["more"] == false {
                break;
            }
        }
        Some(all)
    }

    /// What the reader's own workflow finds, if the reader may have one and read its run.
    async fn own_search(&self, reader: &Reader) -> Option<String> {
        let key = format!("own-{}", reader.name.replace([' ', ':', '_'], "-"));
        let step = json!({"id": "find", "type": "search.query", "with": {"q": "{{ inputs.q }}", "limit": 100}});
        let definition = json!({"key": key, "name": key, "steps": [step]});
        let made = reader.actor.post(PATH).json(json!({"action": "create", "definition": definition})).send().await;
        if made.status == 403 {
            return None;
        }
        made.ok(201);
        let started = reader.actor.post(PATH).json(json!({"workflow_key": key, "inputs": {"q": "zanzibar"}})).send().await;
        let path = format!("{PATH}/runs/{}?wait_seconds=30", text(&started.ok(202)["id"]));
        let ended = reader.actor.get(&path).send().await;
        (ended.status == 200).then_some(ended.text)
    }

    /// What an endpoint of the reader receives in a replay of all events.
    async fn replayed(&self, reader: &Reader) -> Option<String> {
        let receiver = Receiver::always(200).await;
        let body = json!({"name": "own", "url": receiver.url(), "events": ["*"]});
        let made = reader.actor.post(WEBHOOKS).json(body).send().await;
        if made.status == 403 {
            return None;
        }
        let path = format!("{WEBHOOKS}/{}", text(&made.ok(201)["id"]));
        let range = json!({"from_seq": 1, "to_seq": self.last_seq, "only": "all"});
        let replay = reader.actor.post(&format!("{path}/replay")).json(range).send().await.ok(202).clone();
        let progress = format!("{path}/replays/{}", text(&replay["id"]));
        let wanted = loop {
            let replay = self.full.get(&progress).send().await.ok(200).clone();
            if replay["status"] == "succeeded" {
                break replay["queued"].as_u64().unwrap();
            }
        };
        let mut received = String::new();
        let mut replayed = 0;
        while replayed < wanted {
            let delivery = receiver.next().await;
            replayed += u64::from(delivery.json()["seq"].as_u64().unwrap() <= self.last_seq);
            received.push_str(&delivery.body);
        }
        self.full.delete(&path).send().await;
        Some(received)
    }
}

/// Whether a response shows a record.
fn shows(surface: &str, answer: &str, record: &Record) -> bool {
    if surface.starts_with("analytics") {
        return record
            .metric
            .is_some_and(|metric| answer.contains(&format!("\"{metric}\"")) || answer.contains(&format!("{metric},")));
    }
    // A record of the audit names its resource by id.
    answer.contains(record.needle) || (surface.starts_with("audit") && answer.contains(&record.id))
}

/// Whether a surface shows everything that its reader may see. A run of somebody else is shown completely or not at all.
fn is_exact(surface: &str) -> bool {
    !surface.starts_with("run that")
}

#[tokio::test]
async fn no_surface_shows_unreadable_records() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("api_keys.max_live", 1000);
    with_setup(setup, async |app| {
        let world = World::new(app).await;
        let readers = world.readers().await;
        let everything = world.answers(&readers[0]).await;
        // A reader with all rights: each surface shows something, and each record is on several surfaces.
        for (surface, answer) in &everything {
            let answer = answer.as_deref().unwrap_or_else(|| panic!("{surface} refuses everybody"));
            assert!(world.records.iter().any(|record| shows(surface, answer, record)), "{surface} shows nothing: {answer}");
        }
        for record in &world.records {
            let on = everything.iter().filter(|(surface, answer)| shows(surface, answer.as_deref().unwrap_or_default(), record));
            assert!(on.count() >= 3, "{} is on too few surfaces", record.kind);
        }
        let (mut cases, mut wrong) = (0, Vec::new());
        for (place, reader) in readers.iter().enumerate() {
            let mut answers = if place == 0 { everything.clone() } else { world.answers(reader).await };
            if reader.name == "stranger" {
                // The analytics of the reader's own tenant have the same names.
                answers.retain(|surface, _| !surface.starts_with("analytics"));
            }
            for (surface, answer) in &answers {
                for (record, sees) in world.records.iter().zip(&reader.sees) {
                    cases += 1;
                    let Some(answer) = answer else { continue };
                    let usual = everything.get(surface).and_then(Option::as_deref).is_some_and(|all| shows(surface, all, record));
                    // Nothing reads a secret, so the four scopes of the audit show its changes.
                    let audited = surface.starts_with("audit") && record.kind == "secret";
                    match shows(surface, answer, record) {
                        true if !sees && !audited => wrong.push(format!("{}: {surface} shows the {}", reader.name, record.kind)),
                        false if *sees && usual && is_exact(surface) => {
                            wrong.push(format!("{}: {surface} hides the {}", reader.name, record.kind));
                        }
                        _ => {}
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {cases} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
        assert!(cases >= 9_000, "there are only {cases} cases");
    })
    .await;
}

/// An unused id of the same kind.
fn unknown(record: &Record) -> Option<String> {
    let (prefix, _) = record.id.split_once('_')?;
    let path = record.path.replace(&record.id, &format!("{prefix}_01k9z7w3v5e8g9m2n4p6r8t0x1"));
    (path != record.path).then_some(path)
}

#[tokio::test]
async fn conditions_and_ids_do_not_reveal_unreadable_records() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("api_keys.max_live", 1000);
    with_setup(setup, async |app| {
        let world = World::new(app).await;
        let readers = world.readers().await;
        let mut cases = 0;
        for (place, record) in world.records.iter().enumerate() {
            // Where a condition has no meaning, it reveals nothing.
            let tag = world.full.get(&record.path).send().await.header("etag").to_owned();
            let unchanged = world.full.get(&record.path).header("if-none-match", "*").send().await.status;
            for reader in &readers {
                let case = format!("{}: {}", reader.name, record.kind);
                let sees = reader.sees[place];
                for condition in [tag.as_str(), "*"].into_iter().filter(|tag| !tag.is_empty()) {
                    let reply = reader.actor.get(&record.path).header("if-none-match", condition).send().await;
                    assert!(sees || reply.status != 304, "{case} is the same for whom it is not there");
                    assert!(!sees || reply.status == unchanged, "{case}: {}", reply.text);
                    cases += 1;
                }
                let Some(unknown) = unknown(record).filter(|_| !sees) else { continue };
                let (known, unknown) = (reader.actor.get(&record.path).send().await, reader.actor.get(&unknown).send().await);
                for member in ["status", "code", "detail", "required_scopes"] {
                    assert_eq!(known.body[member], unknown.body[member], "{case}: the response reveals that an id exists");
                }
                cases += 1;
            }
        }
        assert!(cases >= 700, "there are only {cases} cases");
    })
    .await;
}
