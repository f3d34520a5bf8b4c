//! Preferences and saved views: only a signed-in person has them, and they belong to that person alone.

use serde_json::{Value, json};

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{Key, catalog, rows_under};

use crate::{
    harness::{Actor, Setup, TestApp, forge::Forged, with_app},
    transfer::{export, import, import_as},
};

const PREFERENCES: &str = "/api/auth/preferences";
const VIEWS: &str = "/api/auth/views";
const QUERY: &str = "status=open&sort=-priority";

fn view(area: &str, name: &str) -> Value {
    json!({"area": area, "name": name, "query": QUERY})
}

async fn save(actor: &Actor, area: &str, name: &str) -> Value {
    actor.post(VIEWS).json(view(area, name)).send().await.ok(201).clone()
}

fn path(view: &Value) -> String {
    format!("{VIEWS}/{}", view["id"].as_str().unwrap())
}

/// The names of the views in a list.
async fn names(actor: &Actor, query: &str) -> Vec<String> {
    let list = actor.get(&format!("{VIEWS}{query}")).send().await.ok(200).clone();
    list["data"].as_array().unwrap().iter().map(|view| view["name"].as_str().unwrap().to_owned()).collect()
}

/// How many preferences and views the store has for a tenant.
fn rows(app: &TestApp, tenant: &str) -> [u64; 2] {
    let prefix = tenant.parse::<TenantId>().unwrap().to_bytes();
    let store = &app.running().app.store;
    [catalog::PREFERENCES, catalog::SAVED_VIEWS].map(|table| store.read(|tx| rows_under(tx, table, &prefix)).unwrap())
}

#[tokio::test]
async fn preferences_and_views_survive_a_restart() {
    let setup = || Setup::default().with("rate_limits.enabled", false);
    let start = Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup(), start).await;
    let person = app.tenant("acme").await.user("viewer").await;
    let unset = person.get(PREFERENCES).send().await;
    assert_eq!((unset.ok(200), unset.header("etag")), (&json!({"theme": "system", "version": 0}), "\"v0\""));
    let set = person.patch(PREFERENCES).json(json!({"time_zone": "Europe/Berlin", "theme": "dark"})).send().await;
    let expected = json!({"time_zone": "Europe/Berlin", "theme": "dark", "version": 1});
    assert_eq!((set.ok(200), set.header("etag")), (&expected, "\"v1\""));
    let saved = save(&person, "tickets", "Open").await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup(), now).await;
    let person = person.moved(app.base_url());
    assert_eq!(person.get(PREFERENCES).send().await.ok(200), &expected);
    assert_eq!(person.get(VIEWS).send().await.ok(200)["data"], json!([saved]));
    app.stop().await;
}

#[tokio::test]
async fn a_change_keeps_the_fields_that_it_omits() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let person = acme.user("viewer").await;
        let change = async |body: Value| person.patch(PREFERENCES).json(body).send().await.ok(200).clone();
        change(json!({"time_zone": "Europe/Berlin"})).await;
        let both = json!({"time_zone": "Europe/Berlin", "theme": "light", "version": 2});
        assert_eq!(change(json!({"theme": "light"})).await, both);
        assert_eq!(change(json!({"theme": "light"})).await, both, "nothing changed");
        let stale = person.patch(PREFERENCES).header("if-match", "\"v1\"").json(json!({"theme": "dark"})).send().await;
        assert_eq!((stale.problem(412), &stale.body["current_version"]), ("version_conflict", &json!(2)));
        assert_eq!(change(json!({"time_zone": null})).await, json!({"theme": "light", "version": 3}));
        assert_eq!(person.get(PREFERENCES).header("if-none-match", "\"v3\"").send().await.status, 304);
    })
    .await;
}

#[tokio::test]
async fn changes_are_events_for_administrators_and_are_not_audited() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, person) = (acme.admin().await, acme.user("viewer").await);
        let me = person.get("/api/auth/session").send().await.ok(200)["id"].clone();
        person.patch(PREFERENCES).json(json!({"theme": "dark"})).send().await.ok(200);
        let saved = save(&person, "devices", "Servers").await;
        assert_eq!(person.delete(&path(&saved)).send().await.status, 204);
        let feed = admin.get("/api/events?types=preferences.updated,view.*&limit=200").send().await.ok(200).clone();
        let events = feed["data"].as_array().unwrap();
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["preferences.updated", "view.created", "view.deleted"]);
        assert!(events.iter().all(|event| event["actor"]["id"] == me), "{feed}");
        assert_eq!((&events[0]["resource"]["id"], &events[1]["resource"]["id"]), (&me, &saved["id"]));
        assert_eq!(events[0]["data"]["changes"], json!({"theme": {"from": "system", "to": "dark"}}));
        assert_eq!((&events[1]["data"]["view"], &events[2]["data"]["view"]), (&saved, &saved));
        let reader = acme.key(&["events:read", "users:read"]).await;
        let feed = reader.get("/api/events?limit=200").send().await;
        assert!(
            feed.status == 200 && !feed.text.contains("preferences.updated") && !feed.text.contains("\"view."),
            "{}",
            feed.text
        );
        let trail = admin.get("/api/admin/audit?limit=200").send().await;
        assert!(trail.status == 200 && !trail.text.contains("preferences.updated") && !trail.text.contains("view.created"));
    })
    .await;
}

