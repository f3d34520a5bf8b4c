//! Records that move between organizations: on every surface, readers see the records that are within their reach now. A move needs
//! write access on both sides.

use serde_json::{Value, json};

use crate::{
    cloud::{PROVIDERS, create, refresh, simulated},
    harness::{Actor, Tenant, TestApp, with_app},
    inventory::ingest,
};

const KEYS: &str = "/api/admin/api-keys";
const TICKETS: &str = "/api/psa/tickets";
const USERS: &str = "/api/admin/users";

/// A reader, and the organizations within its reach; `None` for all.
struct Reader {
    name: &'static str,
    actor: Actor,
    reach: Option<Vec<usize>>,
    is_stranger: bool,
    reads_users: bool,
}

impl Reader {
    fn covers(&self, organization: usize) -> bool {
        !self.is_stranger && self.reach.as_ref().is_none_or(|reach| reach.contains(&organization))
    }
}

struct Estate {
    full: Actor,
    organizations: Vec<String>,
    ticket: String,
    device: String,
    provider: String,
    contact: String,
}

const NAMES: [&str; 2] = ["north", "south"];

fn device(organization: &str) -> Value {
    json!({"kind": "device", "external_id": "d", "name": "quokka-device", "organization_external_id": organization})
}

fn contact(organization: &str) -> Value {
    json!({"kind": "user", "external_id": "c", "name": "quokka contact", "email": "q@c.example", "organization_external_id": organization})
}

fn field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap().to_owned()
}

impl Estate {
    /// One record of each kind, all of the first organization.
    async fn new(tenant: &Tenant<'_>) -> Self {
        let full = tenant.key(&["*"]).await;
        let organization = |name: &str| json!({"kind": "organization", "external_id": name, "name": format!("The {name} company")});
        let made = ingest(&full, &[organization(NAMES[0]), organization(NAMES[1]), device(NAMES[0]), contact(NAMES[0])]).await;
        let ids: Vec<String> = made.iter().take(4).map(|line| field(line, "id")).collect();
        let body = json!({"subject": "quokka ticket", "organization_id": ids[0], "device_ids": [ids[2]], "contact_id": ids[3]});
        let ticket = field(full.post(TICKETS).json(body).send().await.ok(201), "id");
        let mut provider = simulated("quokka provider", json!({"seed": 7, "vm_count": 2}));
        provider["organization_id"] = json!(ids[0]);
        let provider = field(&create(&full, provider).await, "id");
        refresh(&full).await;
        let [device, contact] = [ids[2].clone(), ids[3].clone()];
        Self { full, organizations: ids[..2].to_vec(), ticket, device, provider, contact }
    }

    /// Tries to move a record of this kind. Returns whether the move was allowed.
    async fn moves(&self, actor: &Actor, kind: &str, to: usize) -> bool {
        let target = json!({"organization_id": self.organizations[to]});
        let reply = match kind {
            "ticket" => actor.patch(&format!("{TICKETS}/{}", self.ticket)).json(target).send().await,
            "provider" => actor.put(&format!("{PROVIDERS}/{}", self.provider)).json(target).send().await,
            "contact" if actor.get(USERS).send().await.status == 200 => {
                actor.put(&format!("{USERS}/{}", self.contact)).json(target).send().await
            }
            _ => {
                let line = if kind == "device" { device(NAMES[to]) } else { contact(NAMES[to]) };
                let reply = actor.post("/internal/ingest").text("application/x-ndjson", line.to_string()).send().await;
                if reply.status != 200 {
                    return false;
                }
                return reply.lines(200)[0]["status"] == "updated";
            }
        };
        assert!([200, 403, 404, 422].contains(&reply.status), "{kind}: {}", reply.text);
        reply.status == 200
    }

    async fn key(&self, app: &TestApp, name: &'static str, reach: Option<Vec<usize>>) -> Reader {
        let mut body = json!({"name": name, "scopes": ["*"]});
        if let Some(reach) = &reach {
            body["organization_ids"] = reach.iter().map(|place| self.organizations[*place].clone()).collect();
        }
        let key = self.full.post(KEYS).json(body).send().await.ok(201).clone();
        let actor = app.anonymous().bearer(key["key"].as_str().unwrap());
        Reader { name, actor, reads_users: reach.is_none(), reach, is_stranger: false }
    }

