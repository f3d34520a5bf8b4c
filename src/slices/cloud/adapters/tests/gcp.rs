//! Google Cloud, according to the references of Compute Engine, of Resource Manager, and of OAuth 2.0 for service accounts.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::{super::gcp::Gcp, *};
use crate::model::VmState;

const TOKEN: &str = "ya29.c.b0Aaekm1Kq";
const PROJECT: &str = "/compute/v1/projects/lab-1";
/// A key that was generated for these tests. It belongs to no account.
const PRIVATE_KEY: &str = include_str!("gcp_account_key.pem");
const PUBLIC_KEY: &[u8] = include_bytes!("gcp_account_key.public.der");

fn account(url: &str) -> Value {
    json!({"type": "service_account", "project_id": "lab-1", "private_key_id": "k1", "private_key": PRIVATE_KEY,
        "client_email": "tenantd@lab-1.iam.gserviceaccount.com", "client_id": "1", "token_uri": format!("{url}/token")})
}

fn access_to(provider: &Provider) -> Access {
    access_with(provider, &account(&provider.url()))
}

fn access_with(provider: &Provider, account: &Value) -> Access {
    let config = ProviderConfig { endpoint: Some(provider.url()), ..ProviderConfig::default() };
    access(config, credential(ProviderKind::Gcp, json!({"service_account_json": account.to_string()})))
}

/// Checks that the form contains a valid assertion: the right claims, signed by the account.
fn check_assertion(form: &[(String, String)]) -> Result<(), String> {
    let [(_, grant), (_, assertion)] = form else { return Err(format!("{form:?}")) };
    let names: Vec<&str> = form.iter().map(|(name, _)| name.as_str()).collect();
    let (message, signature) = assertion.rsplit_once('.').ok_or("no signature")?;
    let (header, claims) = message.split_once('.').ok_or("no claims")?;
    let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|error| error.to_string());
    let read = |part: &str| -> Result<Value, String> { serde_json::from_slice(&decode(part)?).map_err(|error| error.to_string()) };
    let (header, claims) = (read(header)?, read(claims)?);
    let audience = claims["aud"].as_str().filter(|audience| audience.ends_with("/token")).ok_or("not for the token endpoint")?;
    let expected = json!([
        ["grant_type", "assertion"],
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        {"alg": "RS256", "typ": "JWT", "kid": "k1"},
        {"iss": "tenantd@lab-1.iam.gserviceaccount.com", "scope": "https://www.googleapis.com/auth/cloud-platform",
            "aud": audience, "iat": NOW_SECONDS, "exp": NOW_SECONDS + 3600}
    ]);
    let got = json!([names, grant, header, claims]);
    if got != expected {
        return Err(format!("expected {expected}, got {got}"));
    }
    let verifiers = rustls::crypto::ring::default_provider().signature_verification_algorithms.mapping;
    let (_, verifiers) = verifiers.iter().find(|(scheme, _)| *scheme == rustls::SignatureScheme::RSA_PKCS1_SHA256).unwrap();
    verifiers[0].verify_signature(PUBLIC_KEY, message.as_bytes(), &decode(signature)?).map_err(|_| "another signature".to_owned())
}

fn login() -> Step {
    Step::post("/token").checked_form(check_assertion)
}

fn granted() -> Step {
    login().answer(200, json!({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}))
}

fn get(path: &str) -> Step {
    Step::get(format!("{PROJECT}{path}")).bearer(TOKEN)
}

fn instance(id: &str, name: &str, status: &str) -> Value {
    let base = "https://www.googleapis.com/compute/v1/projects/lab-1/zones/europe-west3-b";
    json!({
        "kind": "compute#instance", "id": id, "name": name, "status": status, "zone": base,
        "creationTimestamp": "2026-01-30T03:04:05.678-08:00", "machineType": format!("{base}/machineTypes/e2-small"),
        "networkInterfaces": [{"network": "https://www.googleapis.com/compute/v1/projects/lab-1/global/networks/default",
            "networkIP": "10.156.0.2", "name": "nic0", "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT", "natIP": "34.89.1.2"}]}],
        "disks": [{"type": "PERSISTENT", "boot": true, "deviceName": "d",
            "licenses": ["https://www.googleapis.com/compute/v1/projects/debian-cloud/global/licenses/debian-12-bookworm"]}],
        "labels": {"role": "web"}, "fingerprint": "x"
    })
}