#[tokio::test]
async fn view_names_are_unique_within_an_area() {
    with_app(async |app| {
        let person = app.tenant("acme").await.user("viewer").await;
        let body = view("tickets", "Urgent");
        let created = person.post(VIEWS).header("idempotency-key", "one").json(body.clone()).send().await;
        let saved = created.ok(201).clone();
        assert!(saved["id"].as_str().unwrap().starts_with("viw_"), "{saved}");
        assert_eq!((created.header("location"), &saved["query"]), (path(&saved).as_str(), &json!(QUERY)));
        let again = person.post(VIEWS).header("idempotency-key", "one").json(body).send().await;
        assert_eq!((again.ok(201), again.header("idempotency-replayed")), (&saved, "true"));
        for name in ["Urgent", "urgent"] {
            assert_eq!(person.post(VIEWS).json(view("tickets", name)).send().await.problem(409), "already_exists", "{name}");
        }
        save(&person, "devices", "Urgent").await;
        assert_eq!(person.delete(&path(&saved)).send().await.status, 204);
        assert_eq!(person.delete(&path(&saved)).send().await.problem(404), "not_found");
        save(&person, "tickets", "urgent").await;
    })
    .await;
}

#[tokio::test]
async fn views_are_listed_by_area_and_page() {
    with_app(async |app| {
        let person = app.tenant("acme").await.user("viewer").await;
        assert_eq!(names(&person, "").await, Vec::<String>::new());
        for (area, name) in [("tickets", "A"), ("devices", "B"), ("tickets", "C")] {
            app.advance(std::time::Duration::from_millis(1));
            save(&person, area, name).await;
        }
        assert_eq!(names(&person, "").await, ["A", "B", "C"]);
        assert_eq!(names(&person, "?area=tickets").await, ["A", "C"]);
        assert_eq!(names(&person, "?area=organizations").await, Vec::<String>::new());
        let first = person.get(&format!("{VIEWS}?limit=2&include_total=true")).send().await.ok(200).clone();
        assert_eq!((first["data"].as_array().unwrap().len(), &first["page"]["total"]), (2, &json!(3)));
        let cursor = first["page"]["next_cursor"].as_str().unwrap();
        assert_eq!(names(&person, &format!("?limit=2&cursor={cursor}")).await, ["C"]);
    })
    .await;
}

#[tokio::test]
async fn wrong_input_is_refused() {
    with_app(async |app| {
        let person = app.tenant("acme").await.user("viewer").await;
        let berlin = person.patch(PREFERENCES).json(json!({"time_zone": "Berlin"})).send().await;
        assert_eq!(berlin.problem(422), "validation_failed");
        assert_eq!(berlin.field_errors(), [("/time_zone".to_owned(), "unknown_time_zone".to_owned())]);
        assert_eq!(berlin.body["errors"][0]["suggestion"], "Europe/Berlin");
        let places = async |method: &str, target: &str, body: Value| {
            let refused = person.call(method, target).json(body).send().await;
            assert_eq!(refused.problem(422), "validation_failed", "{}", refused.text);
            refused.field_errors().into_iter().map(|(place, _)| place).collect::<Vec<_>>()
        };
        let change = json!({"time_zone": "Mars/Base", "theme": "pink"});
        assert_eq!(places("PATCH", PREFERENCES, change).await, ["/theme", "/time_zone"]);
        let wrong = json!({"area": "clouds", "name": " ", "query": "?status=open"});
        assert_eq!(places("POST", VIEWS, wrong).await, ["/area", "/name", "/query"]);
        for query in ["a b", "q=Müller", "q=%zz", "=open", &"x".repeat(2001)] {
            let body = json!({"area": "tickets", "name": "A", "query": query});
            assert_eq!(places("POST", VIEWS, body).await, ["/query"], "{query}");
        }
        let long = json!({"area": "tickets", "name": "x".repeat(61), "query": ""});
        assert_eq!(places("POST", VIEWS, long).await, ["/name"]);
        assert_eq!(person.get(&format!("{VIEWS}?area=clouds")).send().await.problem(422), "validation_failed");
        assert_eq!(names(&person, "").await, Vec::<String>::new());
        assert_eq!(person.get(PREFERENCES).send().await.ok(200)["version"], 0);
    })
    .await;
}