    /// The responses of each surface for records of a kind, and the names of the surfaces.
    async fn surfaces(&self, actor: &Actor, kind: &str) -> Vec<(&'static str, String)> {
        let paths = match kind {
            "ticket" => vec![
                ("direct", format!("{TICKETS}/{}", self.ticket)),
                ("list", format!("{TICKETS}?include_total=true")),
                ("csv", format!("{TICKETS}?format=csv")),
                ("search", "/api/search?q=quokka&types=ticket".to_owned()),
            ],
            "device" => vec![
                ("list", "/api/rmm/reports/asset-inventory?include_total=true".to_owned()),
                ("csv", "/api/rmm/reports/asset-inventory?format=csv".to_owned()),
                ("search", "/api/search?q=quokka&types=device".to_owned()),
                ("suggestions", "/api/search?q=quok&types=device&mode=suggest".to_owned()),
            ],
            "provider" => vec![
                ("direct", format!("{PROVIDERS}/{}", self.provider)),
                ("list", format!("{PROVIDERS}?include_total=true")),
                ("vms", "/api/cloud/vms?include_total=true".to_owned()),
                ("search", "/api/search?q=quokka&types=provider".to_owned()),
            ],
            _ => vec![
                ("direct", format!("{USERS}/{}", self.contact)),
                ("list", format!("{USERS}?kind=contact&include_total=true")),
                ("search", "/api/search?q=quokka&types=user".to_owned()),
                ("suggestions", "/api/search?q=quok&types=user&mode=suggest".to_owned()),
            ],
        };
        let mut answers = Vec::new();
        for (surface, path) in paths {
            let reply = actor.get(&path).send().await;
            assert!([200, 403, 404].contains(&reply.status), "{surface}: {}", reply.text);
            if let Some(total) = reply.body["page"]["total"].as_u64() {
                let shown = reply.body["data"].as_array().unwrap().len() as u64;
                assert_eq!(total, shown, "{kind} {surface}: {}", reply.text);
            }
            answers.push((surface, if reply.status == 200 { reply.text } else { String::new() }));
        }
        answers
    }
}

const KINDS: [&str; 4] = ["ticket", "device", "provider", "contact"];

async fn look(estate: &Estate, readers: &[Reader], at: usize) -> u32 {
    let mut cases = 0;
    for reader in readers {
        for kind in KINDS {
            for (surface, answer) in estate.surfaces(&reader.actor, kind).await {
                cases += 1;
                // A ticket names its device and its contact, so each response is searched for its own kind.
                let needle = if kind == "device" { "quokka-device".to_owned() } else { format!("quokka {kind}") };
                let needle = if surface == "vms" { estate.provider.clone() } else { needle };
                let sees = reader.covers(at) && (kind != "contact" || reader.reads_users);
                assert_eq!(answer.contains(&needle), sees, "{} {kind} {surface} in {at}: {answer}", reader.name);
                let elsewhere = format!("The {} company", NAMES[1 - at]);
                assert!(reader.covers(1 - at) || !answer.contains(&elsewhere), "{} {kind} {surface}: {answer}", reader.name);
            }
        }
    }
    cases
}

async fn readers(app: &TestApp, tenant: &Tenant<'_>, estate: &Estate) -> Vec<Reader> {
    let of_tenant = |name, actor, is_stranger| Reader { name, actor, reach: None, is_stranger, reads_users: true };
    vec![
        estate.key(app, "north", Some(vec![0])).await,
        estate.key(app, "south", Some(vec![1])).await,
        estate.key(app, "both", Some(vec![0, 1])).await,
        estate.key(app, "all", None).await,
        of_tenant("viewer", tenant.user("viewer").await, false),
        of_tenant("stranger", app.tenant("globex").await.key(&["*"]).await, true),
    ]
}

