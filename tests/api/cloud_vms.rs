//! Synced and listed fleets, and orders of VMs.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    cloud::{PROVIDERS, create, events, fake_aws, refresh, simulated},
    harness::{Actor, TestApp, ec2::FakeEc2, with_app},
};

const VMS: &str = "/api/cloud/vms";

fn order_of(provider: &Value, count: u32) -> Value {
    json!({
        "provider_id": provider["id"], "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13", "count": count,
        "tags": {"role": "web"},
    })
}

/// The finished operation of an order. Its delays use the test's clock.
pub async fn ended(app: &TestApp, actor: &Actor, order: &Value) -> Value {
    let path = format!("/api/operations/{}", order["operation"]["id"].as_str().unwrap());
    loop {
        let operation = actor.get(&path).send().await.ok(200).clone();
        if operation["ended_at"].is_string() {
            return operation;
        }
        if operation["phase"] == "starting" || operation["progress"] == 0 {
            app.advance(Duration::from_secs(1));
        }
    }
}

async fn list(actor: &Actor, query: &str) -> Vec<Value> {
    actor.get(&format!("{VMS}?limit=200&{query}")).send().await.ok(200)["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn vms_are_synced_filtered_counted_and_paged() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, organization) = (acme.key(&["*"]).await, acme.organization("Acme").await);
        let mut body = simulated("East", json!({"seed": 7, "vm_count": 60}));
        body["organization_id"] = json!(organization);
        let east = create(&admin, body).await;
        create(&admin, simulated("West", json!({"seed": 8, "vm_count": 5, "regions": ["sim-west"]}))).await;
        let refreshed = refresh(&admin).await;
        assert_eq!((&refreshed["status"], &refreshed["kind"]), (&json!("succeeded"), &json!("vm_refresh")));
        let all = list(&admin, "").await;
        assert_eq!(all.len(), 65);
        let (mut walked, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = admin.get(&format!("{VMS}?limit=20&include_total=true{cursor}")).send().await;
            assert_eq!(page.ok(200)["page"]["total"], 65);
            walked.extend(page.body["data"].as_array().unwrap().clone());
            match page.body["page"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(walked, all);
        let mismatch = admin.get(&format!("{VMS}?limit=20&state=running{}", "&cursor=AAAA")).send().await;
        assert_eq!(mismatch.problem(400), "cursor_mismatch");
        let count = |matches: &dyn Fn(&Value) -> bool| all.iter().filter(|vm| matches(vm)).count();
        let one = &all[3];
        for (query, expected) in [
            (format!("provider_id={}", east["id"].as_str().unwrap()), 60),
            ("kind=simulated".to_owned(), 65),
            ("kind=aws".to_owned(), 0),
            (format!("organization_id={organization}"), 60),
            ("state=running,stopped".to_owned(), count(&|vm| vm["state"] == "running" || vm["state"] == "stopped")),
            ("region=sim-west".to_owned(), count(&|vm| vm["region"] == "sim-west")),
            ("tag.role=web,db".to_owned(), count(&|vm| vm["tags"]["role"] == "web" || vm["tags"]["role"] == "db")),
            ("tag%5Brole%5D=web&state=running".to_owned(), count(&|vm| vm["tags"]["role"] == "web" && vm["state"] == "running")),
            ("tag.nothing=x".to_owned(), 0),
            ("tag=role".to_owned(), 0),
            ("name=WEB-".to_owned(), count(&|vm| vm["name"].as_str().unwrap().starts_with("web-"))),
            (format!("ip={}", one["private_ips"][0].as_str().unwrap()), count(&|vm| vm["private_ips"][0] == one["private_ips"][0])),
            ("stale=true".to_owned(), 0),
            ("stale=false".to_owned(), 65),
        ] {
            assert_eq!(list(&admin, &query).await.len(), expected, "{query}");
        }
        let grouped = admin.get(&format!("{VMS}?limit=1&group_by=provider")).send().await.ok(200)["groups"].clone();
        let counted = |group: &Value| (group["name"].as_str().unwrap().to_owned(), group["count"].as_u64().unwrap());
        let mut counts: Vec<(String, u64)> = grouped.as_array().unwrap().iter().map(counted).collect();
        counts.sort_unstable();
        assert_eq!(counts, [("East".to_owned(), 60), ("West".to_owned(), 5)]);
        let by_organization = admin.get(&format!("{VMS}?group_by=organization")).send().await.ok(200)["groups"].clone();
        assert_eq!(by_organization, json!([{"count": 5}, {"value": organization, "name": "Acme", "count": 60}]));
        for bad in
            ["state=runing", "ip=here", "tag.=x", "tag=", "tag=role&tag.role=web", "colour=red", "limit=0", "group_by=colour"]
        {
            let refused = admin.get(&format!("{VMS}?{bad}")).send().await;
            assert!([400, 422].contains(&refused.status), "{bad}: {}", refused.text);
        }
        let read = admin.get(&format!("{VMS}/{}", one["id"].as_str().unwrap())).send().await;
        assert_eq!(read.ok(200), one);
        assert!(one["size"]["vcpus"].is_u64() && one["provider"]["name"].is_string() && one["last_synced_at"].is_string());
        let stranger = app.tenant("globex").await.key(&["*"]).await;
        assert_eq!(stranger.get(&format!("{VMS}/{}", one["id"].as_str().unwrap())).send().await.problem(404), "not_found");
        assert_eq!(list(&stranger, "").await.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_simulated_fleet_is_reproducible() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let facts = |vm: &Value| (vm["provider_vm_id"].clone(), vm["name"].clone(), vm["region"].clone(), vm["size"].clone());
        for name in ["One", "Two"] {
            create(&admin, simulated(name, json!({"seed": 42, "vm_count": 30}))).await;
        }
        refresh(&admin).await;
        let mut all: Vec<_> = list(&admin, "").await.iter().map(facts).collect();
        all.sort_by_key(|vm| vm.0.to_string());
        assert!(all.chunks(2).all(|pair| pair[0] == pair[1]) && all.len() == 60);
        let states = async || list(&admin, "state=stopped").await.len();
        let night = states().await;
        app.advance(Duration::from_hours(12));
        refresh(&admin).await;
        assert!(states().await < night, "machines that are off at night run at noon");
        assert!(events(&admin).await.iter().any(|name| name == "vm.state_changed"));
    })
    .await;
}

#[tokio::test]
async fn a_missing_vm_is_terminated_after_two_syncs() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(3).await);
        create(&admin, fake_aws(&cloud)).await;
        refresh(&admin).await;
        let gone = cloud.instances()[1].id.clone();
        cloud.forget(&gone);
        let find = async || list(&admin, "").await.into_iter().find(|vm| vm["provider_vm_id"] == json!(gone)).unwrap();
        app.advance(Duration::from_mins(1));
        refresh(&admin).await;
        let missing = find().await;
        assert_eq!((&missing["state"], &missing["stale"]), (&json!("running"), &json!(true)));
        app.advance(Duration::from_mins(1));
        refresh(&admin).await;
        let removed = find().await;
        assert_eq!((&removed["state"], &removed["stale"]), (&json!("terminated"), &json!(false)));
        assert!(removed["ended_at"].is_string());
        let names = events(&admin).await;
        assert_eq!(names.iter().filter(|name| *name == "vm.removed").count(), 1);
        refresh(&admin).await;
        assert_eq!(events(&admin).await, names, "it is reported once");
        app.advance(Duration::from_hours(24 * 8));
        refresh(&admin).await;
        assert_eq!(list(&admin, "").await.len(), 2, "it is forgotten in the end");
    })
    .await;
}

