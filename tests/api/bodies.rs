//! Bodies of every operation. The documented examples work. Randomly damaged bodies get a success or a problem of the client, never
//! a server error.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    sample::Index,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use crate::{
    authorization::{NO_RECORD, fill},
    harness::{
        Actor, Reply, Setup,
        dns::{Answer, DnsServer},
        portal::portal_contact,
        with_setup,
    },
};

/// The number of damaged bodies per operation.
const TIMES: usize = 48;

struct Operation {
    id: String,
    /// The page of the operation in the documentation.
    page: String,
    method: String,
    path: String,
    example: Value,
    /// The members that its schemas know.
    members: Vec<String>,
    /// The examples of its schemas. `example` can be built from a schema without one.
    examples: Vec<Value>,
    /// The query that its examples need, if any.
    query: String,
    creates: bool,
}

fn members(document: &Value, schema: &Value) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return members(document, document.pointer(name.trim_start_matches('#')).unwrap());
    }
    let forms = ["anyOf", "oneOf", "allOf"].iter().filter_map(|word| schema[*word].as_array()).flatten();
    let own = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned());
    own.chain(forms.flat_map(|form| members(document, form))).collect()
}

fn examples(document: &Value, schema: &Value) -> Vec<Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return examples(document, document.pointer(name.trim_start_matches('#')).unwrap());
    }
    let forms = schema["anyOf"].as_array().into_iter().flatten();
    let own = schema["examples"].as_array().into_iter().flatten().cloned();
    own.chain(forms.flat_map(|form| examples(document, form))).collect()
}

async fn operations(actor: &Actor) -> Vec<Operation> {
    let mut found = Vec::new();
    for place in ["/api/openapi.json", "/internal/openapi.json"] {
        let document = actor.get(place).send().await.ok(200).clone();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let Some(body) = operation.pointer("/requestBody/content/application~1json") else { continue };
                let creates = method == "post" && !path.contains('{');
                let asks_for = |name: &str| {
                    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
                    parameters.any(|parameter| parameter["in"] == "query" && parameter["name"] == name)
                };
                let query = if asks_for("scope") {
                    "?scope=tenant".to_owned()
                } else if asks_for("id") && !creates && body["example"]["id"].is_null() {
                    format!("?id={}", fill(&format!("{path}/{{id}}")).rsplit('/').next().unwrap())
                } else {
                    String::new()
                };
                let (id, tag) = (operation["operationId"].as_str().unwrap(), operation["tags"][0].as_str().unwrap_or_default());
                let area = tag.chars().enumerate().flat_map(|(place, letter)| {
                    let hyphen = (letter.is_uppercase() && place > 0).then_some('-');
                    hyphen.into_iter().chain(letter.to_lowercase())
                });
                found.push(Operation {
                    page: format!("/documentation/api/{}/{id}/", area.collect::<String>()),
                    id: id.to_owned(),
                    method: method.to_uppercase(),
                    path: fill(path),
                    example: body["example"].clone(),
                    members: members(&document, &body["schema"]),
                    examples: examples(&document, &body["schema"]),
                    query,
                    creates,
                });
            }
        }
    }
    found
}

/// A value that rarely fits the schema, and is sometimes just within or beyond its bounds.
fn wild() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(String::new()),
        "\\PC{1,12}",
        "[\\x00-\\x1f\u{202e}\u{feff}\u{1f469}\u{200d}\u{1f52c}]{1,8}",
        "(tkt|org|dev|usr|key|prv|tnt)_[0-9a-z]{26}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
        "\\{\\{ ?[a-z.|()]{0,12} ?\\}?\\}?",
        (1_usize..70_000).prop_map(|length| "x".repeat(length)),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..200).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            proptest::collection::btree_map("[a-z_$./~]{0,8}", inner, 0..5).prop_map(|members| json!(members)),
            (1_usize..150).prop_map(|depth| (0..depth).fold(json!([]), |value, _| json!([value]))),
            (100_usize..1_100).prop_map(|length| Value::from(vec![1; length])),
        ]
    })
}

