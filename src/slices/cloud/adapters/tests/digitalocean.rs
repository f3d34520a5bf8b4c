//! DigitalOcean, according to the reference of API v2.

use serde_json::{Value, json};

use super::{super::digitalocean::DigitalOcean, *};
use crate::model::VmState;

const TOKEN: &str = "dop_v1_0123456789abcdef";

fn access_to(provider: &Provider) -> Access {
    let config = ProviderConfig { endpoint: Some(provider.url()), ..ProviderConfig::default() };
    access(config, credential(ProviderKind::Digitalocean, json!({"api_token": TOKEN})))
}

fn droplet(id: u64, name: &str, status: &str) -> Value {
    json!({
        "id": id, "name": name, "memory": 1024, "vcpus": 1, "disk": 25, "locked": false, "status": status, "kernel": null,
        "created_at": "2026-01-30T18:37:44Z", "features": ["private_networking", "ipv6"], "backup_ids": [], "next_backup_window": null,
        "image": {"id": 63_663_980, "name": "12 x64", "distribution": "Debian", "slug": "debian-12-x64", "public": true},
        "volume_ids": [], "size": {"slug": "s-1vcpu-1gb", "memory": 1024, "vcpus": 1}, "size_slug": "s-1vcpu-1gb",
        "networks": {
            "v4": [
                {"ip_address": "10.128.192.124", "netmask": "255.255.0.0", "gateway": "nil", "type": "private"},
                {"ip_address": "167.99.10.20", "netmask": "255.255.240.0", "gateway": "167.99.0.1", "type": "public"}
            ],
            "v6": [{"ip_address": "2604:a880:0:1010::18a:a001", "netmask": 64, "gateway": "2604:a880:0:1010::1", "type": "public"}]
        },
        "region": {"name": "Frankfurt 1", "slug": "fra1"}, "tags": ["role:web", "prod"], "vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000"
    })
}

fn page(droplets: &[Value], next: Option<&str>) -> Value {
    let links = next.map_or_else(|| json!({}), |next| json!({"pages": {"next": next, "last": next}}));
    json!({"droplets": droplets, "links": links, "meta": {"total": 3}})
}

fn error(id: &str, message: &str) -> Value {
    json!({"id": id, "message": message, "request_id": "4d9d8375-3c56-4925-a3e7-eb137fed17e9"})
}

#[tokio::test]
async fn authentication_reads_the_account() {
    let account = json!({"account": {"droplet_limit": 25, "email": "ada@example.com", "uuid": "b6fr89dbf6d9156cace5f3c78dc9851d957381ef",
        "email_verified": true, "status": "active", "team": {"uuid": "5df3e3004a17e242b7c20ca6c9fc25b701a47ece", "name": "Lab"}}});
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v2/account").bearer(TOKEN).answer(200, account),
            Step::get("/v2/account")
                .bearer(TOKEN)
                .answer(403, error("Forbidden", "You are not authorized to perform this operation")),
        ]
    })
    .await;
    let access = access_to(&provider);
    assert_eq!(DigitalOcean.authenticate(&access).await.unwrap().0, "ada@example.com (Lab)");
    // A token with scopes for droplets only.
    assert_eq!(DigitalOcean.authenticate(&access).await.unwrap().0, "token …cdef");
}

