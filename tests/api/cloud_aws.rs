//! AWS, with a fake server as strict as EC2: every class of error, paging, and orders with a lost response.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    cloud::{PROVIDERS, create, fake_aws, path, refresh},
    cloud_vms::ended,
    harness::{Actor, ec2::FakeEc2, ec2::Trouble, with_app},
};

fn verify_body(cloud: &FakeEc2) -> Value {
    let provider = fake_aws(cloud);
    json!({"action": "verify", "kind": "aws", "config": provider["config"], "credential": provider["credential"]})
}

async fn outcome(admin: &Actor, body: Value) -> Value {
    admin.post(PROVIDERS).json(body).send().await.ok(200).clone()
}

#[tokio::test]
async fn every_error_class_is_named() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(1).await);
        for (action, trouble, times, expected, failed) in [
            ("GetCallerIdentity", Trouble::Refuse(403, "InvalidClientTokenId", ""), 1, "invalid_credentials", "authenticate"),
            ("GetCallerIdentity", Trouble::Refuse(403, "AccessDenied", ""), 1, "insufficient_permissions", "authenticate"),
            ("GetCallerIdentity", Trouble::Refuse(400, "RequestExpired", ""), 1, "clock_skew", "authenticate"),
            (
                "GetCallerIdentity",
                Trouble::Refuse(403, "SignatureDoesNotMatch", "date: Sat, 03 Jan 2026 00:00:00 GMT"),
                1,
                "clock_skew",
                "authenticate",
            ),
            ("DescribeInstances", Trouble::Refuse(403, "UnauthorizedOperation", ""), 1, "insufficient_permissions", "list_vms"),
            ("DescribeInstances", Trouble::Refuse(503, "RequestLimitExceeded", "retry-after: 60"), 1, "rate_limited", "list_vms"),
            ("DescribeInstances", Trouble::Refuse(500, "InternalError", ""), 4, "provider_error", "list_vms"),
            ("RunInstances", Trouble::Refuse(403, "UnauthorizedOperation", ""), 1, "valid_limited", "provision"),
        ] {
            cloud.trouble(action, trouble, times);
            let tried = outcome(&admin, verify_body(&cloud)).await;
            assert_eq!(tried["outcome"], expected, "{action} {tried}");
            let check = tried["checks"].as_array().unwrap().iter().find(|check| check["status"] == "failed").unwrap();
            assert_eq!(check["name"], failed, "{tried}");
            cloud.clear_troubles();
        }
        cloud.trouble("DescribeInstances", Trouble::Refuse(503, "Unavailable", ""), 2);
        assert_eq!(outcome(&admin, verify_body(&cloud)).await["outcome"], "valid", "what passes is tried again");
        let mut wrong = verify_body(&cloud);
        wrong["credential"]["secret_access_key"] = json!("not-the-secret");
        assert_eq!(outcome(&admin, wrong.clone()).await["outcome"], "invalid_credentials");
        wrong["credential"]["access_key_id"] = json!("AKIASOMEBODYELSE");
        assert_eq!(outcome(&admin, wrong).await["outcome"], "invalid_credentials");
        let empty = FakeEc2::start(0).await;
        assert_eq!(outcome(&admin, verify_body(&empty)).await["warnings"], json!([{"code": "empty_inventory"}]));
    })
    .await;
}