/// A mutation of a body.
#[derive(Clone, Debug)]
enum Harm {
    /// Another value at some place.
    Replace(Index, Value),
    /// A known member gets any value.
    Set(Index, Value),
    Remove(Index),
    /// The text is truncated, or has an invalid byte.
    Cut(Index),
    Flip(Index, u8),
    /// A member occurs twice.
    Twice(Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        4 => (any::<Index>(), wild()).prop_map(|(place, value)| Harm::Replace(place, value)),
        4 => (any::<Index>(), wild()).prop_map(|(place, value)| Harm::Set(place, value)),
        2 => any::<Index>().prop_map(Harm::Remove),
        1 => any::<Index>().prop_map(Harm::Cut),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(place, byte)| Harm::Flip(place, byte)),
        1 => any::<Index>().prop_map(Harm::Twice),
    ]
}

/// The JSON pointers of all values.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                places(inner, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(place, inner)| places(inner, &format!("{at}/{place}"), found)),
        _ => {}
    }
}

fn spoil(operation: &Operation, harm: Harm) -> Vec<u8> {
    let mut body = operation.example.clone();
    let mut found = Vec::new();
    places(&body, "", &mut found);
    match harm {
        Harm::Replace(place, value) => *body.pointer_mut(place.get::<String>(&found)).unwrap() = value,
        Harm::Set(place, value) if !operation.members.is_empty() && body.is_object() => {
            body[place.get::<String>(&operation.members)] = value;
        }
        Harm::Remove(place) if found.len() > 1 => {
            let (parent, name) = place.get::<String>(&found[1..]).rsplit_once('/').unwrap();
            if let Some(parent) = body.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(name);
            }
        }
        Harm::Cut(place) => {
            let text = body.to_string().into_bytes();
            return text[..place.index(text.len())].to_vec();
        }
        Harm::Flip(place, byte) => {
            let mut text = body.to_string().into_bytes();
            let place = place.index(text.len());
            text[place] = byte;
            return text;
        }
        Harm::Twice(place) if body.as_object().is_some_and(|members| !members.is_empty()) => {
            let names: Vec<&String> = body.as_object().unwrap().keys().collect();
            return body.to_string().replacen('{', &format!("{{{}:1,", json!(place.get(&names))), 1).into_bytes();
        }
        Harm::Set(..) | Harm::Remove(_) | Harm::Twice(_) => {}
    }
    body.to_string().into_bytes()
}

/// The operations on the own account, which need a person.
const OF_PEOPLE: [&str; 7] = [
    "/api/auth/preferences",
    "/api/auth/views",
    "/api/auth/confirm",
    "/api/auth/own-keys",
    "/api/auth/own-password",
    "/api/auth/factors",
    "/api/auth/sessions",
];

#[tokio::test]
async fn every_operation_survives_hostile_bodies() {
    // The test resolves every name itself and contacts no external server.
    let dns = DnsServer::answering(&["127.0.0.1"]).await;
    let setup = Setup::default().with("rate_limits.enabled", false).with("egress.dns_servers", format!("[\"{}\"]", dns.address));
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let (key, person, operator) = (acme.key(&["*"]).await, acme.admin().await, app.operator().await);
        let contact = portal_contact(app, &acme, &acme.organization("Acme").await, "grace@acme.example").await;
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), random);
        let operations = operations(&app.anonymous()).await;
        assert!(operations.len() > 40, "{}", operations.len());
        let mut taken = 0;
        for operation in &operations {
            assert!(operation.example.is_object() || operation.example.is_array(), "{} has no example", operation.path);
            let actor = match operation.path.as_str() {
                path if path.starts_with("/api/platform/") => &operator,
                path if path.starts_with("/api/portal/") => &contact,
                // An API key has no account of its own.
                path if OF_PEOPLE.iter().any(|area| path.starts_with(area)) => &person,
                _ => &key,
            };
            for _ in 0..TIMES {
                let harm = harm().new_tree(&mut runner).unwrap().current();
                let body = spoil(operation, harm.clone());
                let call = actor.call(&operation.method, &operation.path).text("application/json", body.clone());
                let reply = call.send().await;
                let case = || format!("{} {} {:.300}", operation.method, operation.path, String::from_utf8_lossy(&body));
                let is_of_others = reply.status == 502 && reply.body["code"] == "provider_error";
                assert!(reply.status < 500 || is_of_others, "{}: {}", case(), reply.text);
                assert_ne!(reply.status, 403, "{}", case());
                if reply.status >= 400 {
                    reply.problem(reply.status);
                } else {
                    taken += 1;
                }
            }
        }
        // Harmless mutations show that bodies are read completely and not refused for another reason.
        assert!(taken * 2 > operations.len(), "{taken}");
        assert_eq!(app.anonymous().get("/readyz").send().await.status, 200);
    })
    .await;
}

