//! Lists compared with a naive model: some hundred varied tickets, and every filter, sort, page and count against a plain filter
//! over the export of all tickets.

use std::{cmp::Ordering, time::Duration};

use serde_json::{Value, json};

use crate::harness::{Actor, Tenant, TestApp, with_app};

const TICKETS: &str = "/api/psa/tickets";
const COUNT: usize = 150;

/// A tenant with tickets of all kinds.
struct World {
    key: Actor,
    organizations: Vec<String>,
    contact: String,
    device: String,
    assignee: String,
}

/// A reproducible pseudorandom sequence.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

async fn world(app: &TestApp, acme: &Tenant<'_>) -> World {
    let key = acme.key(&["tickets:*", "events:read"]).await;
    let organizations =
        vec![acme.organization("Acme").await, acme.organization("Globex").await, acme.organization("Initech").await];
    let contact = acme.contact(&organizations[0], "grace@acme.example").await;
    let device = acme.device(&organizations[1], "PC-1").await;
    let technician = acme.user("technician").await;
    let assignee = technician.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
    let mut dice = Dice(7);
    for number in 0..COUNT {
        app.advance(Duration::from_secs(dice.below(7200) as u64));
        let mut body = json!({
            "subject": format!("{} {} {number}", dice.pick(&["Printer", "Drücker", "VPN", "Backup job"]), dice.pick(&["jams", "offline", "failed"])),
            "organization_id": organizations[dice.below(3)],
            "priority": dice.pick(&["critical", "high", "medium", "low"]),
            "type": dice.pick(&["incident", "service_request", "alert", "task"]),
            "source": dice.pick(&["api", "email", "monitoring"]),
            "tags": (0..dice.below(3)).map(|tag| ["vip", "remote", "site"][(tag + number) % 3]).collect::<Vec<_>>(),
        });
        if dice.below(3) == 0 {
            body["due_at"] = json!(format!("2026-02-{:02}T00:00:00Z", 1 + dice.below(28)));
        }
        if dice.below(4) == 0 {
            body["assignee_id"] = json!(assignee);
        }
        if dice.below(2) == 0 && body["organization_id"] == organizations[0] {
            body["contact_id"] = json!(contact);
        }
        if dice.below(2) == 0 && body["organization_id"] == organizations[1] {
            body["device_ids"] = json!([device]);
        }
        if dice.below(6) == 0 {
            body["external_refs"] = json!([{"system": dice.pick(&["jira", "snow"]), "id": format!("X-{}", dice.below(4))}]);
            body["dedup_key"] = json!(format!("k-{}", dice.below(3)));
            body["on_duplicate"] = json!("create");
        }
        key.post(TICKETS).json(body).send().await.ok(201);
    }
    for number in 1..=COUNT {
        app.advance(Duration::from_secs(dice.below(600) as u64));
        let path = format!("{TICKETS}/{number}");
        let patch = match dice.below(7) {
            0 => json!({"status": "resolved", "resolution": {"summary": "x"}}),
            1 => json!({"status": "waiting_customer"}),
            2 => json!({"status": "in_progress"}),
            3 => json!({"status": "cancelled"}),
            4 => json!({"queue": "moved"}),
            _ => continue,
        };
        key.patch(&path).json(patch).send().await.ok(200);
    }
    World { key, organizations, contact, device, assignee }
}

/// Every ticket, sorted by number.
async fn export(key: &Actor) -> Vec<Value> {
    let text = key.get(&format!("{TICKETS}?format=ndjson")).send().await.text;
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.pop(), Some(json!({"_end": true, "count": rows.len()})));
    rows
}

/// All pages of a query.
async fn list(key: &Actor, query: &str, limit: usize) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let continued = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = key.get(&format!("{TICKETS}?{query}&limit={limit}{continued}")).send().await;
        let data = page.ok(200)["data"].as_array().unwrap().clone();
        assert!(data.len() <= limit);
        found.extend(data);
        match page.body["page"]["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return found,
        }
    }
}

fn refs(tickets: &[Value]) -> Vec<String> {
    tickets.iter().map(|ticket| ticket["ref"].as_str().unwrap().to_owned()).collect()
}

fn text<'a>(ticket: &'a Value, field: &str) -> &'a str {
    ticket[field].as_str().unwrap_or("")
}