#[tokio::test]
async fn a_person_has_at_most_100_views() {
    with_app(async |app| {
        let person = app.tenant("acme").await.user("viewer").await;
        let first = save(&person, "tickets", "first").await;
        for number in 1..100 {
            save(&person, "devices", &number.to_string()).await;
        }
        assert_eq!(person.post(VIEWS).json(view("tickets", "more")).send().await.problem(422), "limit_reached");
        assert_eq!(names(&person, "?limit=200").await.len(), 100);
        assert_eq!(person.delete(&path(&first)).send().await.status, 204);
        save(&person, "tickets", "more").await;
    })
    .await;
}

#[tokio::test]
async fn other_people_find_nothing() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (person, colleague) = (acme.user("viewer").await, acme.admin().await);
        let stranger = app.tenant("globex").await.admin().await;
        person.patch(PREFERENCES).json(json!({"theme": "dark"})).send().await.ok(200);
        let saved = save(&person, "tickets", "Mine").await;
        for other in [&colleague, &stranger] {
            assert_eq!(other.get(PREFERENCES).send().await.ok(200)["theme"], "system");
            assert_eq!(names(other, "").await, Vec::<String>::new());
            assert_eq!(other.delete(&path(&saved)).send().await.problem(404), "not_found");
        }
        // Both can have a view with this name.
        save(&colleague, "tickets", "Mine").await;
        assert_eq!(names(&person, "").await, ["Mine"]);
    })
    .await;
}

#[tokio::test]
async fn an_api_key_has_no_preferences() {
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["*"]).await;
        let one = format!("{VIEWS}/viw_01k9z7w3v5e8g9m2n4p6r8t0x1");
        for actor in [&key, &app.local()] {
            for (method, target, body) in [
                ("GET", PREFERENCES, None),
                ("PATCH", PREFERENCES, Some(json!({"theme": "dark"}))),
                ("GET", VIEWS, None),
                ("POST", VIEWS, Some(view("tickets", "A"))),
                ("DELETE", one.as_str(), None),
            ] {
                let call = actor.call(method, target);
                let refused = if let Some(body) = body { call.json(body).send().await } else { call.send().await };
                assert_eq!(refused.problem(403), "insufficient_authority", "{method} {target}");
                assert!(refused.body["detail"].as_str().unwrap().contains("Sign in"), "{}", refused.text);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn removing_a_person_removes_what_they_stored() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, person) = (acme.admin().await, acme.user("viewer").await);
        person.patch(PREFERENCES).json(json!({"theme": "dark"})).send().await.ok(200);
        save(&person, "tickets", "A").await;
        save(&person, "devices", "A").await;
        save(&admin, "tickets", "A").await;
        assert_eq!(rows(app, &acme.id), [1, 3]);
        let id = person.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        assert_eq!(admin.delete(&format!("/api/admin/users/{id}")).send().await.status, 204);
        assert_eq!(rows(app, &acme.id), [0, 1]);
        assert_eq!(names(&admin, "").await, ["A"]);
    })
    .await;
}

/// A change of an export, and what the import says about it.
type Forgery<'a> = (&'a dyn Fn(&mut Forged), &'a str);

#[tokio::test]
async fn preferences_and_views_move_with_their_tenant() {
    with_app(async |old| {
        let acme = old.tenant("acme").await;
        let person = acme.user("viewer").await;
        let set = person.patch(PREFERENCES).json(json!({"time_zone": "Asia/Kathmandu"})).send().await.ok(200).clone();
        let saved = save(&person, "organizations", "All").await;
        let file = export(old, &acme.id, json!({})).await;
        with_app(async |new| {
            let nobody = "[\"usr_01k9z7w3v5e8g9m2n4p6r8t0x1\",\"viw_01k9z7w3v5e8g9m2n4p6r8t0x1\"]";
            let forgeries: [Forgery<'_>; 3] = [
                (
                    &|forged| forged.change("preferences", |record| record["time_zone"] = json!("Mars/Base")),
                    "not an IANA time zone",
                ),
                (&|forged| forged.change("view", |record| record["query"] = json!("a b")), "must be a query string"),
                (&|forged| nobody.clone_into(&mut forged.line("view").key), "who is not in the file"),
            ];
            for (forge, expected) in forgeries {
                let mut forged = Forged::of(&file);
                forge(&mut forged);
                let order = json!({"mode": "import", "accept_unverified": true});
                let answer = import_as(new, &order, &forged.file(None)).await;
                assert_eq!(answer["done"], false, "{answer}");
                assert!(answer["error"].as_str().unwrap().contains(expected), "{answer}");
            }
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert_eq!(done["done"], true, "{done}");
            let moved = new.sign_in("viewer@acme.example").await;
            assert_eq!(moved.get(PREFERENCES).send().await.ok(200), &set);
            assert_eq!(moved.get(VIEWS).send().await.ok(200)["data"], json!([saved]));
        })
        .await;
    })
    .await;
}
