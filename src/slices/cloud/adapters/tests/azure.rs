//! Azure, according to the references of Resource Manager, of its compute and network providers, and of the platform's OAuth 2.0.

use serde_json::{Value, json};

use super::{super::azure::Azure, *};
use crate::model::VmState;

const SUBSCRIPTION: &str = "/subscriptions/5a6b0f0a-0000-4000-8000-000000000001";
const TOKEN: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.claims.signature";
const VMS: &str = "/providers/Microsoft.Compute/virtualMachines?api-version=2024-07-01";
const SIZES: &str = "/providers/Microsoft.Compute/locations/westeurope/vmSizes?api-version=2024-07-01";

fn access_to(provider: &Provider) -> Access {
    access_at(provider, Clock::movable(now()))
}

fn access_at(provider: &Provider, clock: Clock) -> Access {
    let config = ProviderConfig {
        endpoint: Some(provider.url()),
        auth_url: Some(format!("{}/", provider.url())),
        resource_group: Some("lab".to_owned()),
        ..ProviderConfig::default()
    };
    let fields = json!({"tenant_id": "0b1f6471-1bf0-4dda-aec3-cb9272f09590", "client_id": "22f2bb26-9f9f-47c8-8b0b-8f7f8a1f4c55",
        "client_secret": "qWgdYAmab0YSkuL1qKv5bPX", "subscription_id": "5a6b0f0a-0000-4000-8000-000000000001"});
    access_for(config, credential(ProviderKind::Azure, fields), clock, AMPLE)
}

fn login(url: &str) -> Step {
    Step::post("/0b1f6471-1bf0-4dda-aec3-cb9272f09590/oauth2/v2.0/token").form(&[
        ("grant_type", "client_credentials"),
        ("client_id", "22f2bb26-9f9f-47c8-8b0b-8f7f8a1f4c55"),
        ("client_secret", "qWgdYAmab0YSkuL1qKv5bPX"),
        ("scope", &format!("{url}/.default")),
    ])
}

fn granted(url: &str, token: &str) -> Step {
    login(url).answer(200, json!({"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": token}))
}

fn get(path: &str) -> Step {
    Step::get(format!("{SUBSCRIPTION}{path}")).bearer(TOKEN)
}

fn id(name: &str) -> String {
    format!("{SUBSCRIPTION}/resourceGroups/lab/providers/Microsoft.Compute/virtualMachines/{name}")
}

fn interface_id(name: &str) -> String {
    format!("{SUBSCRIPTION}/resourceGroups/lab/providers/Microsoft.Network/networkInterfaces/{name}-nic")
}

fn machine(name: &str, provisioning: &str) -> Value {
    json!({
        "id": id(name), "name": name, "type": "Microsoft.Compute/virtualMachines", "location": "westeurope", "zones": ["2"],
        "tags": {"role": "web"},
        "properties": {
            "vmId": "0f47b100-583c-48e3-a4c0-aefc2c9bbcc1", "provisioningState": provisioning,
            "timeCreated": "2026-01-30T01:02:38.3138469+00:00", "hardwareProfile": {"vmSize": "Standard_B2s"},
            "storageProfile": {"imageReference": {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest",
                "exactVersion": "0.20260101.1"}, "osDisk": {"osType": "Linux"}, "dataDisks": []},
            "osProfile": {"computerName": name, "adminUsername": "azureuser"},
            "networkProfile": {"networkInterfaces": [{"id": interface_id(name), "properties": {"primary": true}}]}
        }
    })
}

