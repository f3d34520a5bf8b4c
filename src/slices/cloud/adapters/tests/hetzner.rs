//! Hetzner Cloud, according to the reference of API v1.

use serde_json::{Value, json};

use super::{super::hetzner::Hetzner, *};
use crate::model::VmState;

const TOKEN: &str = "hetzner-api-token-0123456789";

fn access_to(provider: &Provider) -> Access {
    let config = ProviderConfig { endpoint: Some(provider.url()), ..ProviderConfig::default() };
    access(config, credential(ProviderKind::Hetzner, json!({"api_token": TOKEN})))
}

fn server(id: u64, name: &str, status: &str) -> Value {
    json!({
        "id": id, "name": name, "status": status, "created": "2026-01-30T23:55:00+00:00",
        "public_net": {
            "ipv4": {"id": 1, "ip": "78.46.10.20", "blocked": false, "dns_ptr": "x.example"},
            "ipv6": {"id": 2, "ip": "2a01:4f8:c0c:1::/64", "blocked": false, "dns_ptr": []},
            "floating_ips": [], "firewalls": []
        },
        "private_net": [{"network": 4711, "ip": "10.0.0.2", "alias_ips": [], "mac_address": "86:00:ff:2a:7d:e1"}],
        "server_type": {"id": 1, "name": "cx22", "cores": 2, "memory": 4.0, "disk": 40, "architecture": "x86"},
        "datacenter": {"id": 4, "name": "fsn1-dc14", "location": {"id": 1, "name": "fsn1", "country": "DE"}},
        "image": {"id": 114_690_387, "type": "system", "name": "debian-12", "description": "Debian 12"},
        "iso": null, "rescue_enabled": false, "locked": false, "labels": {"role": "web"}, "volumes": []
    })
}

fn page(servers: &[Value], next: Option<u64>) -> Value {
    json!({"servers": servers, "meta": {"pagination":
        {"page": 1, "per_page": 50, "previous_page": null, "next_page": next, "last_page": 2, "total_entries": 3}}})
}

fn error(code: &str) -> Value {
    json!({"error": {"code": code, "message": "in Hetzner's words", "details": null}})
}

#[tokio::test]
async fn authentication_sends_a_request_that_every_valid_token_may_send() {
    let provider = Provider::start(|_| {
        vec![Step::get("/v1/locations?per_page=1").bearer(TOKEN).answer(200, json!({"locations": [], "meta": {}}))]
    })
    .await;
    assert_eq!(Hetzner.authenticate(&access_to(&provider)).await.unwrap(), Identity("token …6789".to_owned()));
}

#[tokio::test]
async fn list_reads_all_pages() {
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v1/servers?page=1&per_page=50")
                .bearer(TOKEN)
                .answer(200, page(&[server(42, "web-01", "running"), server(43, "db-01", "off")], Some(2))),
            Step::get("/v1/servers?page=2&per_page=50")
                .bearer(TOKEN)
                .answer(200, page(&[server(44, "new-01", "initializing")], None)),
        ]
    })
    .await;
    let (vms, pages) = whole_fleet(&Hetzner, &access_to(&provider)).await;
    assert_eq!(pages, 2);
    let states: Vec<_> = vms.iter().map(|vm| (vm.provider_vm_id.as_str(), vm.state)).collect();
    assert_eq!(states, [("42", VmState::Running), ("43", VmState::Stopped), ("44", VmState::Provisioning)]);
    let vm = &vms[0];
    assert_eq!((vm.name.as_str(), vm.region.as_str(), vm.provider_state.as_str()), ("web-01", "fsn1", "running"));
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, vm.size.memory_bytes), ("cx22", Some(2), Some(4 << 30)));
    assert_eq!(
        (texts(&vm.private_ips), texts(&vm.public_ips)),
        (vec!["10.0.0.2".into()], vec!["78.46.10.20".into(), "2a01:4f8:c0c:1::1".into()])
    );
    assert_eq!((vm.image.as_deref(), &vm.tags), (Some("debian-12"), &tags(&[("role", "web")])));
    assert_eq!(vm.launched_at, Timestamp::parse("2026-01-30T23:55:00Z"));
}