fn page(instances: &[Value], next: Option<&str>) -> Value {
    let empty = json!({"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope 'zones/us-east1-b'"}});
    let mut page = json!({"kind": "compute#instanceAggregatedList", "items": {"zones/us-east1-b": empty}});
    if !instances.is_empty() {
        page["items"]["zones/europe-west3-b"] = json!({"instances": instances});
    }
    if let Some(next) = next {
        page["nextPageToken"] = next.into();
    }
    page
}

fn machine_type() -> Step {
    get("/zones/europe-west3-b/machineTypes/e2-small").answer(200, json!({"name": "e2-small", "guestCpus": 2, "memoryMb": 2048}))
}

fn error(status: u16, reason: &str, message: &str) -> Value {
    json!({"error": {"code": status, "message": message, "errors": [{"message": message, "domain": "global", "reason": reason}]}})
}

#[tokio::test]
async fn authentication_sends_a_signed_assertion() {
    let provider = Provider::start(|_| vec![granted(), granted()]).await;
    let (gcp, access) = (Gcp::new(), access_to(&provider));
    for _ in 0..2 {
        assert_eq!(gcp.authenticate(&access).await.unwrap().0, "tenantd@lab-1.iam.gserviceaccount.com in lab-1");
    }
}

#[tokio::test]
async fn token_endpoint_errors_are_credential_or_clock_failures() {
    let late = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.";
    let (here, elsewhere) = ("Sat, 31 Jan 2026 12:00:03 GMT", "Sat, 31 Jan 2026 12:30:00 GMT");
    for (status, code, description, date, class) in [
        (400, "invalid_grant", "Invalid JWT Signature.", here, FailureClass::InvalidCredentials),
        (400, "invalid_grant", "Invalid grant: account not found", here, FailureClass::InvalidCredentials),
        (400, "invalid_grant", late, here, FailureClass::ClockSkew),
        (400, "invalid_grant", "Invalid JWT", elsewhere, FailureClass::ClockSkew),
        (429, "rate_limited", "", here, FailureClass::RateLimited),
        (503, "internal_failure", "", here, FailureClass::ProviderError),
    ] {
        let provider = Provider::start(|_| {
            vec![login().refusal(status, json!({"error": code, "error_description": description})).answer_header("date", date)]
        })
        .await;
        let failure = Gcp::new().authenticate(&access_to(&provider)).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{description}");
    }
}

#[tokio::test]
async fn an_invalid_account_file_is_refused_before_any_request() {
    let provider = Provider::start(|_| Vec::new()).await;
    let mut no_key = account(&provider.url());
    no_key["private_key"] = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".into();
    for account in [no_key, json!({"type": "authorized_user"}), json!("text")] {
        let failure = Gcp::new().authenticate(&access_with(&provider, &account)).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::InvalidCredentials, "bad_service_account"));
    }
}

