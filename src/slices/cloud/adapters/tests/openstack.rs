//! OpenStack, according to the references of the Identity API v3 and of the Compute API with its microversions.

use serde_json::{Value, json};

use super::{super::openstack::OpenStack, *};
use crate::model::VmState;

const TOKEN: &str = "gAAAAABh-keystone-token";

fn access_to(provider: &Provider) -> Access {
    access_with(provider, &[], credentials())
}

fn credentials() -> Value {
    json!({"application_credential_id": "4cb5aeb5", "application_credential_secret": "rEaqvJka48mpv"})
}

fn access_with(provider: &Provider, regions: &[&str], fields: Value) -> Access {
    let config = ProviderConfig {
        auth_url: Some(format!("{}/identity/v3/", provider.url())),
        regions: regions.iter().map(|region| (*region).to_owned()).collect(),
        ..ProviderConfig::default()
    };
    access(config, credential(ProviderKind::Openstack, fields))
}

fn login() -> Step {
    Step::post("/identity/v3/auth/tokens").json(json!({"auth": {"identity": {
        "methods": ["application_credential"], "application_credential": {"id": "4cb5aeb5", "secret": "rEaqvJka48mpv"}}}}))
}

fn token_answer(url: &str) -> Value {
    let endpoint = |interface: &str, region: &str, path: &str| json!({"id": "e", "interface": interface, "region": region, "region_id": region, "url": format!("{url}{path}")});
    json!({"token": {
        "methods": ["application_credential"], "expires_at": "2026-01-31T13:00:00.000000Z", "issued_at": "2026-01-31T12:00:00.000000Z",
        "user": {"id": "u", "name": "ada", "domain": {"id": "default", "name": "Default"}},
        "project": {"id": "p", "name": "lab", "domain": {"id": "default", "name": "Default"}}, "roles": [{"id": "r", "name": "member"}],
        "catalog": [
            {"type": "identity", "name": "keystone", "id": "k", "endpoints": [endpoint("public", "north", "/identity")]},
            {"type": "compute", "name": "nova", "id": "n", "endpoints": [
                endpoint("internal", "north", "/inside"), endpoint("public", "north", "/north/v2.1/"), endpoint("public", "south", "/south/v2.1")]}
        ]
    }})
}

fn granted(url: &str, token: &str) -> Step {
    login().answer(201, token_answer(url)).answer_header("x-subject-token", token)
}

fn with_token(step: Step, token: &str) -> Step {
    step.header("x-auth-token", token).header("openstack-api-version", "compute 2.52")
}

fn get(path: &str) -> Step {
    with_token(Step::get(path), TOKEN)
}

fn server(id: &str, name: &str, status: &str) -> Value {
    json!({
        "id": id, "name": name, "status": status, "created": "2026-01-30T19:24:42Z", "updated": "2026-01-30T19:24:43Z",
        "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:power_state": 1, "OS-EXT-STS:task_state": null, "OS-EXT-STS:vm_state": "active",
        "OS-SRV-USG:launched_at": "2026-01-30T19:24:43.891568", "accessIPv4": "", "key_name": null, "locked": false, "tags": [],
        "addresses": {
            "lan": [{"OS-EXT-IPS-MAC:mac_addr": "aa:bb:cc:dd:ee:ff", "OS-EXT-IPS:type": "fixed", "addr": "192.168.0.3", "version": 4},
                {"OS-EXT-IPS-MAC:mac_addr": "aa:bb:cc:dd:ee:ff", "OS-EXT-IPS:type": "floating", "addr": "172.24.4.10", "version": 4}],
            "provider": [{"OS-EXT-IPS-MAC:mac_addr": "aa:bb:cc:dd:ee:fe", "OS-EXT-IPS:type": "fixed", "addr": "2a00:1450::5", "version": 6}]
        },
        "flavor": {"disk": 20, "ephemeral": 0, "extra_specs": {}, "original_name": "m1.small", "ram": 2048, "swap": 0, "vcpus": 1},
        "image": {"id": "70a599e0-31e7-49b7-b260-868f441e862b", "links": []}, "metadata": {"role": "web"}, "tenant_id": "p", "user_id": "u"
    })
}