#[tokio::test]
async fn a_migrating_server_is_running() {
    let provider = Provider::start(|_| {
        vec![Step::get("/v1/servers/42").bearer(TOKEN).answer(200, json!({"server": server(42, "web-01", "migrating")}))]
    })
    .await;
    let found = Hetzner.get(&access_to(&provider), &place("42", "fsn1", None)).await.unwrap().unwrap();
    assert_eq!((found.state, found.provider_state.as_str()), (VmState::Running, "migrating"));
    assert_eq!(found.state_note.as_deref(), Some("The provider is moving it to another host."));
}

#[tokio::test]
async fn list_returns_only_configured_regions() {
    let provider = Provider::start(|_| {
        vec![Step::get("/v1/servers?page=1&per_page=50").bearer(TOKEN).answer(200, page(&[server(42, "a", "off")], None))]
    })
    .await;
    let mut access = access_to(&provider);
    access.config.regions = vec!["hel1".to_owned()];
    assert!(whole_fleet(&Hetzner, &access).await.0.is_empty());
}

#[tokio::test]
async fn get_reads_a_server_or_returns_none() {
    let mut moved = server(42, "web-01", "stopping");
    moved["datacenter"] = Value::Null;
    moved["location"] = json!({"id": 3, "name": "hel1"});
    moved["public_net"] = json!({"ipv4": null, "ipv6": null, "floating_ips": []});
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v1/servers/42").bearer(TOKEN).answer(200, json!({"server": moved})),
            Step::get("/v1/servers/43").bearer(TOKEN).answer(404, error("not_found")),
        ]
    })
    .await;
    let access = access_to(&provider);
    let found = Hetzner.get(&access, &place("42", "hel1", None)).await.unwrap().unwrap();
    assert_eq!((found.state, found.region.as_str(), found.public_ips.len()), (VmState::Stopping, "hel1", 0));
    assert_eq!(Hetzner.get(&access, &place("43", "hel1", None)).await.unwrap(), None);
}

#[tokio::test]
async fn an_order_is_found_by_its_token_label() {
    let token = token();
    let labels = json!({"role": "web", "tenantd-order": token});
    let provider = Provider::start(|_| {
        vec![
            Step::post("/v1/servers")
                .bearer(TOKEN)
                .json(json!({
                    "name": "web-01", "location": "fsn1", "server_type": "cx22", "image": "debian-12", "start_after_create": true,
                    "labels": labels, "ssh_keys": ["ada"], "networks": [4711], "user_data": "#cloud-config\n"
                }))
                .answer(201, json!({"server": server(42, "web-01", "initializing"), "action": {"id": 1}, "root_password": null})),
            Step::get(format!("/v1/servers?label_selector=tenantd-order%3D%3D{token}"))
                .bearer(TOKEN)
                .answer(200, page(&[server(42, "web-01", "starting")], None)),
            Step::get(format!("/v1/servers?label_selector=tenantd-order%3D%3D{token}")).bearer(TOKEN).answer(200, page(&[], None)),
        ]
    })
    .await;
    let access = access_to(&provider);
    let order = Order { network: Some("4711".into()), ssh_keys: vec!["ada".into()], ..order("fsn1", "cx22", "debian-12") };
    assert_eq!(Hetzner.provision(&access, &order).await.unwrap().provider_vm_id, "42");
    assert_eq!(Hetzner.find(&access, &order).await.unwrap().unwrap().state, VmState::Starting);
    assert_eq!(Hetzner.find(&access, &order).await.unwrap(), None);
}

#[tokio::test]
async fn an_unsupported_order_is_not_sent() {
    let provider = Provider::start(|_| Vec::new()).await;
    let access = access_to(&provider);
    for (order, code) in [
        (Order { zone: Some("fsn1-dc14".into()), ..order("fsn1", "cx22", "debian-12") }, "no_zones"),
        (Order { network: Some("lan".into()), ..order("fsn1", "cx22", "debian-12") }, "bad_network"),
    ] {
        let failure = Hetzner.provision(&access, &order).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::InvalidRequest, code));
    }
}