#[tokio::test]
async fn list_reads_all_pages_of_all_zones() {
    let provider = Provider::start(|_| {
        vec![
            granted(),
            get("/aggregated/instances?maxResults=500")
                .answer(200, page(&[instance("1", "web-01", "RUNNING"), instance("2", "db-01", "TERMINATED")], Some("next=="))),
            machine_type(),
            get("/aggregated/instances?maxResults=500&pageToken=next%3D%3D")
                .answer(200, page(&[instance("3", "new-01", "STAGING")], None)),
        ]
    })
    .await;
    let (vms, pages) = whole_fleet(&Gcp::new(), &access_to(&provider)).await;
    assert_eq!(pages, 2);
    let states: Vec<_> = vms.iter().map(|vm| (vm.name.as_str(), vm.state)).collect();
    assert_eq!(states, [("web-01", VmState::Running), ("db-01", VmState::Stopped), ("new-01", VmState::Starting)]);
    let vm = &vms[0];
    assert_eq!((vm.provider_vm_id.as_str(), vm.region.as_str(), vm.zone.as_deref()), ("1", "europe-west3", Some("europe-west3-b")));
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, vm.size.memory_bytes), ("e2-small", Some(2), Some(2 << 30)));
    assert_eq!((texts(&vm.private_ips), texts(&vm.public_ips)), (vec!["10.156.0.2".into()], vec!["34.89.1.2".into()]));
    assert_eq!((vm.image.as_deref(), &vm.tags), (Some("debian-12-bookworm"), &tags(&[("role", "web")])));
    assert_eq!(vm.launched_at, Timestamp::parse("2026-01-30T11:04:05.678Z"));
}

#[tokio::test]
async fn an_unreachable_zone_is_reported_as_skipped() {
    let unreachable = json!({"items": {"zones/us-east1-b": {"warning": {"code": "UNREACHABLE", "message": "zone is down"}}}});
    let provider = Provider::start(|_| vec![granted(), get("/aggregated/instances?maxResults=500").answer(200, unreachable)]).await;
    let page = Gcp::new().list(&access_to(&provider), None).await.unwrap();
    assert_eq!(page.skipped, ["zones/us-east1-b: UNREACHABLE: zone is down"]);
}

#[tokio::test]
async fn a_partly_unreadable_machine_is_listed() {
    let mut no_address = instance("1", "web-01", "RUNNING");
    no_address["networkInterfaces"][0]["accessConfigs"][0]["natIP"] = "".into();
    let mut odd = instance("2", "db-01", "RUNNING");
    odd["networkInterfaces"][0]["accessConfigs"][0]["natIP"] = json!({"of": "tomorrow"});
    odd["labels"] = json!({"role": "db", "weight": 7});
    let mut nobody = instance("3", "x", "RUNNING");
    nobody["id"] = Value::Null;
    let provider = Provider::start(|_| {
        let fleet = page(&[no_address, odd, nobody, json!("text")], None);
        vec![granted(), get("/aggregated/instances?maxResults=500").answer(200, fleet), machine_type()]
    })
    .await;
    let page = Gcp::new().list(&access_to(&provider), None).await.unwrap();
    let [first, second] = page.vms.as_slice() else { panic!("{page:?}") };
    assert_eq!((unread(first), first.public_ips.len()), (vec![], 0));
    assert_eq!((unread(second), texts(&second.private_ips)), (vec!["public_ips", "tags"], vec!["10.156.0.2".into()]));
    assert_eq!((second.tags.clone(), page.skipped.len()), (tags(&[("role", "db")]), 2));
}

#[tokio::test]
async fn find_fails_while_a_zone_is_unreachable() {
    let unreachable = json!({"items": {"zones/us-east1-b": {"warning": {"code": "UNREACHABLE", "message": "zone is down"}}}});
    let path = format!("/aggregated/instances?filter=labels.tenantd-order%20%3D%20%22{}%22", token());
    let provider = Provider::start(|_| vec![granted(), get(&path).answer(200, unreachable)]).await;
    let failure = Gcp::new().find(&access_to(&provider), &order("us-east1", "e2-small", "x/y")).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::ProviderError);
}

#[tokio::test]
async fn get_reads_a_machine_or_returns_none() {
    let provider = Provider::start(|_| {
        vec![
            granted(),
            get("/zones/europe-west3-b/instances/1").answer(200, instance("1", "web-01", "SUSPENDED")),
            machine_type(),
            get("/zones/europe-west3-b/instances/9").answer(404, error(404, "notFound", "The resource was not found")),
        ]
    })
    .await;
    let (gcp, access) = (Gcp::new(), access_to(&provider));
    let zone = Some("europe-west3-b");
    assert_eq!(gcp.get(&access, &place("1", "europe-west3", zone)).await.unwrap().unwrap().state, VmState::Suspended);
    assert_eq!(gcp.get(&access, &place("9", "europe-west3", zone)).await.unwrap(), None);
}

