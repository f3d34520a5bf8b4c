//! Lists of keys: filters, sorts, and pages that stay stable while keys are added and removed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, with_app};

const KEYS: &str = "/api/admin/api-keys";

fn names(list: &Value) -> Vec<String> {
    list["data"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
}

async fn list(actor: &Actor, query: &str) -> Vec<String> {
    names(actor.get(&format!("{KEYS}?{query}")).send().await.ok(200))
}

/// Four keys, a second apart: Alpha (ends first), bravo, Charlie (disabled), Delta (revoked).
async fn four_keys(app: &crate::harness::TestApp, actor: &Actor) -> Vec<Value> {
    let mut keys = Vec::new();
    for (name, days, scopes) in
        [("Alpha", 2, "tickets:read"), ("bravo", 40, "*"), ("Charlie", 30, "tickets:*"), ("Delta", 50, "*:write")]
    {
        app.advance(Duration::from_secs(1));
        let body = json!({"name": name, "scopes": [scopes], "expires_days": days, "description": format!("the {name} one")});
        keys.push(actor.post(KEYS).json(body).send().await.ok(201).clone());
    }
    let path = |place: usize| format!("{KEYS}/{}", keys[place]["id"].as_str().unwrap());
    actor.put(&path(2)).json(json!({"enabled": false})).send().await.ok(200);
    actor.delete(&path(3)).send().await.ok(200);
    keys
}

#[tokio::test]
async fn every_filter_is_applied() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        four_keys(app, &admin).await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        for (query, expected) in [
            ("sort=name", vec!["Alpha", "bravo", "Charlie", "Delta"]),
            ("sort=name&status=expiring", vec!["Alpha"]),
            ("sort=name&status=active,disabled", vec!["bravo", "Charlie"]),
            ("sort=name&status=revoked", vec!["Delta"]),
            ("sort=name&status=expired", vec![]),
            ("sort=name&scope=tickets:read", vec!["Alpha", "bravo", "Charlie"]),
            ("sort=name&scope=vms:write", vec!["bravo", "Delta"]),
            ("sort=name&q=ALPHA", vec!["Alpha"]),
            ("sort=name&q=the%20c", vec!["Charlie"]),
            ("sort=name&q=%25", vec![]),
            (&format!("sort=name&created_by={me}"), vec!["Alpha", "bravo", "Charlie", "Delta"]),
            ("sort=name&created_by=usr_nobody", vec![]),
            ("sort=name&expires_before=2026-01-20T00:00:00Z", vec!["Alpha"]),
            ("sort=name&expires_before=2026-02-05T00:00:00%2B01:00&status=disabled", vec!["Charlie"]),
            ("sort=name&unused_for_days=1", vec![]),
        ] {
            assert_eq!(list(&admin, query).await, expected, "{query}");
        }
        app.advance(Duration::from_hours(48));
        let admin = app.sign_in("admin@acme.example").await;
        assert_eq!(list(&admin, "unused_for_days=1&status=active").await, ["bravo"]);
    })
    .await;
}

#[tokio::test]
async fn every_sort_pages_without_gaps_or_duplicates() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        four_keys(app, &admin).await;
        let orders = [
            ("name", ["Alpha", "bravo", "Charlie", "Delta"]),
            ("created_at", ["Alpha", "bravo", "Charlie", "Delta"]),
            ("expires_at", ["Alpha", "Charlie", "bravo", "Delta"]),
            ("last_used_at", ["Alpha", "bravo", "Charlie", "Delta"]),
        ];
        for (field, order) in orders {
            for reverse in [false, true] {
                let mut expected = order.map(str::to_owned).to_vec();
                if reverse {
                    expected.reverse();
                }
                let sort = if reverse { format!("-{field}") } else { field.to_owned() };
                let mut found = Vec::new();
                let mut next = format!("{KEYS}?sort={sort}&limit=1&include_total=true");
                loop {
                    let page = admin.get(&next).send().await;
                    assert_eq!(page.ok(200)["page"]["total"], 4);
                    found.extend(names(&page.body));
                    let link = page.header("link");
                    assert_eq!(link.is_empty(), page.body["page"]["next_cursor"].is_null());
                    let Some(target) = link.strip_prefix('<').and_then(|link| link.split('>').next()) else { break };
                    target.clone_into(&mut next);
                }
                assert_eq!(found, expected, "{sort}");
            }
        }
        assert_eq!(list(&admin, "").await, ["Delta", "Charlie", "bravo", "Alpha"], "the newest first without a sort");
    })
    .await;
}

#[tokio::test]
async fn cursors_are_stable_and_bound_to_their_query() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        four_keys(app, &admin).await;
        let first = admin.get(&format!("{KEYS}?sort=name&limit=2")).send().await.ok(200).clone();
        let cursor = first["page"]["next_cursor"].as_str().unwrap();
        admin.post(KEYS).json(json!({"name": "Aardvark", "scopes": ["*"]})).send().await.ok(201);
        admin.post(KEYS).json(json!({"name": "Cesar", "scopes": ["*"]})).send().await.ok(201);
        assert_eq!(list(&admin, &format!("sort=name&limit=9&cursor={cursor}")).await, ["Cesar", "Charlie", "Delta"]);
        for query in [
            format!("sort=-name&cursor={cursor}"),
            format!("sort=name&status=active&cursor={cursor}"),
            "cursor=x".to_owned(),
            "cursor=%00".to_owned(),
        ] {
            let reply = admin.get(&format!("{KEYS}?{query}")).send().await;
            assert_eq!(reply.problem(400), "cursor_mismatch", "{query}");
        }
        let globex = app.tenant("globex").await.admin().await;
        assert_eq!(
            list(&globex, &format!("sort=name&cursor={cursor}")).await,
            Vec::<String>::new(),
            "a cursor leads to no other tenant"
        );
    })
    .await;
}

#[tokio::test]
async fn unknown_parameters_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        for (query, status, code) in [
            ("limit=0", 422, "validation_failed"),
            ("limit=201", 422, "validation_failed"),
            ("limit=ten", 422, "validation_failed"),
            ("limit=", 422, "validation_failed"),
            ("limit=1&limit=2", 422, "validation_failed"),
            ("sort=size", 422, "validation_failed"),
            ("status=actve", 422, "validation_failed"),
            ("status=", 422, "validation_failed"),
            ("scope=nope", 422, "validation_failed"),
            ("expires_before=tomorrow", 422, "validation_failed"),
            ("include_total=yes", 422, "validation_failed"),
            ("Limit=5", 400, "unknown_parameter"),
            ("page=2", 400, "unknown_parameter"),
        ] {
            let reply = admin.get(&format!("{KEYS}?{query}")).send().await;
            assert_eq!(reply.problem(status), code, "{query}");
        }
        admin.get(&format!("{KEYS}?limit=200")).send().await.ok(200);
    })
    .await;
}