#[tokio::test]
async fn a_rehearsal_checks_names_and_write_permission() {
    let known = |list: &str| json!({list: [{"id": 1}], "meta": {}});
    let empty_order = || Step::post("/v1/servers").bearer(TOKEN).json(json!({}));
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v1/locations?name=fsn1").bearer(TOKEN).answer(200, known("locations")),
            Step::get("/v1/server_types?name=cx22").bearer(TOKEN).answer(200, known("server_types")),
            Step::get("/v1/images?name=debian-12").bearer(TOKEN).answer(200, known("images")),
            empty_order().answer(422, error("invalid_input")),
            empty_order().answer(403, error("token_readonly")),
            Step::get("/v1/locations?name=mars1").bearer(TOKEN).answer(200, json!({"locations": [], "meta": {}})),
        ]
    })
    .await;
    let access = access_to(&provider);
    assert_eq!(Hetzner.rehearse(&access, Some(&order("fsn1", "cx22", "debian-12"))).await.unwrap(), Rehearsal::Allowed);
    assert_eq!(Hetzner.rehearse(&access, None).await.unwrap_err().class, FailureClass::InsufficientPermissions);
    let unknown = Hetzner.rehearse(&access, Some(&order("mars1", "cx22", "debian-12"))).await.unwrap_err();
    assert_eq!((unknown.class, unknown.code.as_str()), (FailureClass::NotFound, "unknown_region"));
}

#[tokio::test]
async fn errors_map_to_failure_classes() {
    for (status, code, class) in [
        (401, "unauthorized", FailureClass::InvalidCredentials),
        (403, "forbidden", FailureClass::InsufficientPermissions),
        (429, "rate_limit_exceeded", FailureClass::RateLimited),
        (403, "resource_limit_exceeded", FailureClass::QuotaExceeded),
        (412, "resource_unavailable", FailureClass::QuotaExceeded),
        (404, "not_found", FailureClass::NotFound),
        (409, "uniqueness_error", FailureClass::InvalidRequest),
        (503, "maintenance", FailureClass::ProviderError),
        (504, "timeout", FailureClass::Timeout),
    ] {
        let provider =
            Provider::start(|_| vec![Step::get("/v1/servers?page=1&per_page=50").bearer(TOKEN).refusal(status, error(code))]).await;
        let failure = Hetzner.list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str(), failure.message.as_str()), (class, code, "in Hetzner's words"));
    }
}

#[tokio::test]
async fn a_rate_limit_failure_has_a_retry_time() {
    let reset = (NOW_SECONDS + 90).to_string();
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v1/servers?page=1&per_page=50")
                .bearer(TOKEN)
                .answer(429, error("rate_limit_exceeded"))
                .answer_header("ratelimit-limit", "3600")
                .answer_header("ratelimit-remaining", "0")
                .answer_header("ratelimit-reset", reset),
        ]
    })
    .await;
    let failure = Hetzner.list(&access_to(&provider), None).await.unwrap_err();
    assert_eq!((failure.class, failure.retry_after), (FailureClass::RateLimited, Some(Duration::from_secs(90))));
}

#[tokio::test]
async fn an_unknown_error_is_classified_by_its_status() {
    let provider = Provider::start(|_| {
        vec![Step::get("/v1/servers/1").bearer(TOKEN).answer(502, Value::Null).answer_header("retry-after", "60")]
    })
    .await;
    let failure = Hetzner.get(&access_to(&provider), &place("1", "fsn1", None)).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::ProviderError, "http_502"));
}

#[tokio::test]
async fn a_partly_unreadable_server_is_listed() {
    let mut odd = server(42, "web-01", "running");
    odd["server_type"]["cores"] = json!("many");
    odd["private_net"] = json!([{"ip": "10.0.0.2"}, {"ip": "?"}, 7]);
    odd["created"] = json!("yesterday");
    let mut bare = server(43, "db-01", "off");
    for field in ["status", "public_net", "private_net", "server_type", "datacenter", "image", "labels", "created"] {
        bare.as_object_mut().unwrap().remove(field);
    }
    let provider = Provider::start(|_| {
        vec![Step::get("/v1/servers?page=1&per_page=50").bearer(TOKEN).answer(200, page(&[odd, bare, json!({"name": "x"})], None))]
    })
    .await;
    let page = Hetzner.list(&access_to(&provider), None).await.unwrap();
    assert_eq!(unread(&page.vms[0]), ["private_ips", "size", "launched_at"]);
    assert_eq!((page.vms[0].size.id.as_str(), texts(&page.vms[0].private_ips)), ("cx22", vec!["10.0.0.2".into()]));
    assert_eq!((unread(&page.vms[1]), page.vms[1].state), (vec!["state", "size"], VmState::Unknown));
    assert_eq!(page.skipped, ["an entry has no id"]);
}