/// An entry of a list with `statusOnly`, with the id in one of the cases that Azure uses.
fn status(name: &str, power: &str) -> Value {
    json!({"id": id(name).to_uppercase(), "name": name, "location": "westeurope", "properties": {"instanceView": {"statuses": [
        {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded"},
        {"code": format!("PowerState/{power}"), "level": "Info", "displayStatus": format!("VM {power}")}]}}})
}

fn public_id(name: &str) -> String {
    format!("{SUBSCRIPTION}/resourceGroups/lab/providers/Microsoft.Network/publicIPAddresses/{name}-ip")
}

fn interface(name: &str, private: &str, public: Option<Value>) -> Value {
    let mut properties = json!({"privateIPAddress": private, "privateIPAllocationMethod": "Dynamic"});
    if let Some(public) = public {
        properties["publicIPAddress"] = public;
    }
    json!({"id": interface_id(name), "properties": {"ipConfigurations": [{"name": "primary", "properties": properties}]}})
}

fn sizes() -> Value {
    json!({"value": [{"name": "Standard_B2s", "numberOfCores": 2, "osDiskSizeInMB": 1_047_552, "resourceDiskSizeInMB": 8192,
        "memoryInMB": 4096, "maxDataDiskCount": 4}]})
}

fn error(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

#[tokio::test]
async fn authentication_gets_a_token_and_reads_the_subscription() {
    let path = "?api-version=2022-12-01";
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get(path).answer(200, json!({"id": SUBSCRIPTION, "displayName": "Lab", "state": "Enabled"})),
            // Every authentication requests a new token, because the secret may have changed.
            granted(url, TOKEN),
            get(path).answer(403, error("AuthorizationFailed", "does not have authorization")),
            granted(url, TOKEN),
            get(path).answer(404, error("SubscriptionNotFound", "The subscription '5a6b' could not be found.")),
        ]
    })
    .await;
    let (azure, access) = (Azure::new(), access_to(&provider));
    assert_eq!(azure.authenticate(&access).await.unwrap().0, "22f2bb26-9f9f-47c8-8b0b-8f7f8a1f4c55 in Lab");
    assert_eq!(azure.authenticate(&access).await.unwrap().0, "22f2bb26-9f9f-47c8-8b0b-8f7f8a1f4c55");
    assert_eq!(azure.authenticate(&access).await.unwrap_err().class, FailureClass::InvalidCredentials);
}

#[tokio::test]
async fn login_errors_are_credential_failures() {
    for (status, error, description, class, code) in [
        (
            401,
            "invalid_client",
            "AADSTS7000215: Invalid client secret provided.",
            FailureClass::InvalidCredentials,
            "AADSTS7000215",
        ),
        (400, "unauthorized_client", "AADSTS700016: Application was not found", FailureClass::InvalidCredentials, "AADSTS700016"),
        (400, "invalid_request", "AADSTS90002: Tenant not found.", FailureClass::InvalidCredentials, "AADSTS90002"),
        (429, "temporarily_unavailable", "", FailureClass::RateLimited, "temporarily_unavailable"),
        (503, "temporarily_unavailable", "", FailureClass::ProviderError, "temporarily_unavailable"),
    ] {
        let body =
            json!({"error": error, "error_description": format!("{description}\r\nTrace ID: 0000"), "error_codes": [7_000_215]});
        let provider = Provider::start(|url| vec![login(url).refusal(status, body)]).await;
        let failure = Azure::new().list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code));
        assert!(!failure.message.contains("Trace"));
    }
}