#[tokio::test]
async fn list_reads_all_pages() {
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v2/droplets?page=1&per_page=200").bearer(TOKEN).answer(
                200,
                page(
                    &[droplet(3_164_444, "web-01", "active"), droplet(3_164_445, "db-01", "off")],
                    // The request must use the page number of the link, but not its host: the token must not go there.
                    Some("https://elsewhere.example/v2/droplets?page=2&per_page=200"),
                ),
            ),
            Step::get("/v2/droplets?page=2&per_page=200")
                .bearer(TOKEN)
                .answer(200, page(&[droplet(3_164_446, "new-01", "new")], None)),
        ]
    })
    .await;
    let (vms, pages) = whole_fleet(&DigitalOcean, &access_to(&provider)).await;
    assert_eq!(pages, 2);
    let states: Vec<_> = vms.iter().map(|vm| (vm.provider_vm_id.as_str(), vm.state)).collect();
    assert_eq!(states, [("3164444", VmState::Running), ("3164445", VmState::Stopped), ("3164446", VmState::Provisioning)]);
    assert!(vms[1].state_note.as_ref().unwrap().contains("billed"));
    let vm = &vms[0];
    assert_eq!((vm.name.as_str(), vm.region.as_str(), vm.provider_state.as_str()), ("web-01", "fra1", "active"));
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, vm.size.memory_bytes), ("s-1vcpu-1gb", Some(1), Some(1 << 30)));
    assert_eq!(texts(&vm.private_ips), ["10.128.192.124"]);
    assert_eq!(texts(&vm.public_ips), ["167.99.10.20", "2604:a880:0:1010::18a:a001"]);
    assert_eq!((vm.image.as_deref(), &vm.tags), (Some("debian-12-x64"), &tags(&[("role", "web"), ("prod", "")])));
    assert_eq!(vm.launched_at, Timestamp::parse("2026-01-30T18:37:44Z"));
}

#[tokio::test]
async fn get_reads_a_droplet_or_returns_none() {
    let provider = Provider::start(|_| {
        vec![
            Step::get("/v2/droplets/3164444")
                .bearer(TOKEN)
                .answer(200, json!({"droplet": droplet(3_164_444, "web-01", "archive")})),
            Step::get("/v2/droplets/1")
                .bearer(TOKEN)
                .answer(404, error("not_found", "The resource you requested could not be found.")),
        ]
    })
    .await;
    let access = access_to(&provider);
    assert_eq!(DigitalOcean.get(&access, &place("3164444", "fra1", None)).await.unwrap().unwrap().state, VmState::Stopped);
    assert_eq!(DigitalOcean.get(&access, &place("1", "fra1", None)).await.unwrap(), None);
}

#[tokio::test]
async fn an_order_is_found_by_its_token_tag() {
    let token = token();
    let provider = Provider::start(|_| {
        vec![
            Step::post("/v2/droplets")
                .bearer(TOKEN)
                .json(json!({
                    "name": "web-01", "region": "fra1", "size": "s-1vcpu-1gb", "image": 63_663_980,
                    "tags": [format!("tenantd-order:{token}"), "role:web"],
                    "ssh_keys": [289_794, "3b:16:e4:bf:8b:00:8b:b8:59:8c:a9:d3:f0:19:fa:45"],
                    "vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000", "user_data": "#cloud-config\n"
                }))
                .answer(202, json!({"droplet": droplet(3_164_444, "web-01", "new"), "links": {"actions": []}})),
            Step::get(format!("/v2/droplets?tag_name=tenantd-order%3A{token}"))
                .bearer(TOKEN)
                .answer(200, page(&[droplet(3_164_444, "web-01", "active")], None)),
            Step::get(format!("/v2/droplets?tag_name=tenantd-order%3A{token}")).bearer(TOKEN).answer(200, page(&[], None)),
        ]
    })
    .await;
    let access = access_to(&provider);
    let order = Order {
        network: Some("760e09ef-dc84-11e8-981e-3cfdfeaae000".into()),
        ssh_keys: vec!["289794".into(), "3b:16:e4:bf:8b:00:8b:b8:59:8c:a9:d3:f0:19:fa:45".into()],
        ..order("fra1", "s-1vcpu-1gb", "63663980")
    };
    assert_eq!(DigitalOcean.provision(&access, &order).await.unwrap().state, VmState::Provisioning);
    assert_eq!(DigitalOcean.find(&access, &order).await.unwrap().unwrap().state, VmState::Running);
    assert_eq!(DigitalOcean.find(&access, &order).await.unwrap(), None);
}

