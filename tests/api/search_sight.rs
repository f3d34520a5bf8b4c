//! Search results contain, count and suggest only records that the caller may read: by scope, organization and tenant.

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};

use tenantd_base::access::{Grants, Reach};
use tenantd_search::{Facets, Mode, Options, Order, Results, Visibility};

use crate::{
    harness::{Actor, Tenant, TestApp, with_app},
    search::{search, titles},
};

async fn ticket(key: &Actor, organization: &str, subject: &str) {
    let body = json!({"subject": subject, "organization_id": organization});
    key.post("/api/psa/tickets").json(body).send().await.ok(201);
}

fn options() -> Options {
    Options {
        kinds: Vec::new(),
        organization_id: None,
        mode: Mode::Full,
        fuzzy: true,
        order: Order::Relevance,
        facets: Facets { kind: true, organization: true, state: true },
        limit: 100,
        after: None,
    }
}

/// Searches with a reach restricted to these organizations.
async fn within(app: &TestApp, tenant: &Tenant<'_>, organizations: &[&str], q: &str) -> Results {
    let reach = Reach::new(organizations.iter().map(|id| id.parse().unwrap()).collect());
    let sight = Visibility::new(tenant.id.parse().unwrap(), Grants::all(), reach);
    app.running().app.slices.search.search(sight, q.to_owned(), options()).await.unwrap()
}

fn found(results: &Results) -> Vec<&str> {
    results.hits.iter().map(|hit| hit.title.as_str()).collect()
}

#[tokio::test]
async fn types_without_a_scope_are_invisible() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let all = tenant.key(&["*"]).await;
        let acme = tenant.organization("Zeppelin Works").await;
        tenant.device(&acme, "zeppelin-gateway").await;
        tenant.contact(&acme, "zeppelin@acme.example").await;
        ticket(&all, &acme, "Zeppelin gateway xylophone").await;
        let facets = "&facets=type,organization,status";
        let everything = search(&all, "zeppelin", facets).await;
        assert_eq!(everything["page"]["total"], 4, "{everything}");
        let types = |found: &Value| -> Vec<(String, u64)> {
            let values = found["facets"]["type"].as_array().unwrap();
            values.iter().map(|one| (one["value"].as_str().unwrap().to_owned(), one["count"].as_u64().unwrap())).collect()
        };
        assert_eq!(types(&everything).len(), 4);
        for (scopes, seen) in [
            (vec!["search:read"], vec!["organization"]),
            (vec!["search:read", "inventory:read"], vec!["device", "organization"]),
            (vec!["search:read", "users:read"], vec!["organization", "user"]),
            (vec!["search:read", "tickets:read"], vec!["organization", "ticket"]),
        ] {
            let (key, _) = tenant.new_key(&format!("sees {}", seen.join(" ")), &scopes).await;
            let answer = search(&key, "zeppelin", facets).await;
            let mut kinds: Vec<String> = types(&answer).into_iter().map(|(kind, _)| kind).collect();
            kinds.sort();
            assert_eq!(kinds, seen, "{scopes:?}");
            assert_eq!(answer["page"]["total"], seen.len(), "{scopes:?}");
            assert!(answer["data"].as_array().unwrap().iter().all(|hit| seen.contains(&hit["type"].as_str().unwrap())));
        }
        let blind = tenant.key(&["search:read", "inventory:read"]).await;
        for (q, more) in [
            ("xylophone", ""),
            ("xyl", "&mode=suggest"),
            ("xylophnoe", ""),
            ("xylophnoe", "&fuzzy=off"),
            ("T-1", ""),
            ("type:ticket", ""),
            ("zeppelin", "&types=ticket"),
            ("status:new", ""),
            ("number:1", ""),
        ] {
            let answer = search(&blind, q, &format!("{more}{facets}")).await;
            assert_eq!((answer["page"]["total"].as_u64(), answer.get("did_you_mean")), (Some(0), None), "{q}: {answer}");
        }
        assert_eq!(search(&all, "xylophnoe", "").await["did_you_mean"], "xylophone");
        assert_eq!(tenant.key(&["tickets:read"]).await.get("/api/search?q=x").send().await.problem(403), "insufficient_scope");
    })
    .await;
}

#[tokio::test]
async fn a_restricted_credential_finds_its_organizations_only() {
    with_app(async |app| {
        let tenant = app.tenant("msp").await;
        let key = tenant.key(&["*"]).await;
        let (acme, globex) = (tenant.organization("Acme Mistral").await, tenant.organization("Globex Mistral").await);
        for (organization, name) in [(&acme, "mistral-a"), (&globex, "mistral-b")] {
            tenant.device(organization, name).await;
            ticket(&key, organization, &format!("Ticket of {name}")).await;
        }
        ticket(&key, &globex, "Sirocco secret").await;
        tenant.user("viewer").await;
        let seen = within(app, &tenant, &[&acme], "mistral").await;
        let mut names = found(&seen);
        names.sort_unstable();
        assert_eq!(names, ["Acme Mistral", "Ticket of mistral-a", "mistral-a"]);
        assert_eq!(seen.total, 3);
        let organizations = seen.facets.organization.unwrap();
        assert_eq!(organizations.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), [acme.as_str()]);
        for q in ["sirocco", "siroco", "globex", "org:globex", &format!("org:{globex}"), "viewer"] {
            let hidden = within(app, &tenant, &[&acme], q).await;
            assert_eq!((hidden.total, hidden.did_you_mean), (0, None), "{q}");
        }
        assert_eq!(within(app, &tenant, &[&acme, &globex], "sirocco").await.total, 1);
        assert_eq!(within(app, &tenant, &[], "viewer").await.total, 1, "staff belong to no organization");
    })
    .await;
}