#[tokio::test]
async fn list_joins_all_resources_and_reads_all_pages() {
    let provider = Provider::start(|url| {
        let next = format!("{url}{SUBSCRIPTION}{VMS}&$skiptoken=abc%3D");
        let statuses = json!({"value": [status("web-01", "running"), status("db-01", "stopped")],
            "nextLink": format!("{url}{SUBSCRIPTION}{VMS}&statusOnly=true&$skiptoken=s2")});
        vec![
            granted(url, TOKEN),
            get(&format!("{VMS}&statusOnly=true")).answer(200, statuses),
            get(&format!("{VMS}&statusOnly=true&$skiptoken=s2")).answer(200, json!({"value": [status("old-01", "deallocated")]})),
            get("/providers/Microsoft.Network/publicIPAddresses?api-version=2024-05-01").answer(
                200,
                json!({"value": [{"id": public_id("web-01"), "properties": {"ipAddress": "20.50.1.2"}},
                    {"id": public_id("spare"), "properties": {"publicIPAllocationMethod": "Dynamic"}}]}),
            ),
            get("/providers/Microsoft.Network/networkInterfaces?api-version=2024-05-01").answer(
                200,
                json!({"value": [interface("web-01", "10.0.0.4", Some(json!({"id": public_id("WEB-01")}))), interface("db-01", "10.0.0.5", None)]}),
            ),
            get(VMS).answer(200, json!({"value": [machine("web-01", "Succeeded"), machine("db-01", "Succeeded")], "nextLink": next})),
            get(SIZES).answer(200, sizes()),
            get(&format!("{VMS}&$skiptoken=abc%3D")).answer(200, json!({"value": [machine("old-01", "Succeeded"), machine("new-01", "Creating")]})),
        ]
    })
    .await;
    let (vms, pages) = whole_fleet(&Azure::new(), &access_to(&provider)).await;
    assert_eq!(pages, 2);
    let states: Vec<_> = vms.iter().map(|vm| (vm.name.as_str(), vm.state, vm.provider_state.as_str())).collect();
    assert_eq!(
        states,
        [
            ("web-01", VmState::Running, "running"),
            ("db-01", VmState::Stopped, "stopped"),
            ("old-01", VmState::Stopped, "deallocated"),
            ("new-01", VmState::Provisioning, "Creating")
        ]
    );
    let notes: Vec<bool> = vms.iter().map(|vm| vm.state_note.as_ref().is_some_and(|note| note.contains("still billed"))).collect();
    assert_eq!(notes, [false, true, false, false]);
    let vm = &vms[0];
    assert_eq!(vm.provider_vm_id, id("web-01").to_lowercase());
    assert_eq!((vm.region.as_str(), vm.zone.as_deref(), &vm.tags), ("westeurope", Some("2"), &tags(&[("role", "web")])));
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, vm.size.memory_bytes), ("Standard_B2s", Some(2), Some(4 << 30)));
    assert_eq!((texts(&vm.private_ips), texts(&vm.public_ips)), (vec!["10.0.0.4".into()], vec!["20.50.1.2".into()]));
    assert_eq!(vm.image.as_deref(), Some("Debian:debian-12:12:latest"));
    assert_eq!(vm.launched_at, Timestamp::parse("2026-01-30T01:02:38.313Z"));
}

#[tokio::test]
async fn list_works_without_network_permissions_and_ignores_foreign_links() {
    let forbidden =
        error("AuthorizationFailed", "does not have authorization to perform action 'Microsoft.Network/publicIPAddresses/read'");
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get(&format!("{VMS}&statusOnly=true")).answer(200, json!({"value": []})),
            get("/providers/Microsoft.Network/publicIPAddresses?api-version=2024-05-01").answer(403, forbidden),
            get(VMS).answer(200, json!({"value": [machine("web-01", "Succeeded")], "nextLink": "https://elsewhere.example/next"})),
            get(SIZES).answer(403, error("AuthorizationFailed", "no")),
        ]
    })
    .await;
    let failure = Azure::new().list(&access_to(&provider), None).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::ProviderError, "unexpected_answer"));
}

#[tokio::test]
async fn a_token_is_cached_until_it_is_refused() {
    let missing = |token: &str| {
        Step::get(format!("{}?api-version=2024-07-01&%24expand=instanceView", id("gone")))
            .bearer(token)
            .answer(404, error("ResourceNotFound", "no"))
    };
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            missing(TOKEN),
            missing(TOKEN),
            Step::get(format!("{}?api-version=2024-07-01&%24expand=instanceView", id("gone")))
                .bearer(TOKEN)
                .answer(401, error("ExpiredAuthenticationToken", "The access token expiry UTC time is earlier than now")),
            granted(url, "second"),
            missing("second"),
            granted(url, "third"),
            missing("third"),
        ]
    })
    .await;
    let clock = Clock::movable(now());
    let (azure, access) = (Azure::new(), access_at(&provider, clock.clone()));
    for _ in 0..3 {
        assert_eq!(azure.get(&access, &place(&id("gone"), "westeurope", None)).await.unwrap(), None);
    }
    clock.advance(Duration::from_mins(59));
    assert_eq!(azure.get(&access, &place(&id("gone"), "westeurope", None)).await.unwrap(), None);
}