fn rank(priority: &Value) -> usize {
    ["critical", "high", "medium", "low"].iter().position(|word| priority == word).unwrap()
}

/// The order of a sort, by its definition.
fn compare(left: &Value, right: &Value, sort: &str) -> Ordering {
    let (name, reversed) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
    let number = |ticket: &Value| ticket["number"].as_u64().unwrap();
    let by_update = || (text(left, "updated_at"), number(left)).cmp(&(text(right, "updated_at"), number(right)));
    let turned = |order: Ordering| if reversed { order.reverse() } else { order };
    match name {
        "updated_at" => turned(by_update()),
        "priority" => turned(rank(&left["priority"]).cmp(&rank(&right["priority"])).then_with(by_update)),
        "due_at" => {
            let undated = left["due_at"].is_null().cmp(&right["due_at"].is_null());
            let within = (text(left, "due_at"), number(left)).cmp(&(text(right, "due_at"), number(right)));
            undated.then(turned(within))
        }
        _ => turned(number(left).cmp(&number(right))),
    }
}

type Matches = Box<dyn Fn(&Value) -> bool>;

fn has(list: &Value, field: &str, wanted: &str) -> bool {
    list.as_array().unwrap().iter().any(|entry| entry[field] == wanted)
}

/// Each filter, alone and combined, with its meaning.
fn filters(world: &World, all: &[Value]) -> Vec<(String, Matches)> {
    let (organization, other) = (world.organizations[0].clone(), world.organizations[2].clone());
    let (contact, device, assignee) = (world.contact.clone(), world.device.clone(), world.assignee.clone());
    let middle = text(&all[COUNT / 2], "created_at").to_owned();
    let updated = text(&all[COUNT / 3], "updated_at").to_owned();
    let is = |field: &'static str, words: &'static [&'static str]| -> Matches {
        Box::new(move |ticket| words.iter().any(|word| ticket[field] == *word))
    };
    let (organization2, organization3) = (organization.clone(), organization.clone());
    let (middle2, middle3, updated2) = (middle.clone(), middle.clone(), updated.clone());
    vec![
        ("status=new".to_owned(), is("status", &["new"])),
        ("status=resolved,in_progress".to_owned(), is("status", &["resolved", "in_progress"])),
        ("status_category=waiting,done".to_owned(), is("status_category", &["waiting", "done"])),
        ("status=new,resolved&status_category=done".to_owned(), is("status", &["resolved"])),
        ("status=new&status_category=done".to_owned(), Box::new(|_| false)),
        ("priority=critical,low".to_owned(), is("priority", &["critical", "low"])),
        ("type=alert".to_owned(), is("type", &["alert"])),
        ("source=email,monitoring".to_owned(), is("source", &["email", "monitoring"])),
        (format!("organization_id={organization}"), Box::new(move |t| t["organization"]["id"] == organization.as_str())),
        (
            format!("organization_id={organization2},{other}&priority=high"),
            Box::new(move |t| {
                (t["organization"]["id"] == organization2.as_str() || t["organization"]["id"] == other.as_str())
                    && t["priority"] == "high"
            }),
        ),
        (format!("contact_id={contact}"), Box::new(move |t| t["contact"]["id"] == contact.as_str())),
        (format!("assignee_id={assignee}"), Box::new(move |t| t["assignee"]["id"] == assignee.as_str())),
        (
            "assignee_id=none&tag=vip".to_owned(),
            Box::new(|t| t["assignee"].is_null() && t["tags"].as_array().unwrap().contains(&json!("vip"))),
        ),
        (format!("device_id={device}"), Box::new(move |t| has(&t["devices"], "id", &device))),
        (
            "tag=vip,remote".to_owned(),
            Box::new(|t| ["vip", "remote"].iter().any(|tag| t["tags"].as_array().unwrap().contains(&json!(tag)))),
        ),
        ("sla_state=breached,paused".to_owned(), Box::new(|t| t["sla"]["state"] == "breached" || t["sla"]["state"] == "paused")),
        ("dedup_key=k-1".to_owned(), is("dedup_key", &["k-1"])),
        ("external_system=jira".to_owned(), Box::new(|t| has(&t["external_refs"], "system", "jira"))),
        (
            "external_system=jira&external_id=X-1".to_owned(),
            Box::new(|t| t["external_refs"].as_array().unwrap().iter().any(|r| r["system"] == "jira" && r["id"] == "X-1")),
        ),
        (format!("created_after={middle}"), Box::new(move |t| text(t, "created_at") > middle.as_str())),
        (
            format!("created_before={middle2}&organization_id={organization3}"),
            Box::new(move |t| text(t, "created_at") < middle2.as_str() && t["organization"]["id"] == organization3.as_str()),
        ),
        (format!("updated_after={updated}"), Box::new(move |t| text(t, "updated_at") > updated.as_str())),
        (
            format!("updated_before={updated2}&created_after=2026-01-01T12:00:00Z"),
            Box::new(move |t| text(t, "updated_at") < updated2.as_str() && text(t, "created_at") > "2026-01-01T12:00:00.000Z"),
        ),
        (
            "due_before=2026-02-15T00:00:00Z".to_owned(),
            Box::new(|t| !t["due_at"].is_null() && text(t, "due_at") < "2026-02-15T00:00:00.000Z"),
        ),
        ("q=print".to_owned(), Box::new(|t| text(t, "subject").contains("Printer"))),
        ("q=DRUCK+fail".to_owned(), Box::new(|t| text(t, "subject").contains("Drücker") && text(t, "subject").contains("failed"))),
        (format!("created_after={middle3}&created_before=2026-01-01T00:00:00Z"), Box::new(|_| false)),
        (String::new(), Box::new(|_| true)),
    ]
}