#[tokio::test]
async fn failures_are_assigned_to_their_check() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(1).await);
        let at = |endpoint: String| {
            let mut body = verify_body(&cloud);
            body["config"]["endpoint"] = json!(endpoint);
            body
        };
        let failed = |tried: &Value| {
            let check = tried["checks"].as_array().unwrap().iter().find(|check| check["status"] == "failed").cloned();
            check.map(|check| check["name"].as_str().unwrap().to_owned())
        };
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let tried = outcome(&admin, at(format!("http://{closed}"))).await;
        assert_eq!((&tried["outcome"], failed(&tried).as_deref()), (&json!("unreachable"), Some("tcp")), "{tried}");
        let tried = outcome(&admin, at(format!("https://{}", cloud.address))).await;
        assert_eq!((&tried["outcome"], failed(&tried).as_deref()), (&json!("tls_error"), Some("tls")), "{tried}");
        let tried = outcome(&admin, at("http://nowhere.invalid".to_owned())).await;
        assert_eq!((&tried["outcome"], failed(&tried).as_deref()), (&json!("unreachable"), Some("dns")), "{tried}");
        cloud.trouble("GetCallerIdentity", Trouble::HoldBefore(Arc::new(Semaphore::new(0))), 1);
        let tried = outcome(&admin, at(cloud.url())).await;
        assert_eq!((&tried["outcome"], &tried["transient"]), (&json!("timeout"), &json!(true)), "{tried}");
    })
    .await;
}

#[tokio::test]
async fn unreadable_vm_fields_do_not_fail_the_sync() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(3).await);
        let provider = create(&admin, fake_aws(&cloud)).await;
        refresh(&admin).await;
        let ids: Vec<String> = cloud.instances().iter().map(|instance| instance.id.clone()).collect();
        cloud.change(&ids[0], |instance| instance.private_ip = "10.0.0.1/24");
        app.advance(Duration::from_mins(1));
        assert_eq!(refresh(&admin).await["status"], "succeeded");
        let listed = admin.get("/api/cloud/vms").send().await.ok(200).clone();
        let odd = listed["data"].as_array().unwrap().iter().find(|vm| vm["provider_vm_id"] == json!(ids[0])).unwrap().clone();
        let reason = "privateIpAddress: \"10.0.0.1/24\" is not a valid IP address";
        assert_eq!(odd["unreadable"], json!([{"field": "private_ips", "reason": reason}]), "{odd}");
        assert_eq!((&odd["private_ips"], &odd["state"]), (&json!([]), &json!("running")));
        let shown = async || admin.get(&path(&provider)).send().await.ok(200).clone();
        let reasons = json!([format!("{}: private_ips: {reason}", ids[0])]);
        assert_eq!(shown().await["sync"]["unreadable"], json!({"partial": 1, "skipped": 0, "reasons": reasons}));
        assert_eq!((&shown().await["status"], &shown().await["sync"]["state"]), (&json!("degraded"), &json!("ok")));

        // An entry without an id may be any VM, so no VM becomes `terminated`.
        cloud.change(&ids[0], |instance| instance.private_ip = "10.0.0.1");
        cloud.change(&ids[1], |instance| instance.id = String::new());
        for _ in 0..3 {
            app.advance(Duration::from_mins(1));
            assert_eq!(refresh(&admin).await["status"], "succeeded");
        }
        assert_eq!(admin.get("/api/cloud/vms?state=running&include_total=true").send().await.ok(200)["page"]["total"], 3);
        let expected = json!({"partial": 0, "skipped": 1, "reasons": ["an entry has no instanceId"]});
        assert_eq!(shown().await["sync"]["unreadable"], expected);
        let verified = admin.post("/api/cloud/providers").json(json!({"action": "verify", "id": provider["id"]})).send().await;
        assert_eq!(verified.ok(200)["warnings"], json!([{"code": "incomplete_inventory"}]));

        cloud.change("", |instance| instance.id = "i-new".to_owned());
        app.advance(Duration::from_mins(1));
        refresh(&admin).await;
        assert_eq!((&shown().await["status"], &shown().await["sync"]["unreadable"]), (&json!("verified"), &Value::Null));
    })
    .await;
}