fn page(servers: &[Value], more: bool) -> Value {
    let mut page = json!({"servers": servers});
    if more {
        page["servers_links"] = json!([{"rel": "next", "href": "http://inside.example/v2.1/servers/detail?limit=100&marker=x"}]);
    }
    page
}

fn nova_error(name: &str, status: u16, message: &str) -> Value {
    json!({name: {"code": status, "message": message}})
}

#[tokio::test]
async fn authentication_works_with_both_credential_forms() {
    let password = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": "ada", "domain": {"name": "Default"}, "password": "s3cret"}}},
        "scope": {"project": {"name": "lab", "domain": {"name": "customers"}}}
    }});
    let provider = Provider::start(|url| {
        let by_password = Step::post("/identity/v3/auth/tokens").json(password);
        vec![granted(url, TOKEN), by_password.answer(201, token_answer(url)).answer_header("x-subject-token", TOKEN)]
    })
    .await;
    assert_eq!(OpenStack::new().authenticate(&access_to(&provider)).await.unwrap().0, "ada in lab");
    let fields = json!({"username": "ada", "password": "s3cret", "project_name": "lab", "project_domain_name": "customers"});
    assert_eq!(OpenStack::new().authenticate(&access_with(&provider, &[], fields)).await.unwrap().0, "ada in lab");
}

#[tokio::test]
async fn keystone_errors_are_reported() {
    for (status, title, class) in [
        (401, "Unauthorized", FailureClass::InvalidCredentials),
        (403, "Forbidden", FailureClass::InsufficientPermissions),
        (404, "Not Found", FailureClass::NotFound),
        (429, "Too Many Requests", FailureClass::RateLimited),
        (503, "Service Unavailable", FailureClass::ProviderError),
        (504, "Gateway Timeout", FailureClass::Timeout),
    ] {
        let body =
            json!({"error": {"code": status, "message": "The request you have made requires authentication.", "title": title}});
        let provider = Provider::start(|_| vec![login().refusal(status, body)]).await;
        let failure = OpenStack::new().authenticate(&access_to(&provider)).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, title));
    }
}

#[tokio::test]
async fn list_reads_all_pages_of_all_regions() {
    let mut volume_booted = server("s3", "paused-01", "PAUSED");
    volume_booted["image"] = json!("");
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get("/north/v2.1/servers/detail?limit=100")
                .answer(200, page(&[server("s1", "web-01", "ACTIVE"), server("s2", "db-01", "SHUTOFF")], true)),
            get("/north/v2.1/servers/detail?limit=100&marker=s2").answer(200, page(&[volume_booted], false)),
            get("/south/v2.1/servers/detail?limit=100").answer(200, page(&[server("s4", "far-01", "BUILD")], false)),
        ]
    })
    .await;
    let (vms, pages) = whole_fleet(&OpenStack::new(), &access_to(&provider)).await;
    assert_eq!(pages, 3);
    let seen: Vec<_> = vms.iter().map(|vm| (vm.name.as_str(), vm.region.as_str(), vm.state)).collect();
    assert_eq!(
        seen,
        [
            ("web-01", "north", VmState::Running),
            ("db-01", "north", VmState::Stopped),
            ("paused-01", "north", VmState::Suspended),
            ("far-01", "south", VmState::Provisioning)
        ]
    );
    let vm = &vms[0];
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, vm.size.memory_bytes), ("m1.small", Some(1), Some(2 << 30)));
    // A floating address is always public to the cloud; a fixed address is classified by its range.
    assert_eq!(texts(&vm.private_ips), ["192.168.0.3"]);
    assert_eq!(texts(&vm.public_ips), ["172.24.4.10", "2a00:1450::5"]);
    assert_eq!((vm.zone.as_deref(), &vm.tags), (Some("nova"), &tags(&[("role", "web")])));
    assert_eq!((vm.image.as_deref(), vms[2].image.as_deref()), (Some("70a599e0-31e7-49b7-b260-868f441e862b"), None));
    assert_eq!(vm.launched_at, Timestamp::parse("2026-01-30T19:24:42Z"));
}