#[tokio::test]
async fn every_filter_and_order_matches_a_naive_filter() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let world = world(app, &acme).await;
        let all = export(&world.key).await;
        assert_eq!(all.len(), COUNT);
        let sorts = [
            "-updated_at",
            "updated_at",
            "created_at",
            "-created_at",
            "number",
            "-number",
            "priority",
            "-priority",
            "due_at",
            "-due_at",
        ];
        for (place, (query, matches)) in filters(&world, &all).iter().enumerate() {
            let mut expected: Vec<Value> = all.iter().filter(|ticket| matches(ticket)).cloned().collect();
            for sort in sorts {
                expected.sort_by(|left, right| compare(left, right, sort));
                let found = list(&world.key, &format!("{query}&sort={sort}"), if place % 2 == 0 { 7 } else { 200 }).await;
                assert_eq!(refs(&found), refs(&expected), "{query} by {sort}");
            }
            expected.sort_by(|left, right| compare(left, right, "-updated_at"));
            let by_default = world
                .key
                .get(&format!("{TICKETS}?{query}&limit=200&include_total=true&counts_by=status,priority,assignee,organization"));
            let by_default = by_default.send().await.ok(200).clone();
            assert_eq!(refs(by_default["data"].as_array().unwrap()), refs(&expected), "{query}");
            assert_eq!(by_default["page"]["total"], expected.len(), "{query}");
            check_counts(&by_default["counts"], &expected, query);
        }
    })
    .await;
}

fn check_counts(counts: &Value, expected: &[Value], query: &str) {
    let by = |field: &str, value: &dyn Fn(&Value) -> String| {
        let mut naive = std::collections::BTreeMap::<String, u64>::new();
        for ticket in expected {
            *naive.entry(value(ticket)).or_default() += 1;
        }
        let given = counts[field].as_array().unwrap();
        let reported: std::collections::BTreeMap<String, u64> =
            given.iter().map(|count| (text(count, "value").to_owned(), count["count"].as_u64().unwrap())).collect();
        assert_eq!(reported, naive, "{query}: {field}");
        assert!(given.is_sorted_by(|left, right| left["count"].as_u64() >= right["count"].as_u64()));
    };
    by("status", &|ticket| text(ticket, "status").to_owned());
    by("priority", &|ticket| text(ticket, "priority").to_owned());
    by("assignee", &|ticket| ticket["assignee"]["id"].as_str().unwrap_or("none").to_owned());
    by("organization", &|ticket| ticket["organization"]["id"].as_str().unwrap().to_owned());
}