#[tokio::test]
async fn get_reads_a_machine_with_its_addresses() {
    let mut viewed = machine("web-01", "Succeeded");
    viewed["properties"]["instanceView"] = status("web-01", "deallocating")["properties"]["instanceView"].clone();
    let public = json!({"id": public_id("web-01"), "properties": {"ipAddress": "20.50.1.2"}});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            Step::get(format!("{}?api-version=2024-07-01&%24expand=instanceView", id("web-01").to_lowercase()))
                .bearer(TOKEN)
                .answer(200, viewed),
            Step::get(format!(
                "{}?api-version=2024-05-01&%24expand=ipConfigurations%2FpublicIPAddress",
                interface_id("web-01").to_lowercase()
            ))
            .bearer(TOKEN)
            .answer(200, interface("web-01", "10.0.0.4", Some(public))),
            get(SIZES).answer(200, sizes()),
        ]
    })
    .await;
    let vm = Azure::new()
        .get(&access_to(&provider), &place(&id("web-01").to_lowercase(), "westeurope", Some("2")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((vm.state, texts(&vm.public_ips)), (VmState::Stopping, vec!["20.50.1.2".to_owned()]));
}

fn lab_order() -> Order {
    Order {
        zone: Some("2".into()),
        network: Some("lab-net/default".into()),
        ssh_keys: vec!["ssh-ed25519 AAAA ada".into()],
        ..order("westeurope", "Standard_B2s", "Debian:debian-12:12:latest")
    }
}

#[tokio::test]
async fn an_order_never_overwrites_and_is_found_by_its_tag() {
    let token = token();
    let subnet = format!("{SUBSCRIPTION}/resourceGroups/lab/providers/Microsoft.Network/virtualNetworks/lab-net/subnets/default");
    let body = json!({
        "location": "westeurope", "zones": ["2"], "tags": {"role": "web", "tenantd-order": token},
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_B2s"},
            "storageProfile": {
                "imageReference": {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"},
                "osDisk": {"createOption": "FromImage", "deleteOption": "Delete"}
            },
            "osProfile": {
                "computerName": "web-01", "adminUsername": "azureuser", "customData": "I2Nsb3VkLWNvbmZpZwo=",
                "linuxConfiguration": {"disablePasswordAuthentication": true, "ssh": {"publicKeys": [
                    {"path": "/home/azureuser/.ssh/authorized_keys", "keyData": "ssh-ed25519 AAAA ada"}]}}
            },
            "networkProfile": {"networkApiVersion": "2020-11-01", "networkInterfaceConfigurations": [{"name": "web-01-nic", "properties": {
                "primary": true, "deleteOption": "Delete",
                "ipConfigurations": [{"name": "primary", "properties": {"primary": true, "subnet": {"id": subnet}}}]}}]}
        }
    });
    let mut ours = machine("web-01", "Creating");
    ours["tags"] = json!({"tenantd-order": token});
    ours["properties"]["networkProfile"] = json!({});
    let put = || {
        Step::put(format!("{}?api-version=2024-07-01", id("web-01"))).bearer(TOKEN).header("if-none-match", "*").json(body.clone())
    };
    let look = || Step::get(format!("{}?api-version=2024-07-01&%24expand=instanceView", id("web-01"))).bearer(TOKEN);
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            put().answer(201, ours.clone()),
            look().answer(200, ours),
            get(SIZES).answer(200, sizes()),
            // A machine with the same name that does not belong to the order.
            look().answer(200, machine("web-01", "Succeeded")),
            put().answer(412, error("PreconditionFailed", "The resource already exists")),
        ]
    })
    .await;
    let (azure, access, order) = (Azure::new(), access_to(&provider), lab_order());
    let created = azure.provision(&access, &order).await.unwrap();
    assert_eq!((created.provider_vm_id, created.state), (id("web-01").to_lowercase(), VmState::Provisioning));
    assert_eq!(azure.find(&access, &order).await.unwrap().unwrap().tags["tenantd-order"], token);
    assert_eq!(azure.find(&access, &order).await.unwrap(), None);
    assert_eq!(azure.provision(&access, &order).await.unwrap_err().class, FailureClass::InvalidRequest);
}

#[tokio::test]
async fn an_unsupported_order_is_not_sent() {
    let provider = Provider::start(|_| Vec::new()).await;
    let mut access = access_to(&provider);
    for (order, code) in [
        (Order { network: None, ..lab_order() }, "bad_network"),
        (Order { ssh_keys: Vec::new(), ..lab_order() }, "no_ssh_key"),
        (Order { image: "debian-12".into(), ..lab_order() }, "bad_image"),
    ] {
        assert_eq!(Azure::new().provision(&access, &order).await.unwrap_err().code, code);
    }
    access.config.resource_group = None;
    assert_eq!(Azure::new().provision(&access, &lab_order()).await.unwrap_err().code, "no_resource_group");
}