#[tokio::test]
async fn an_order_with_invalid_tags_is_not_sent() {
    let provider = Provider::start(|_| Vec::new()).await;
    let order = Order { tags: tags(&[("owner", "Ada Lovelace")]), ..order("fra1", "s-1vcpu-1gb", "debian-12-x64") };
    let failure = DigitalOcean.provision(&access_to(&provider), &order).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::InvalidRequest, "bad_tag"));
}

#[tokio::test]
async fn a_rehearsal_checks_size_image_and_permission() {
    let sizes = || {
        let sizes = json!([{"slug": "s-1vcpu-1gb", "memory": 1024, "vcpus": 1, "available": true, "regions": ["ams3", "fra1"]}]);
        Step::get("/v2/sizes?per_page=200").bearer(TOKEN).answer(200, json!({"sizes": sizes, "links": {}, "meta": {"total": 1}}))
    };
    let empty_order = || Step::post("/v2/droplets").bearer(TOKEN).json(json!({}));
    let provider = Provider::start(|_| {
        vec![
            sizes(),
            Step::get("/v2/images/debian-12-x64").bearer(TOKEN).answer(200, json!({"image": {"id": 1}})),
            empty_order().answer(422, error("unprocessable_entity", "name is required")),
            empty_order().answer(403, error("Forbidden", "You are not authorized to perform this operation")),
            sizes(),
            sizes(),
        ]
    })
    .await;
    let access = access_to(&provider);
    let fits = order("fra1", "s-1vcpu-1gb", "debian-12-x64");
    assert_eq!(DigitalOcean.rehearse(&access, Some(&fits)).await.unwrap(), Rehearsal::CannotTell);
    assert_eq!(DigitalOcean.rehearse(&access, None).await.unwrap_err().class, FailureClass::InsufficientPermissions);
    for (region, size, code) in [("nyc3", "s-1vcpu-1gb", "size_not_in_region"), ("fra1", "s-99vcpu", "unknown_size")] {
        assert_eq!(DigitalOcean.rehearse(&access, Some(&order(region, size, "debian-12-x64"))).await.unwrap_err().code, code);
    }
}

#[tokio::test]
async fn errors_map_to_failure_classes() {
    let full = "creating this/these droplet(s) will exceed your droplet limit";
    for (status, id, message, class) in [
        (401, "Unauthorized", "Unable to authenticate you", FailureClass::InvalidCredentials),
        (403, "Forbidden", "You are not authorized to perform this operation", FailureClass::InsufficientPermissions),
        (404, "not_found", "The resource you requested could not be found.", FailureClass::NotFound),
        (422, "unprocessable_entity", full, FailureClass::QuotaExceeded),
        (422, "unprocessable_entity", "You specified an invalid image for Droplet creation.", FailureClass::InvalidRequest),
        (429, "too_many_requests", "API Rate limit exceeded.", FailureClass::RateLimited),
        (500, "server_error", "Unexpected server-side error", FailureClass::ProviderError),
        (504, "timeout", "", FailureClass::Timeout),
    ] {
        let provider = Provider::start(|_| {
            vec![Step::get("/v2/droplets?page=1&per_page=200").bearer(TOKEN).refusal(status, error(id, message))]
        })
        .await;
        let failure = DigitalOcean.list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, id));
        assert_eq!(failure.retry_after, Some(Duration::from_mins(1)));
    }
}

#[tokio::test]
async fn a_partly_unreadable_droplet_is_listed() {
    let mut odd = droplet(1, "web-01", "active");
    odd["networks"]["v4"][1]["ip_address"] = json!("nil");
    odd["memory"] = json!("1 GB");
    let provider = Provider::start(|_| {
        let fleet = page(&[odd, json!(null), droplet(2, "db-01", "off")], None);
        vec![Step::get("/v2/droplets?page=1&per_page=200").bearer(TOKEN).answer(200, fleet)]
    })
    .await;
    let page = DigitalOcean.list(&access_to(&provider), None).await.unwrap();
    assert_eq!((unread(&page.vms[0]), unread(&page.vms[1])), (vec!["public_ips", "size"], vec![]));
    assert_eq!((page.vms[0].public_ips.len(), page.skipped.len()), (1, 1));
}