#[tokio::test]
async fn an_unknown_region_error_lists_the_known_regions() {
    let provider = Provider::start(|url| vec![granted(url, TOKEN)]).await;
    let fields = json!({"application_credential_id": "4cb5aeb5", "application_credential_secret": "rEaqvJka48mpv"});
    let failure = OpenStack::new().list(&access_with(&provider, &["west"], fields), None).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::NotFound, "unknown_region"));
    assert!(failure.message.contains("north, south"));
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let look = |token: &str| with_token(Step::get("/north/v2.1/servers/s1"), token);
    let refused =
        json!({"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            look(TOKEN).answer(200, json!({"server": server("s1", "web-01", "ACTIVE")})),
            look(TOKEN).answer(401, refused.clone()),
            granted(url, "second"),
            look("second").answer(200, json!({"server": server("s1", "web-01", "ACTIVE")})),
            look("second").answer(401, refused.clone()),
            granted(url, "third"),
            look("third").answer(401, refused),
        ]
    })
    .await;
    let (openstack, access) = (OpenStack::new(), access_to(&provider));
    for _ in 0..2 {
        assert!(openstack.get(&access, &place("s1", "north", None)).await.unwrap().is_some());
    }
    let failure = openstack.get(&access, &place("s1", "north", None)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidCredentials);
}

#[tokio::test]
async fn get_reads_a_server_with_its_fault_or_returns_none() {
    let mut broken = server("s1", "web-01", "ERROR");
    broken["fault"] = json!({"code": 500, "created": "2026-01-30T19:24:43Z", "message": "No valid host was found."});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get("/south/v2.1/servers/s1").answer(200, json!({"server": broken})),
            get("/south/v2.1/servers/s9").answer(404, nova_error("itemNotFound", 404, "Instance s9 could not be found.")),
        ]
    })
    .await;
    let (openstack, access) = (OpenStack::new(), access_to(&provider));
    let vm = openstack.get(&access, &place("s1", "south", None)).await.unwrap().unwrap();
    assert_eq!((vm.state, vm.state_note.as_deref()), (VmState::Error, Some("No valid host was found.")));
    assert_eq!(openstack.get(&access, &place("s9", "south", None)).await.unwrap(), None);
}

fn lab_order() -> Order {
    Order {
        zone: Some("nova".into()),
        network: Some("3cb9bc59-5699-4588-a4b1-b87f96708bc6".into()),
        ssh_keys: vec!["ada".into()],
        ..order("north", "m1.small", "70a599e0-31e7-49b7-b260-868f441e862b")
    }
}

fn flavors() -> Step {
    get("/north/v2.1/flavors").answer(
        200,
        json!({"flavors": [{"id": "1", "name": "m1.tiny", "links": []}, {"id": "2", "name": "m1.small", "links": []}]}),
    )
}

#[tokio::test]
async fn an_order_is_found_by_its_token_tag() {
    let token = token();
    let body = json!({"server": {
        "name": "web-01", "imageRef": "70a599e0-31e7-49b7-b260-868f441e862b", "flavorRef": "2", "availability_zone": "nova", "key_name": "ada",
        "networks": [{"uuid": "3cb9bc59-5699-4588-a4b1-b87f96708bc6"}], "user_data": "I2Nsb3VkLWNvbmZpZwo=",
        "metadata": {"role": "web", "tenantd-order": token}, "tags": [token]
    }});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            flavors(),
            with_token(Step::post("/north/v2.1/servers"), TOKEN).json(body).answer(
                202,
                json!({"server": {"id": "s1", "links": [], "OS-DCF:diskConfig": "AUTO", "adminPass": "zPnp2GseTqG4"}}),
            ),
            get("/north/v2.1/servers/s1").answer(200, json!({"server": server("s1", "web-01", "BUILD")})),
            get(&format!("/north/v2.1/servers/detail?tags={token}")).answer(200, page(&[server("s1", "web-01", "ACTIVE")], false)),
            get(&format!("/north/v2.1/servers/detail?tags={token}")).answer(200, page(&[], false)),
        ]
    })
    .await;
    let (openstack, access, order) = (OpenStack::new(), access_to(&provider), lab_order());
    let created = openstack.provision(&access, &order).await.unwrap();
    assert_eq!((created.provider_vm_id.as_str(), created.state), ("s1", VmState::Provisioning));
    assert_eq!(openstack.find(&access, &order).await.unwrap().unwrap().state, VmState::Running);
    assert_eq!(openstack.find(&access, &order).await.unwrap(), None);
    let keys = Order { ssh_keys: vec!["ada".into(), "bob".into()], ..order };
    assert_eq!(openstack.provision(&access, &keys).await.unwrap_err().code, "too_many_ssh_keys");
}