#[tokio::test]
async fn a_rehearsal_checks_size_and_roles() {
    let permissions = || get("/resourceGroups/lab/providers/Microsoft.Authorization/permissions?api-version=2022-04-01");
    let role = |actions: &str| json!({"value": [{"actions": [actions], "notActions": ["Microsoft.Authorization/*/Write"]}]});
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get(SIZES).answer(200, sizes()),
            permissions().answer(200, role("*")),
            permissions().answer(200, role("*/read")),
            permissions().answer(403, error("AuthorizationFailed", "no")),
        ]
    })
    .await;
    let (azure, access) = (Azure::new(), access_to(&provider));
    assert_eq!(azure.rehearse(&access, Some(&lab_order())).await.unwrap(), Rehearsal::Allowed);
    assert_eq!(azure.rehearse(&access, None).await.unwrap_err().class, FailureClass::InsufficientPermissions);
    assert_eq!(azure.rehearse(&access, None).await.unwrap(), Rehearsal::CannotTell);
    let odd = Order { size: "Standard_Z9".into(), ..lab_order() };
    assert_eq!(azure.rehearse(&access, Some(&odd)).await.unwrap_err().code, "unknown_size");
}

#[tokio::test]
async fn errors_map_to_failure_classes() {
    let quota = "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.";
    for (status, code, message, class) in [
        (403, "AuthorizationFailed", "no", FailureClass::InsufficientPermissions),
        (404, "ResourceGroupNotFound", "no", FailureClass::NotFound),
        (409, "OperationNotAllowed", quota, FailureClass::QuotaExceeded),
        (409, "SkuNotAvailable", "not available in location", FailureClass::QuotaExceeded),
        (400, "InvalidParameter", "no", FailureClass::InvalidRequest),
        (429, "TooManyRequests", "slow down", FailureClass::RateLimited),
        (500, "InternalServerError", "no", FailureClass::ProviderError),
        (504, "GatewayTimeout", "no", FailureClass::Timeout),
    ] {
        let provider = Provider::start(|url| {
            vec![granted(url, TOKEN), get(&format!("{VMS}&statusOnly=true")).refusal(status, error(code, message))]
        })
        .await;
        let failure = Azure::new().list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code));
    }
}

#[tokio::test]
async fn a_partly_unreadable_machine_is_listed() {
    let mut odd = machine("web-01", "Succeeded");
    odd["properties"]["hardwareProfile"] = json!("Standard_B2s");
    odd["tags"] = json!({"role": "web", "costs": {"center": 7}});
    let mut nobody = machine("x", "Succeeded");
    nobody["id"] = json!(null);
    let provider = Provider::start(|url| {
        vec![
            granted(url, TOKEN),
            get(&format!("{VMS}&statusOnly=true")).answer(200, json!({"value": [status("web-01", "running"), 7]})),
            get("/providers/Microsoft.Network/publicIPAddresses?api-version=2024-05-01")
                .answer(200, json!({"value": [{"id": public_id("web-01"), "properties": {"ipAddress": "soon"}}, {}]})),
            get("/providers/Microsoft.Network/networkInterfaces?api-version=2024-05-01").answer(
                200,
                json!({"value": [interface("web-01", "10.0.0.4", Some(json!({"id": public_id("web-01")}))), {"id": 7}]}),
            ),
            get(VMS).answer(200, json!({"value": [odd, nobody]})),
            get(SIZES).answer(200, sizes()),
        ]
    })
    .await;
    let page = Azure::new().list(&access_to(&provider), None).await.unwrap();
    let [vm] = page.vms.as_slice() else { panic!("{page:?}") };
    assert_eq!(unread(vm), ["size", "tags", "public_ips"]);
    assert_eq!(
        (vm.state, texts(&vm.private_ips), &vm.tags),
        (VmState::Running, vec!["10.0.0.4".into()], &tags(&[("role", "web")]))
    );
    assert_eq!(page.skipped, ["an entry has no id"]);
}