#[tokio::test]
async fn tickets_changed_since_an_event_are_listed() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*", "events:read"]).await;
        let organization = acme.organization("Acme").await;
        for _ in 0..4 {
            key.post(TICKETS).json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        }
        let seq = key.get("/api/events?limit=200").send().await.ok(200)["next_after"].as_u64().unwrap();
        let none = key.get(&format!("{TICKETS}?since_seq={seq}")).send().await;
        assert_eq!(none.ok(200)["data"], json!([]));
        app.advance(Duration::from_secs(5));
        key.patch(&format!("{TICKETS}/3")).json(json!({"queue": "x"})).send().await.ok(200);
        key.post(&format!("{TICKETS}/1/comments")).json(json!({"body": "x"})).send().await.ok(201);
        let changed = key.get(&format!("{TICKETS}?since_seq={seq}&sort=number&include_total=true")).send().await;
        assert_eq!(refs(changed.ok(200)["data"].as_array().unwrap()), ["T-1", "T-3"]);
        assert_eq!(changed.body["page"]["total"], 2);
    })
    .await;
}

#[tokio::test]
async fn cursors_are_stable_and_bound_to_their_query() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        let create = async |count: usize| {
            for _ in 0..count {
                app.advance(Duration::from_secs(1));
                let body = json!({"subject": "A", "organization_id": organization});
                key.post(TICKETS).json(body).send().await.ok(201);
            }
        };
        create(10).await;
        for query in ["status=new", "sort=priority", "sort=-number", &format!("organization_id={organization}&sort=due_at")] {
            let first = key.get(&format!("{TICKETS}?{query}&limit=4")).send().await;
            assert!(first.header("link").contains("rel=\"next\""));
            let cursor = first.ok(200)["page"]["next_cursor"].as_str().unwrap().to_owned();
            let seen = refs(first.body["data"].as_array().unwrap());
            let before = key.get(&format!("{TICKETS}?{query}&limit=4&cursor={cursor}")).send().await.ok(200)["data"].clone();
            create(1).await;
            let after = key.get(&format!("{TICKETS}?{query}&limit=4&cursor={cursor}")).send().await.ok(200)["data"].clone();
            assert_eq!(refs(before.as_array().unwrap()), refs(after.as_array().unwrap()), "{query}");
            assert!(refs(after.as_array().unwrap()).iter().all(|name| !seen.contains(name)));
            for other in ["status=open", "sort=due_at", ""] {
                let reply = key.get(&format!("{TICKETS}?{other}&limit=4&cursor={cursor}")).send().await;
                assert_eq!(reply.problem(400), "cursor_mismatch");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_bounded_count_is_exact_or_says_that_it_is_not() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["tickets:*"]).await;
        let organization = acme.organization("Acme").await;
        for number in 0..30 {
            let priority = if number % 3 == 0 { "high" } else { "low" };
            let body = json!({"subject": format!("Printer {number}"), "organization_id": organization, "priority": priority});
            key.post(TICKETS).json(body).send().await.ok(201);
        }
        let counted = async |query: &str| {
            let list = key.get(&format!("{TICKETS}?limit=5&{query}")).send().await.ok(200).clone();
            (list["page"]["total"].clone(), list["total_is_minimum"].clone())
        };
        assert_eq!(counted("q=printer&priority=high&count_up_to=1000").await, (json!(10), json!(false)));
        let (found, is_minimum) = counted("q=printer&priority=high&count_up_to=6").await;
        assert!(is_minimum == true && found.as_u64().unwrap() <= 6, "{found} {is_minimum}");
        assert_eq!(counted("priority=high&count_up_to=1").await, (json!(10), json!(false)), "counters cost nothing");
        assert_eq!(counted("q=printer&priority=high&count_up_to=1&include_total=true").await, (json!(10), json!(false)));
        assert_eq!(counted("q=printer").await, (Value::Null, Value::Null));
        let first = key.get(&format!("{TICKETS}?limit=5&q=printer&count_up_to=4")).send().await.ok(200).clone();
        let cursor = first["page"]["next_cursor"].as_str().unwrap();
        key.get(&format!("{TICKETS}?limit=5&q=printer&cursor={cursor}")).send().await.ok(200);
        let stream = key.get(&format!("{TICKETS}?format=csv&count_up_to=4")).send().await;
        assert_eq!(stream.problem(422), "validation_failed");
        assert_eq!(stream.field_errors(), [("count_up_to".to_owned(), "not_allowed".to_owned())]);
    })
    .await;
}