#[tokio::test]
async fn a_moved_record_is_visible_in_its_new_place_only() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let estate = Estate::new(&tenant).await;
        let readers = readers(app, &tenant, &estate).await;
        let mut cases = look(&estate, &readers, 0).await;
        for to in [1, 0, 1] {
            for kind in KINDS {
                assert!(estate.moves(&estate.full, kind, to).await, "{kind}");
            }
            cases += look(&estate, &readers, to).await;
        }
        assert!(cases >= 360, "there are only {cases} cases");
    })
    .await;
}

#[tokio::test]
async fn a_move_needs_write_access_on_both_sides() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let estate = Estate::new(&tenant).await;
        let readers = readers(app, &tenant, &estate).await;
        let mut cases = 0;
        for kind in KINDS {
            let mut at = 0;
            for reader in &readers {
                let to = 1 - at;
                let may = reader.covers(at) && reader.covers(to) && reader.name != "viewer";
                assert_eq!(estate.moves(&reader.actor, kind, to).await, may, "{} moves a {kind} to {to}", reader.name);
                if may {
                    at = to;
                }
                let is_there = estate.surfaces(&readers[at].actor, kind).await;
                assert!(kind == "contact" || is_there.iter().all(|(_, answer)| !answer.is_empty()), "{kind} is not in {at}");
                cases += 1;
            }
        }
        assert_eq!(cases, 24);
    })
    .await;
}

#[tokio::test]
async fn a_ticket_hides_references_out_of_reach() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let estate = Estate::new(&tenant).await;
        let readers = readers(app, &tenant, &estate).await;
        let (north, south) = (&readers[0].actor, &readers[1].actor);
        let path = format!("{TICKETS}/{}", estate.ticket);
        let shown = north.get(&path).send().await;
        assert!(shown.text.contains("quokka-device") && shown.text.contains("quokka contact"));
        // The device and the contact move. The ticket stays and keeps their ids.
        for kind in ["device", "contact"] {
            assert!(estate.moves(&estate.full, kind, 1).await);
        }
        estate.full.post(&format!("{path}/comments")).json(json!({"body": "hello"})).send().await.ok(201);
        let history = format!("{path}/history");
        let note = json!({"subject": "quokka ticket, noted"});
        for (surface, reply) in [
            ("direct", north.get(&path).send().await),
            ("list", north.get(TICKETS).send().await),
            ("csv", north.get(&format!("{TICKETS}?format=csv")).send().await),
            ("lines", north.get(&format!("{TICKETS}?format=ndjson")).send().await),
            ("history", north.get(&history).send().await),
            ("change", north.patch(&path).json(note.clone()).send().await),
            ("rehearsal", north.patch(&format!("{path}?dry_run=true")).json(json!({"subject": "other"})).send().await),
        ] {
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert!(reply.text.contains("quokka ticket") || surface == "rehearsal", "{surface}: {}", reply.text);
            for hidden in ["quokka-device", "quokka contact", "q@c.example"] {
                assert!(!reply.text.contains(hidden), "{surface} shows {hidden}: {}", reply.text);
            }
            assert!(surface == "csv" || reply.text.contains(&estate.device), "{surface}: {}", reply.text);
        }
        assert!(estate.full.get(&path).send().await.text.contains("quokka-device"));
        // The ticket follows. Its history in the north stays invisible to the south.
        assert!(estate.moves(&estate.full, "ticket", 1).await);
        estate.full.patch(&path).json(json!({"subject": "quokka ticket in the south"})).send().await.ok(200);
        let seen = south.get(&history).send().await;
        assert_eq!(seen.ok(200)["data"].as_array().unwrap().len(), 1, "{}", seen.text);
        assert!(!seen.text.contains("The north company") && !seen.text.contains(&estate.organizations[0]), "{}", seen.text);
        assert_eq!(north.get(&history).send().await.problem(404), "not_found");
        assert_eq!(estate.full.get(&history).send().await.ok(200)["data"].as_array().unwrap().len(), 5);
    })
    .await;
}
