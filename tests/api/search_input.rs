//! Search input: invalid queries are reported, unusual ones are answered, pages continue, and responses have the documented form.

use std::time::Duration;

use serde_json::json;

use crate::{
    harness::with_app,
    search::{search, search_path, titles},
};

#[tokio::test]
async fn query_errors_are_reported() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let long = "a".repeat(201);
        let ors = vec!["a"; 50].join(" OR ");
        for (q, more, code, suggestion) in [
            ("", "", "too_short", None),
            (long.as_str(), "", "too_long", None),
            ("   ", "", "nothing_to_search", None),
            ("***", "", "nothing_to_search", None),
            ("statsu:open", "", "unknown_field", Some("status")),
            ("type:tickets", "", "unknown_value", Some("ticket")),
            ("\"unbalanced", "", "unbalanced_quote", None),
            (ors.as_str(), "", "too_many_terms", None),
            ("a OR", "", "wrong_form", None),
            ("x", "&types=tikket", "not_allowed", None),
            ("x", "&limit=0", "out_of_range", None),
            ("x", "&limit=101", "out_of_range", None),
            ("x", "&mode=fast", "not_allowed", None),
            ("x", "&facets=colour", "not_allowed", None),
            ("x", "&sort=oldest", "not_allowed", None),
            ("x", "&organization_id=usr_01k9z7w3v5e8g9m2n4p6r8t0x1", "wrong_form", None),
        ] {
            let reply = key.get(&search_path(q, more)).send().await;
            assert_eq!(reply.problem(422), "validation_failed", "{q} {more}: {}", reply.body);
            let error = &reply.body["errors"][0];
            if q != "x" && !q.is_empty() && q.len() <= 200 {
                assert_eq!((error["parameter"].as_str(), error["code"].as_str()), (Some("q"), Some(code)), "{q}: {error}");
                assert_eq!(error["suggestion"].as_str(), suggestion, "{q}: {error}");
            }
        }
        assert_eq!(key.get("/api/search").send().await.problem(422), "validation_failed");
        assert_eq!(key.get("/api/search?q=x&colour=red").send().await.problem(400), "unknown_parameter");
        // As many as fit into a URL.
        let huge = vec!["a"; 10_000].join("+OR+");
        assert_eq!(key.get(&format!("/api/search?q={huge}")).send().await.status / 100, 4);
        assert_eq!(key.get("/api/search?q=x&cursor=nonsense").send().await.problem(400), "cursor_mismatch");
    })
    .await;
}

#[tokio::test]
async fn unusual_text_is_answered_quickly() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let organization = tenant.organization("Ordinary").await;
        for name in 0..50 {
            tenant.device(&organization, &format!("pc-{name}")).await;
        }
        let repeated = "a-".repeat(100);
        let nested = "(".repeat(200);
        for q in [
            "(a+)+$",
            ".*",
            "[a-z]{1,1000}",
            "a\u{0}b",
            "\u{1}\u{2}\u{3}x",
            "\u{202e}drawkcab",
            "שלום עולם",
            "👩‍👩‍👧‍👦",
            "🔥🔥🔥 pc",
            "e\u{301}\u{301}\u{301}",
            "\u{fdfa}",
            "../../etc/passwd",
            "'; DROP TABLE tickets; --",
            "<script>alert(1)</script>",
            "%00%ff",
            "\u{feff}pc",
            "-pc",
            "-\"pc 1\" -x -y",
            "pc* OR \"pc\" OR -",
            repeated.as_str(),
            nested.as_str(),
            "ﬀﬀﬀﬀﬀ½½½",
        ] {
            let asked = key.get(&search_path(q, "")).send();
            let reply = tokio::time::timeout(Duration::from_secs(2), asked).await.unwrap_or_else(|_| panic!("{q} took too long"));
            assert!(reply.status == 200 || reply.status / 100 == 4, "{q}: {}", reply.body);
        }
    })
    .await;
}

#[tokio::test]
async fn pages_have_no_gaps_and_an_exact_total() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let organization = tenant.organization("Ordinary").await;
        for name in 0..25 {
            tenant.device(&organization, &format!("turbine-{name:02}")).await;
        }
        for sort in ["relevance", "recent"] {
            let mut seen: Vec<String> = Vec::new();
            let mut cursor = String::new();
            loop {
                let reply = key.get(&search_path("turbine", &format!("&limit=10&sort={sort}{cursor}"))).send().await;
                let page = reply.ok(200);
                assert_eq!(page["page"]["total"], 25);
                seen.extend(titles(page).into_iter().map(str::to_owned));
                let Some(next) = page["page"]["next_cursor"].as_str() else { break };
                assert!(reply.header("link").contains(next));
                cursor = format!("&cursor={next}");
            }
            seen.sort_unstable();
            let expected: Vec<String> = (0..25).map(|name| format!("turbine-{name:02}")).collect();
            assert_eq!(seen, expected, "{sort}");
            let mismatch = key.get(&search_path("other", &format!("&sort={sort}{cursor}"))).send().await;
            assert_eq!(mismatch.problem(400), "cursor_mismatch");
        }
    })
    .await;
}

#[tokio::test]
async fn highlights_are_escaped() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["*"]).await;
        let organization = tenant.organization("Acme").await;
        let body = json!({"subject": "<b>Plotter</b> & paper", "description": "The plotter <script>x</script> jams", "organization_id": organization});
        let made = key.post("/api/psa/tickets").json(body).send().await.ok(201).clone();
        let found = search(&key, "plotter", "").await;
        let hit = &found["data"][0];
        assert_eq!((hit["type"].as_str(), &hit["id"]), (Some("ticket"), &made["id"]));
        assert_eq!(hit["organization"], json!({"id": organization, "name": "Acme"}));
        assert_eq!((hit["status"].as_str(), hit["subtitle"].as_str()), (Some("new"), Some("T-1 · medium")));
        assert_eq!(hit["highlights"]["name"], "&lt;b&gt;<mark>Plotter</mark>&lt;/b&gt; &amp; paper");
        assert_eq!(hit["highlights"]["description"], "The <mark>plotter</mark> &lt;script&gt;x&lt;/script&gt; jams");
        assert_eq!(hit["matched_on"][0], json!({"field": "name", "value": "Plotter", "kind": "exact"}));
        assert_eq!(hit["updated_at"], made["updated_at"]);
        for (q, kind, value) in [("plott", "prefix", "Plotter"), ("ploter", "fuzzy", "Plotter"), ("\"plotter jams\" OR \"x script\"", "phrase", "x</script")] {
            let found = search(&key, q, "").await;
            let matched = &found["data"][0]["matched_on"];
            assert!(matched.as_array().unwrap().iter().any(|one| one["kind"] == kind && one["value"] == value), "{q}: {matched}");
        }
        assert_eq!(search(&key, "ploter", "&fuzzy=off").await["page"]["total"], 0);
        assert_eq!(search(&key, "ploter paper", "").await["did_you_mean"], "plotter paper");
    })
    .await;
}