#[tokio::test]
async fn software_is_found_through_visible_devices() {
    with_app(async |app| {
        let tenant = app.tenant("msp").await;
        let key = tenant.key(&["*"]).await;
        let send = async |lines: &[Value]| {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            key.post("/internal/ingest").text("application/x-ndjson", text).send().await.lines(200)
        };
        let device = |id: &str, organization: &str, software: &[&str]| {
            let packages: Vec<Value> = software.iter().map(|name| json!({"name": name, "publisher": "Initech"})).collect();
            json!({"kind": "device", "external_id": id, "name": id, "organization_external_id": organization, "software": packages})
        };
        let organization = |id: &str| json!({"kind": "organization", "external_id": id, "name": id});
        let made = send(&[
            organization("acme"),
            organization("globex"),
            device("a", "acme", &["Initech Reporter", "Ledger"]),
            device("b", "globex", &["Initech Reporter"]),
        ])
        .await;
        let (acme, globex) = (made[0]["id"].as_str().unwrap(), made[1]["id"].as_str().unwrap());
        let both = search(&key, "reporter", "&types=software").await;
        assert_eq!(both["data"][0]["subtitle"], "Initech · on 2 devices", "{both}");
        assert_eq!(found(&within(app, &tenant, &[globex], "ledger").await), Vec::<&str>::new());
        assert_eq!(within(app, &tenant, &[acme], "reporter").await.hits[0].subtitle.as_deref(), Some("Initech · on 1 device"));
        send(&[device("a", "acme", &["Ledger"])]).await;
        assert_eq!(search(&key, "reporter", "").await["data"][0]["subtitle"], "Initech · on 1 device");
        send(&[device("b", "globex", &[])]).await;
        let gone = search(&key, "reporter", "&facets=type").await;
        assert_eq!((gone["page"]["total"].as_u64(), gone["facets"]["type"].as_array().unwrap().len()), (Some(0), 0), "{gone}");
    })
    .await;
}

#[tokio::test]
async fn an_id_finds_its_visible_record() {
    with_app(async |app| {
        let (ours, theirs) = (app.tenant("acme").await, app.tenant("globex").await);
        let (key, stranger) = (ours.key(&["*"]).await, theirs.key(&["*"]).await);
        theirs.device(&theirs.organization("Globex").await, "gateway").await;
        let (acme, other) = (ours.organization("Acme").await, ours.organization("Initech").await);
        let (device, contact) = (ours.device(&acme, "gateway").await, ours.contact(&acme, "ada@acme.example").await);
        let body = json!({"subject": "Gateway is slow", "organization_id": acme});
        let ticket = key.post("/api/psa/tickets").json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let blind = ours.key(&["search:read"]).await;
        for id in [&device, &contact, &ticket] {
            for asked in [id.clone(), id.to_uppercase(), format!("{id} -type:vm")] {
                let answer = search(&key, &asked, "").await;
                assert_eq!((&answer["page"]["total"], &answer["data"][0]["id"]), (&json!(1), &json!(id)), "{asked}: {answer}");
                assert_eq!(answer["data"][0]["matched_on"][0]["field"], "id", "{answer}");
                for nobody in [&stranger, &blind] {
                    assert_eq!(search(nobody, &asked, "").await["page"]["total"], 0, "{asked}");
                }
            }
            assert_eq!(search(&key, id, "&mode=suggest").await["data"][0]["id"], **id);
            assert_eq!(search(&key, &format!("-{id}"), "").await["page"]["total"], 4);
            assert_eq!(within(app, &ours, &[&acme], id).await.hits.len(), 1);
            assert_eq!(within(app, &ours, &[&other], id).await.hits.len(), 0);
        }
        assert_eq!(search(&key, &format!("org:{acme} type:device"), "").await["data"][0]["id"], device);
    })
    .await;
}

/// Words that all tenants share, and words of one tenant.
fn vocabulary() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("(shared|common|alpha|bravo|[a-d]{3,6})", 1..4)
}

#[test]
fn no_query_crosses_tenants() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(with_app(async |app| {
        let (one, other) = (app.tenant("one").await, app.tenant("other").await);
        let (first, second) = (one.key(&["*"]).await, other.key(&["*"]).await);
        let (home, away) = (one.organization("Home shared").await, other.organization("Away shared").await);
        let mut runner = TestRunner::new(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() });
        for round in 0..40 {
            let words = vocabulary().new_tree(&mut runner).unwrap().current().join(" ");
            ticket(&first, &home, &format!("{words} homemark{round}")).await;
            ticket(&second, &away, &format!("{words} awaymark{round}")).await;
            let asked: Vec<String> = vocabulary().new_tree(&mut runner).unwrap().current();
            for q in [asked.join(" "), asked.join(" OR "), format!("{}*", asked[0]), "-nothing".to_owned(), "awaymark*".to_owned()]
            {
                for more in ["&limit=100&facets=organization,type,status", "&limit=100&mode=suggest"] {
                    let reply = first.get(&crate::search::search_path(&q, more)).send().await;
                    if reply.status == 422 {
                        continue;
                    }
                    let answer = reply.ok(200);
                    let text = answer.to_string();
                    assert!(!text.contains("awaymark") && !text.contains("Away"), "{q}: {text}");
                    assert!(titles(answer).len() as u64 <= answer["page"]["total"].as_u64().unwrap());
                    assert!(answer["page"]["total"].as_u64().unwrap() <= round + 2 + 1, "{q}: {text}");
                }
            }
        }
    }));
}