#[tokio::test]
async fn failed_syncs_mark_no_vm_as_missing() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(250).await);
        let provider = create(&admin, fake_aws(&cloud)).await;
        refresh(&admin).await;
        let listed = admin.get("/api/cloud/vms?include_total=true&limit=1").send().await.ok(200).clone();
        assert_eq!(listed["page"]["total"], 250);
        assert_eq!(listed["data"][0]["size"], json!({"id": "t3.small", "vcpus": 2, "memory_bytes": 2_147_483_648_u64}));
        cloud.trouble("DescribeInstances", Trouble::Refuse(403, "UnauthorizedOperation", ""), 1);
        let failed = refresh(&admin).await;
        assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("insufficient_permissions")));
        let shown = admin.get(&path(&provider)).send().await.ok(200).clone();
        assert_eq!((&shown["status"], &shown["sync"]["state"]), (&json!("invalid"), &json!("failed")), "{shown}");
        assert_eq!(admin.get("/api/cloud/vms?state=running&include_total=true").send().await.ok(200)["page"]["total"], 250);
        cloud.set_state(&cloud.instances()[0].id.clone(), "stopped");
        app.advance(Duration::from_mins(1));
        refresh(&admin).await;
        assert_eq!(admin.get("/api/cloud/vms?state=stopped&include_total=true").send().await.ok(200)["page"]["total"], 1);
        let shown = admin.get(&path(&provider)).send().await.ok(200).clone();
        assert_eq!((&shown["status"], &shown["sync"]["vm_count"]), (&json!("verified"), &json!(250)), "{shown}");
    })
    .await;
}

fn order_of(provider: &Value) -> Value {
    json!({"provider_id": provider["id"], "name": "web", "region": "us-east-1", "size": "t3.small", "image": "ami-1", "user_data": "hello"})
}

#[tokio::test]
async fn a_lost_response_creates_one_vm() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(0).await);
        cloud.ignore_tokens();
        let provider = create(&admin, fake_aws(&cloud)).await;
        for (number, trouble) in [Trouble::CloseAfter, Trouble::Refuse(500, "InternalError", "")].into_iter().enumerate() {
            cloud.trouble("RunInstances", trouble, 1);
            let order = admin.post("/api/cloud/vms").json(order_of(&provider)).send().await.ok(202).clone();
            let operation = ended(app, &admin, &order).await;
            assert_eq!(operation["status"], "succeeded", "{operation}");
            assert_eq!(cloud.creations(), number + 1);
        }
        assert_eq!(cloud.instances()[0].user_data, "aGVsbG8=");
        let mut missing = order_of(&provider);
        missing["image"] = json!("ami-missing");
        let order = admin.post("/api/cloud/vms").json(missing).send().await.ok(202).clone();
        let operation = ended(app, &admin, &order).await;
        assert_eq!((&operation["status"], &operation["error"]["code"]), (&json!("failed"), &json!("not_found")), "{operation}");
        let dry = admin.post("/api/cloud/vms?dry_run=true").json(order_of(&provider)).send().await.ok(200).clone();
        assert_eq!((&dry["would_succeed"], cloud.creations()), (&json!(true), 2));
        assert_eq!(dry["checks"][0]["message"], "the provider accepts the order");
    })
    .await;
}

#[tokio::test]
async fn an_order_of_unknown_outcome_is_reported_as_a_leftover() {
    with_app(async |app| {
        let (admin, cloud) = (app.evaluation_tenant("acme").await.key(&["*"]).await, FakeEc2::start(0).await);
        let provider = create(&admin, fake_aws(&cloud)).await;
        cloud.trouble("RunInstances", Trouble::Refuse(500, "InternalError", ""), 20);
        let order = admin.post("/api/cloud/vms").json(order_of(&provider)).send().await.ok(202).clone();
        let operation = ended(app, &admin, &order).await;
        assert_eq!(
            (&operation["status"], &operation["error"]["code"]),
            (&json!("failed"), &json!("provider_error")),
            "{operation}"
        );
        let leftover = &operation["leftovers"][0];
        assert_eq!(
            (&leftover["uncertain"], &leftover["token"]),
            (&json!(true), &json!(format!("{}-0", operation["id"].as_str().unwrap())))
        );
        assert_eq!(cloud.creations(), 0);
    })
    .await;
}