/// The names of existing records by their prefix: `tkt` of a ticket's id, `T` of its reference.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn learn(&mut self, record: &Value) {
        for name in [&record["id"], &record["ref"]].into_iter().filter_map(Value::as_str) {
            if let Some((kind, _)) = name.split_once(['_', '-']) {
                self.0.entry(kind.to_owned()).or_insert_with(|| name.to_owned());
            }
        }
    }

    fn in_target(&self, target: String) -> String {
        self.0.iter().fold(target, |target, (kind, name)| target.replace(&format!("{kind}{NO_RECORD}"), name))
    }

    fn in_body(&self, body: &Value) -> Value {
        let mut body = body.clone();
        let mut found = Vec::new();
        places(&body, "", &mut found);
        for place in found {
            if let Some(Value::String(text)) = body.pointer_mut(&place)
                && let Some((kind, _)) = text.split_once(['_', '-'])
                && let Some(name) = self.0.get(kind)
            {
                name.clone_into(text);
            }
        }
        body
    }
}

#[tokio::test]
async fn every_example_body_works_and_appends_only_the_events_on_its_page() {
    // The test resolves the names in examples itself and contacts no external server.
    let dns = DnsServer::start(|_, _| Answer::NoSuchName).await;
    let setup = Setup::default().with("rate_limits.enabled", false).with("egress.dns_servers", format!("[\"{}\"]", dns.address));
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let mut names = Names::default();
        let organization = acme.organization("Acme").await;
        names.learn(&json!({"id": organization}));
        let contact = portal_contact(app, &acme, &organization, "portal@acme.example").await;
        let starter = json!({"action": "create", "starter": "offboard-user"});
        names.learn(admin.post("/api/psa/workflows/trigger").json(starter).send().await.ok(201));
        let mut operations = operations(&app.anonymous()).await;
        // Records are deleted after everything that refers to them.
        let deletes = |one: &Operation| one.method == "DELETE" && one.path.starts_with("/api/directory/");
        operations.sort_by_key(|operation| (!operation.creates, deletes(operation)));
        // Staff have ids of the same kind, but are not contacts.
        let (mut others, mut contacts, mut of_portal) = (names, Names::default(), Names::default());
        let newest = admin.get("/api/events?order=desc&limit=1").send().await.ok(200).clone();
        let (mut sent, mut appended, mut unnamed, mut seq) = (0, 0, Vec::new(), newest["data"][0]["seq"].clone());
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].clone();
        for operation in &operations {
            let page = app.anonymous().get(&operation.page).send().await.text;
            let is_portal = operation.path.starts_with("/api/portal/");
            let names = match operation.path.as_str() {
                path if path.starts_with("/api/directory/contacts") => &mut contacts,
                _ if is_portal => &mut of_portal,
                _ => &mut others,
            };
            for example in &operation.examples {
                let target = names.in_target(format!("{}{}", operation.path, operation.query));
                let body = names.in_body(example);
                let actor = if is_portal { &contact } else { &admin };
                let reply = actor.call(&operation.method, &target).json(body.clone()).send().await;
                // The domain in the example is not verified, and its cloud does not support ordering VMs.
                let waits = ["sso_provider_not_found", "in_use"].iter().any(|code| reply.body["code"] == *code);
                // No example body can add a second factor, because it needs a code of the moment.
                let waits = waits || (operation.path.starts_with("/api/auth/factors/") && reply.status == 404);
                assert!(reply.status < 400 || waits, "{} {target} {body}: {}", operation.method, reply.text);
                names.learn(&reply.body);
                sent += 1;
                let feed = admin.get(&format!("/api/events?after={seq}&limit=200")).send().await.ok(200).clone();
                for event in
                    feed["data"].as_array().unwrap().iter().filter(|event| event["actor"]["id"] == me && event["cause"].is_null())
                {
                    let link = format!("/documentation/events/#{}\"", event["type"].as_str().unwrap());
                    appended += 1;
                    let is_internal = operation.path.starts_with("/internal/");
                    if !is_internal && !page.contains(&link) {
                        unnamed.push(format!("{} appends {}", operation.id, event["type"]));
                    }
                }
                seq = feed["next_after"].clone();
            }
        }
        assert!(unnamed.is_empty(), "{unnamed:?}");
        assert!(sent > 30 && appended > 30, "{sent} bodies, {appended} events");
    })
    .await;
}