#[tokio::test]
async fn data_of_a_disabled_provider_becomes_stale() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let provider = create(&admin, simulated("Sim", json!({"vm_count": 4}))).await;
        refresh(&admin).await;
        assert_eq!(list(&admin, "stale=true").await.len(), 0);
        let disabled = admin.put(PROVIDERS).json(json!({"id": provider["id"], "enabled": false})).send().await;
        assert_eq!((&disabled.ok(200)["status"], &disabled.body["sync"]["state"]), (&json!("disabled"), &json!("disabled")));
        assert_eq!(list(&admin, "stale=true").await.len(), 4);
        assert_eq!(admin.post(VMS).json(order_of(&provider, 1)).send().await.problem(409), "invalid_transition");
        assert_eq!(refresh(&admin).await["status"], "succeeded", "there is nothing to ask");
    })
    .await;
}

#[tokio::test]
async fn an_order_is_accepted_completed_and_reported() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, organization) = (acme.key(&["*"]).await, acme.organization("Acme").await);
        let provider = create(&admin, simulated("Sim", json!({"vm_count": 0}))).await;
        let mut body = order_of(&provider, 2);
        body["tags"]["prod"] = json!("");
        body["organization_id"] = json!(organization);
        body["user_data"] = json!("#!/bin/sh\necho hello");
        let taken = admin.post(VMS).header("idempotency-key", "order").json(body.clone()).send().await;
        let order = taken.ok(202).clone();
        let operation = order["operation"]["id"].as_str().unwrap();
        assert_eq!(taken.header("location"), format!("/api/operations/{operation}"));
        assert_eq!((&order["operation"]["status"], &order["vms"][0]["state"]), (&json!("queued"), &json!("provisioning")));
        assert_eq!((&order["vms"][0]["name"], &order["vms"][1]["name"]), (&json!("web-1"), &json!("web-2")));
        let again = admin.post(VMS).header("idempotency-key", "order").json(body).send().await;
        assert_eq!(again.ok(202)["operation"]["id"], order["operation"]["id"]);
        let operation = ended(app, &admin, &order).await;
        assert_eq!((&operation["status"], &operation["progress"]), (&json!("succeeded"), &json!(100)), "{operation}");
        refresh(&admin).await;
        let vms = list(&admin, &format!("operation_id={}", operation["id"].as_str().unwrap())).await;
        assert_eq!(vms.len(), 2);
        for vm in &vms {
            assert_eq!((&vm["state"], &vm["organization"]["name"]), (&json!("running"), &json!("Acme")), "{vm}");
            assert!(vm["provider_vm_id"].is_string() && vm["tags"]["role"] == "web");
        }
        assert_eq!(list(&admin, "").await.len(), 2, "a sync does not find them a second time");
        for (query, expected) in
            [("tag=prod", 2), ("tag.prod=", 2), ("tag=prod&tag.role=web", 2), ("tag=role", 0), ("tag=prod,x", 0)]
        {
            assert_eq!(list(&admin, query).await.len(), expected, "{query}");
        }
        let names = events(&admin).await;
        let count = |kind: &str| names.iter().filter(|name| *name == kind).count();
        assert_eq!((count("vm.provisioning"), count("vm.created"), count("vm.provision_failed")), (2, 2, 0), "{names:?}");
        assert!(count("vm.state_changed") >= 2, "{names:?}");
    })
    .await;
}