fn insert(order: &Order, network: Value) -> Step {
    let uuid = order.token.uuid();
    Step::post(format!("{PROJECT}/zones/europe-west3-b/instances?requestId={uuid}")).bearer(TOKEN).json(json!({
        "name": "web-01", "machineType": "zones/europe-west3-b/machineTypes/e2-small",
        "labels": {"role": "web", "tenantd-order": token()},
        "disks": [{"boot": true, "autoDelete": true,
            "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}}],
        "networkInterfaces": [network],
        "metadata": {"items": [{"key": "user-data", "value": "#cloud-config\n"},
            {"key": "ssh-keys", "value": "ada:ssh-ed25519 AAAA\nadmin:ssh-ed25519 BBBB"}]}
    }))
}

fn lab_order() -> Order {
    let ssh_keys = vec!["ada:ssh-ed25519 AAAA".into(), "ssh-ed25519 BBBB".into()];
    Order { ssh_keys, ..order("europe-west3", "e2-small", "debian-cloud/debian-12") }
}

fn operation(status: &str) -> Value {
    json!({"kind": "compute#operation", "id": "77", "name": "operation-1", "operationType": "insert", "status": status, "targetId": "4242"})
}

fn wait() -> Step {
    Step::post(format!("{PROJECT}/zones/europe-west3-b/operations/operation-1/wait")).bearer(TOKEN)
}

#[tokio::test]
async fn an_order_sends_its_token_and_is_found_by_its_label() {
    let order = lab_order();
    let filter = format!("/aggregated/instances?filter=labels.tenantd-order%20%3D%20%22{}%22", token());
    let zones = json!({"name": "europe-west3", "zones": [
        "https://www.googleapis.com/compute/v1/projects/lab-1/zones/europe-west3-c",
        "https://www.googleapis.com/compute/v1/projects/lab-1/zones/europe-west3-b"]});
    let provider = Provider::start(|_| {
        vec![
            granted(),
            get("/regions/europe-west3").answer(200, zones),
            insert(&order, json!({"network": "global/networks/default"})).answer(200, operation("RUNNING")),
            wait().answer(200, operation("DONE")),
            get("/zones/europe-west3-b/instances/4242").answer(200, instance("4242", "web-01", "PROVISIONING")),
            machine_type(),
            get(&filter).answer(200, page(&[], Some("p2"))),
            get(&format!("{filter}&pageToken=p2")).answer(200, page(&[instance("4242", "web-01", "RUNNING")], None)),
            get(&filter).answer(200, page(&[], None)),
        ]
    })
    .await;
    let (gcp, access) = (Gcp::new(), access_to(&provider));
    let created = gcp.provision(&access, &order).await.unwrap();
    assert_eq!((created.provider_vm_id.as_str(), created.state), ("4242", VmState::Provisioning));
    assert_eq!(gcp.find(&access, &order).await.unwrap().unwrap().provider_vm_id, "4242");
    assert_eq!(gcp.find(&access, &order).await.unwrap(), None);
}

#[tokio::test]
async fn an_accepted_order_succeeds_even_if_its_operation_is_unreadable() {
    let order = Order {
        zone: Some("europe-west3-b".into()),
        network: Some("projects/lab-1/regions/europe-west3/subnetworks/lan".into()),
        ..lab_order()
    };
    let provider = Provider::start(|_| {
        vec![
            granted(),
            insert(&order, json!({"subnetwork": "projects/lab-1/regions/europe-west3/subnetworks/lan"}))
                .answer(200, operation("PENDING")),
            wait().refusal(503, error(503, "backendError", "try again")),
            get("/zones/europe-west3-b/instances/4242").answer(404, error(404, "notFound", "no")),
        ]
    })
    .await;
    let created = Gcp::new().provision(&access_to(&provider), &order).await.unwrap();
    assert_eq!(
        (created.provider_vm_id.as_str(), created.state, created.tags["tenantd-order"].clone()),
        ("4242", VmState::Provisioning, token())
    );
}

#[tokio::test]
async fn a_failed_operation_fails_the_order() {
    for (code, status, class) in [
        ("QUOTA_EXCEEDED", 403, FailureClass::QuotaExceeded),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", 503, FailureClass::QuotaExceeded),
        ("RESOURCE_NOT_FOUND", 404, FailureClass::NotFound),
        ("INVALID_USAGE", 400, FailureClass::InvalidRequest),
        ("INTERNAL_ERROR", 500, FailureClass::ProviderError),
    ] {
        let order = Order { zone: Some("europe-west3-b".into()), ..lab_order() };
        let mut failed = operation("DONE");
        failed["error"] = json!({"errors": [{"code": code, "message": "in Google's words"}]});
        failed["httpErrorStatusCode"] = status.into();
        let provider = Provider::start(|_| {
            vec![
                granted(),
                insert(&order, json!({"network": "global/networks/default"})).answer(200, operation("RUNNING")),
                wait().answer(200, failed),
            ]
        })
        .await;
        let failure = Gcp::new().provision(&access_to(&provider), &order).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str(), failure.message.as_str()), (class, code, "in Google's words"));
    }
}