#[tokio::test]
async fn a_rehearsal_checks_flavors_and_quotas() {
    let limits = |used: u32| json!({"limits": {"rate": [], "absolute": {"maxTotalInstances": 10, "totalInstancesUsed": used, "maxTotalCores": -1}}});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            flavors(),
            get("/north/v2.1/limits").answer(200, limits(9)),
            flavors(),
            get("/north/v2.1/limits").answer(200, limits(10)),
            flavors(),
        ]
    })
    .await;
    let (openstack, access) = (OpenStack::new(), access_to(&provider));
    assert_eq!(openstack.rehearse(&access, None).await.unwrap(), Rehearsal::CannotTell);
    assert_eq!(openstack.rehearse(&access, Some(&lab_order())).await.unwrap(), Rehearsal::CannotTell);
    assert_eq!(openstack.rehearse(&access, Some(&lab_order())).await.unwrap_err().class, FailureClass::QuotaExceeded);
    let odd = Order { size: "m9.huge".into(), ..lab_order() };
    assert_eq!(openstack.rehearse(&access, Some(&odd)).await.unwrap_err().code, "unknown_size");
}

#[tokio::test]
async fn errors_map_to_failure_classes() {
    let quota = "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances";
    for (status, name, message, class) in [
        (
            403,
            "forbidden",
            "Policy doesn't allow os_compute_api:servers:detail to be performed.",
            FailureClass::InsufficientPermissions,
        ),
        (403, "forbidden", quota, FailureClass::QuotaExceeded),
        (400, "badRequest", "Invalid imageRef provided.", FailureClass::InvalidRequest),
        (413, "overLimit", "This request was rate-limited.", FailureClass::RateLimited),
        (429, "overLimit", "slow down", FailureClass::RateLimited),
        (500, "computeFault", "Unexpected API Error.", FailureClass::ProviderError),
        (504, "gatewayTimeout", "late", FailureClass::Timeout),
    ] {
        let provider = Provider::start(|url| {
            vec![
                granted(url, TOKEN),
                get("/north/v2.1/servers/detail?limit=100").refusal(status, nova_error(name, status, message)),
            ]
        })
        .await;
        let failure = OpenStack::new().list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, name));
    }
}

#[tokio::test]
async fn an_old_cloud_is_read_as_far_as_possible() {
    let old = json!({
        "id": "s1", "name": "web-01", "status": "ACTIVE", "created": "2011-10-01T00:00:00Z", "hostId": "h",
        "flavor": {"id": "1", "links": []}, "image": {"id": "7", "links": []}, "metadata": {"role": "web"},
        "addresses": {"private": [{"version": 4, "addr": "10.0.0.3"}, {"version": 4, "addr": "broken"}]}
    });
    let mut odd = server("s2", "db-01", "SHUTOFF");
    odd["flavor"] = json!("m1.small");
    let mut nobody = server("s3", "x", "ACTIVE");
    nobody["id"] = json!({});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get("/north/v2.1/servers/detail?limit=100").answer(200, page(&[old, odd, nobody], true)),
            // The last entry has no id, so the link provides the marker.
            get("/north/v2.1/servers/detail?limit=100&marker=x").answer(200, page(&[server("s4", "far-01", "BUILD")], false)),
        ]
    })
    .await;
    let (openstack, access) = (OpenStack::new(), access_with(&provider, &["north"], credentials()));
    let first = openstack.list(&access, None).await.unwrap();
    assert_eq!(first.vms.iter().map(unread).collect::<Vec<_>>(), [vec!["private_ips"], vec!["size"]]);
    let vm = &first.vms[0];
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, texts(&vm.private_ips)), ("1", None, vec!["10.0.0.3".into()]));
    assert_eq!((vm.state, first.vms[1].state), (VmState::Running, VmState::Stopped));
    assert_eq!(first.skipped.len(), 1);
    assert_eq!(openstack.list(&access, first.next.as_deref()).await.unwrap().vms[0].provider_vm_id, "s4");
}