#[tokio::test]
async fn a_failed_order_reports_reason_and_leftovers() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let provider = create(&admin, simulated("Small", json!({"vm_count": 0, "quota": 1}))).await;
        let order = admin.post(VMS).json(order_of(&provider, 3)).send().await.ok(202).clone();
        let operation = ended(app, &admin, &order).await;
        assert_eq!(
            (&operation["status"], &operation["error"]["code"]),
            (&json!("failed"), &json!("quota_exceeded")),
            "{operation}"
        );
        assert_eq!(operation["leftovers"].as_array().unwrap().len(), 1, "{operation}");
        assert_eq!((&operation["leftovers"][0]["name"], &operation["leftovers"][0]["uncertain"]), (&json!("web-1"), &json!(false)));
        let states: Vec<Value> = list(&admin, "").await.iter().map(|vm| vm["state"].clone()).collect();
        assert_eq!(states.iter().filter(|state| *state == "error").count(), 2, "{states:?}");
        assert_eq!(events(&admin).await.iter().filter(|name| *name == "vm.provision_failed").count(), 2);
        let mut unknown = order_of(&provider, 1);
        unknown["image"] = json!("plan9");
        let order = admin.post(VMS).json(unknown).send().await.ok(202).clone();
        let operation = ended(app, &admin, &order).await;
        assert_eq!(operation["error"]["code"], "invalid_request");
        assert!(operation["error"]["message"].as_str().unwrap().contains("debian-13") && operation["leftovers"].is_null());
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_checks_an_order_and_creates_nothing() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let provider = create(&admin, simulated("Sim", json!({"vm_count": 0, "quota": 5}))).await;
        let dry = admin.post(&format!("{VMS}?dry_run=true")).json(order_of(&provider, 2)).send().await;
        assert_eq!((&dry.ok(200)["would_succeed"], dry.body["vms"].as_array().unwrap().len()), (&json!(true), 2));
        let mut wrong = order_of(&provider, 1);
        wrong["size"] = json!("huge");
        let wrong = admin.post(&format!("{VMS}?dry_run=true")).json(wrong).send().await.ok(200).clone();
        assert_eq!((&wrong["would_succeed"], &wrong["checks"][0]["code"]), (&json!(false), &json!("unknown_size")));
        let message = "the size huge was not found; use one of sim.small, sim.medium, sim.large, sim.xlarge";
        assert_eq!(wrong["checks"][0]["message"], message);
        assert_eq!(dry.body["checks"][0]["message"], "the provider accepts the order");
        let nobody = json!({"provider_id": "prv_01k9z7w3v5e8g9m2n4p6r8t0x1", "name": "-", "region": "a/b", "size": "s", "image": "i", "count": 21, "tags": {"Name": "x"}});
        let faults = admin.post(VMS).json(nobody).send().await.field_errors();
        let places: BTreeSet<&str> = faults.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, BTreeSet::from(["/count", "/name", "/provider_id", "/region", "/tags/Name"]), "all at once");
        assert_eq!(list(&admin, "").await.len(), 0);
        assert!(!events(&admin).await.iter().any(|name| name.starts_with("vm.")));
    })
    .await;
}

#[tokio::test]
async fn a_hanging_provider_delays_no_other() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        for number in 0..20 {
            let hanging = simulated(&format!("Hanging {number}"), json!({"latency_ms": 600_000}));
            admin.post(&format!("{PROVIDERS}?verify=skip")).json(hanging).send().await.ok(201);
        }
        let healthy = create(&admin, simulated("Healthy", json!({"vm_count": 3}))).await;
        let asked = admin.get(&format!("{VMS}?refresh=true&provider_id={}", healthy["id"].as_str().unwrap())).send().await;
        let operation = asked.ok(202)["operation"]["id"].as_str().unwrap().to_owned();
        let waited = admin.get(&format!("/api/operations/{operation}?wait_seconds=30")).send();
        let ended = tokio::time::timeout(Duration::from_secs(15), waited).await.unwrap().ok(200).clone();
        assert_eq!(ended["status"], "succeeded");
        assert_eq!(list(&admin, "").await.len(), 3);
    })
    .await;
}