#[tokio::test]
async fn a_rehearsal_checks_type_and_permission() {
    let test = || {
        Step::post("/v1/projects/lab-1:testIamPermissions").bearer(TOKEN).json(json!({"permissions": ["compute.instances.create"]}))
    };
    let provider = Provider::start(|_| {
        vec![
            granted(),
            machine_type(),
            test().answer(200, json!({"permissions": ["compute.instances.create"]})),
            test().answer(200, json!({})),
            test().answer(403, error(403, "accessNotConfigured", "Cloud Resource Manager API has not been used")),
            get("/zones/europe-west3-b/machineTypes/e9-huge").answer(404, error(404, "notFound", "no such type")),
        ]
    })
    .await;
    let (gcp, access) = (Gcp::new(), access_to(&provider));
    let here = Order { zone: Some("europe-west3-b".into()), ..lab_order() };
    assert_eq!(gcp.rehearse(&access, Some(&here)).await.unwrap(), Rehearsal::Allowed);
    assert_eq!(gcp.rehearse(&access, None).await.unwrap_err().class, FailureClass::InsufficientPermissions);
    assert_eq!(gcp.rehearse(&access, None).await.unwrap(), Rehearsal::CannotTell);
    let odd = Order { size: "e9-huge".into(), ..here.clone() };
    assert_eq!(gcp.rehearse(&access, Some(&odd)).await.unwrap_err().class, FailureClass::NotFound);
    let elsewhere = Order { zone: Some("us-east1-b".into()), ..here };
    assert_eq!(gcp.provision(&access, &elsewhere).await.unwrap_err().code, "zone_not_in_region");
}

#[tokio::test]
async fn errors_map_to_failure_classes() {
    for (status, reason, class) in [
        (401, "authError", FailureClass::InvalidCredentials),
        (403, "forbidden", FailureClass::InsufficientPermissions),
        (403, "accessNotConfigured", FailureClass::InsufficientPermissions),
        (403, "rateLimitExceeded", FailureClass::RateLimited),
        (403, "quotaExceeded", FailureClass::QuotaExceeded),
        (429, "rateLimitExceeded", FailureClass::RateLimited),
        (400, "invalid", FailureClass::InvalidRequest),
        (409, "alreadyExists", FailureClass::InvalidRequest),
        (503, "backendError", FailureClass::ProviderError),
        (504, "gatewayTimeout", FailureClass::Timeout),
    ] {
        let provider = Provider::start(|_| {
            vec![granted(), get("/aggregated/instances?maxResults=500").refusal(status, error(status, reason, "in Google's words"))]
        })
        .await;
        let failure = Gcp::new().list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, reason));
    }
}