/// Bodies with so many or such long errors that a problem cannot list them all.
fn excesses() -> Vec<(&'static str, String)> {
    let members = |count: usize| (0..count).map(|number| format!("\"f{number}\":1")).collect::<Vec<_>>().join(",");
    let long = "\u{1}".repeat(20_000).replace('\u{1}', "\\u0001");
    vec![
        ("unknown members", format!("{{{}}}", members(5_000))),
        ("wrong elements", format!("[{}]", vec!["1"; 20_000].join(","))),
        ("a long name", format!("{{\"{}\":1}}", "x".repeat(60_000))),
        ("a long name of control characters", format!("{{\"{long}\":1}}")),
        ("a long name twice", format!("{{\"{0}\":1,\"{0}\":2}}", "x".repeat(60_000))),
    ]
}

#[tokio::test]
async fn problems_are_bounded_in_errors_and_bytes() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let acme = app.tenant("acme").await;
        let (key, operator, anonymous) = (acme.key(&["*"]).await, app.operator().await, app.anonymous());
        let bounded = |reply: &Reply, case: &str| {
            if reply.status < 400 {
                return;
            }
            assert!(reply.text.len() <= 16 << 10, "{case}: {} bytes", reply.text.len());
            assert!(reply.body["errors"].as_array().is_none_or(|errors| errors.len() <= 50), "{case}");
        };
        let mut cut = 0;
        for operation in operations(&anonymous).await {
            let actor = if operation.path.starts_with("/api/platform/") { &operator } else { &key };
            for (what, body) in excesses() {
                for actor in [actor, &anonymous] {
                    let call = actor.call(&operation.method, &operation.path).text("application/json", body.clone());
                    let reply = call.send().await;
                    bounded(&reply, &format!("{} {}: {what}", operation.method, operation.path));
                    cut += usize::from(reply.body["more_errors"] == true);
                }
            }
        }
        assert!(cut > 40, "only {cut} problems had more errors than they list");
        // The largest body a caller can send, to a public operation and to one that needs a key.
        let fields = |count: usize| format!("{{{}}}", (0..count).map(|n| format!("\"f{n}\":1")).collect::<Vec<_>>().join(","));
        let strange = anonymous.post("/api/auth/login").text("application/json", fields(1_600)).send().await;
        assert_eq!((strange.problem(422), &strange.body["more_errors"]), ("validation_failed", &json!(true)));
        bounded(&strange, "login");
        let strange = key.post("/api/admin/api-keys").text("application/json", fields(80_000)).send().await;
        assert_eq!((strange.problem(422), &strange.body["more_errors"]), ("validation_failed", &json!(true)));
        bounded(&strange, "api-keys");
        let query: String = (0..1_500).map(|number| format!("p{number}=&")).collect();
        bounded(&key.get(&format!("/api/admin/api-keys?{query}")).send().await, "query");
        bounded(&anonymous.get(&format!("/{}", "x".repeat(14_000))).send().await, "path");
    })
    .await;
}
