//! Proxmox VE, according to its API reference. `transport.rs` tests a server with a self-signed certificate.

use serde_json::{Value, json};

use super::{super::proxmox::Proxmox, *};
use crate::model::VmState;

const CLONE: &str = "UPID:pve1:000A2B3C:01D2E3F4:697DFA40:qmclone:9000:tenantd@pve!fleet:";
const START: &str = "UPID:pve1:000A2B3D:01D2E3F5:697DFA41:qmstart:105:tenantd@pve!fleet:";

fn access_to(provider: &Provider) -> Access {
    let config = ProviderConfig { endpoint: Some(format!("{}/", provider.url())), ..ProviderConfig::default() };
    let fields = json!({"token_id": "tenantd@pve!fleet", "token_secret": "5e3dd1bd-0000-4000-8000-000000000001"});
    access(config, credential(ProviderKind::Proxmox, fields))
}

fn signed(step: Step) -> Step {
    step.header("authorization", "PVEAPIToken=tenantd@pve!fleet=5e3dd1bd-0000-4000-8000-000000000001")
}

fn get(path: &str) -> Step {
    signed(Step::get(format!("/api2/json{path}")))
}

fn data(step: Step, data: Value) -> Step {
    step.answer(200, json!({"data": data}))
}

fn guest(vmid: u64, name: &str, status: &str) -> Value {
    json!({"id": format!("qemu/{vmid}"), "type": "qemu", "vmid": vmid, "node": "pve1", "name": name, "status": status, "template": 0,
        "maxcpu": 2, "maxmem": 4_294_967_296_u64, "maxdisk": 34_359_738_368_u64, "cpu": 0.01, "mem": 1, "uptime": 3600, "tags": "prod;role.web"})
}

fn template() -> Value {
    json!({"id": "qemu/9000", "type": "qemu", "vmid": 9000, "node": "pve1", "name": "debian-12", "status": "stopped", "template": 1})
}

fn guests(guests: &[Value]) -> Step {
    data(get("/cluster/resources?type=vm"), json!(guests))
}

fn config(vmid: u64) -> Step {
    get(&format!("/nodes/pve1/qemu/{vmid}/config"))
}

#[tokio::test]
async fn authentication_reads_the_version() {
    let provider =
        Provider::start(|_| vec![data(get("/version"), json!({"release": "8.2", "repoid": "x", "version": "8.2.4"}))]).await;
    assert_eq!(Proxmox.authenticate(&access_to(&provider)).await.unwrap().0, "tenantd@pve!fleet on Proxmox VE 8.2.4");
}

#[tokio::test]
async fn list_returns_pages_without_containers_and_templates() {
    let mut all: Vec<Value> = (100..121).rev().map(|vmid| guest(vmid, &format!("vm-{vmid}"), "stopped")).collect();
    all.push(template());
    all.push(
        json!({"id": "lxc/200", "type": "lxc", "vmid": 200, "node": "pve1", "name": "box", "status": "running", "template": 0}),
    );
    all.push(json!({"id": "qemu/300", "type": "qemu", "vmid": 300, "node": "pve2", "status": "unknown", "template": 0}));
    let provider = Provider::start(|_| {
        let mut steps = vec![guests(&all), guests(&all)];
        steps.extend((100..121).map(|vmid| data(config(vmid), json!({"memory": "4096", "cores": 2}))));
        // The node of this guest is offline. The request is not retried.
        steps.push(get("/nodes/pve2/qemu/300/config").answer(595, json!({"data": null})));
        steps
    })
    .await;
    let (vms, pages) = whole_fleet(&Proxmox, &access_to(&provider)).await;
    assert_eq!((vms.len(), pages), (22, 2));
    assert_eq!(vms.iter().map(|vm| vm.provider_vm_id.as_str()).next_back(), Some("300"));
    let vm = &vms[0];
    assert_eq!(
        (vm.provider_vm_id.as_str(), vm.name.as_str(), vm.region.as_str(), vm.state),
        ("100", "vm-100", "pve1", VmState::Stopped)
    );
    assert_eq!((vm.size.id.as_str(), vm.size.vcpus, vm.size.memory_bytes), ("2x4096", Some(2), Some(4 << 30)));
    assert_eq!(vm.tags, tags(&[("prod", ""), ("role", "web")]));
    assert_eq!(vms[21].state, VmState::Unknown);
}

#[tokio::test]
async fn list_reports_a_token_without_privileges() {
    let none = || guests(&[]);
    let provider = Provider::start(|_| {
        vec![
            none(),
            data(get("/access/permissions"), json!({"/storage": {"Datastore.Audit": 1}})),
            none(),
            data(get("/access/permissions"), json!({"/vms": {"VM.Audit": 1}})),
        ]
    })
    .await;
    let access = access_to(&provider);
    assert_eq!(Proxmox.list(&access, None).await.unwrap_err().class, FailureClass::InsufficientPermissions);
    let page = Proxmox.list(&access, None).await.unwrap();
    assert!(page.vms.is_empty() && page.next.is_none());
}

fn agent_answer() -> Value {
    json!({"result": [
        {"name": "lo", "hardware-address": "00:00:00:00:00:00", "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}]},
        {"name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": [
            {"ip-address": "192.168.1.50", "ip-address-type": "ipv4", "prefix": 24},
            {"ip-address": "fe80::be24:11ff:fe00:1", "ip-address-type": "ipv6", "prefix": 64},
            {"ip-address": "2a00:1450::5", "ip-address-type": "ipv6", "prefix": 64}]}]})
}

#[tokio::test]
async fn get_reads_a_machine_from_its_node_or_returns_none() {
    let settings = json!({"agent": "enabled=1,fstrim_cloned_disks=1", "meta": "creation-qemu=9.0.2,ctime=1769800000", "ipconfig0": "ip=10.0.0.9/24"});
    let current =
        json!({"vmid": 101, "name": "web-01", "status": "running", "qmpstatus": "paused", "cpus": 4, "maxmem": 8_589_934_592_u64});
    let provider = Provider::start(|_| {
        vec![
            guests(&[guest(101, "web-01", "running"), template()]),
            data(get("/nodes/pve1/qemu/101/status/current"), current),
            data(config(101), settings.clone()),
            data(get("/nodes/pve1/qemu/101/agent/network-get-interfaces"), agent_answer()),
            // The agent does not respond, so the addresses come from the cloud-init settings.
            guests(&[guest(102, "web-02", "running")]),
            data(get("/nodes/pve1/qemu/102/status/current"), json!({"vmid": 102, "status": "running", "qmpstatus": "running"})),
            data(config(102), settings),
            get("/nodes/pve1/qemu/102/agent/network-get-interfaces")
                .answer(500, json!({"data": null, "message": "QEMU guest agent is not running\n"})),
            guests(&[template()]),
        ]
    })
    .await;
    let access = access_to(&provider);
    let vm = Proxmox.get(&access, &place("101", "pve7", None)).await.unwrap().unwrap();
    assert_eq!((vm.state, vm.provider_state.as_str(), vm.region.as_str()), (VmState::Suspended, "paused", "pve1"));
    assert_eq!((vm.size.vcpus, vm.size.memory_bytes), (Some(4), Some(8 << 30)));
    assert_eq!((texts(&vm.private_ips), texts(&vm.public_ips)), (vec!["192.168.1.50".into()], vec!["2a00:1450::5".into()]));
    assert_eq!(vm.launched_at, Some(Timestamp::from_millis(1_769_800_000_000)));
    let other = Proxmox.get(&access, &place("102", "pve1", None)).await.unwrap().unwrap();
    assert_eq!((other.state, texts(&other.private_ips)), (VmState::Running, vec!["10.0.0.9".to_owned()]));
    // A template is not a machine.
    assert_eq!(Proxmox.get(&access, &place("9000", "pve1", None)).await.unwrap(), None);
}

fn lab_order() -> Order {
    Order {
        network: Some("vmbr1".into()),
        ssh_keys: vec!["ssh-ed25519 AAAA+b ada".into()],
        user_data: None,
        ..order("pve1", "4x8192", "9000")
    }
}

fn task(upid: &str, status: Value) -> Step {
    let encoded = upid.replace(':', "%3A").replace('@', "%40").replace('!', "%21");
    data(get(&format!("/nodes/pve1/tasks/{encoded}/status")), status)
}

fn done() -> Value {
    json!({"status": "stopped", "exitstatus": "OK", "type": "qmclone", "node": "pve1"})
}

fn description() -> String {
    format!("tenantd-order: {}", token())
}

fn tag() -> String {
    format!("tenantd-order.{}", token())
}

fn clone_of_template() -> Step {
    signed(Step::post("/api2/json/nodes/pve1/qemu/9000/clone")).form(&[
        ("newid", "105"),
        ("name", "web-01"),
        ("description", &description()),
    ])
}

/// The steps from an existing copy to a complete machine.
fn set_up() -> Vec<Step> {
    let put = || signed(Step::put("/api2/json/nodes/pve1/qemu/105/config"));
    let mut ordered = guest(105, "web-01", "running");
    ordered["tags"] = format!("role.web;{}", tag()).into();
    vec![
        data(
            put().form(&[
                ("cores", "4"),
                ("memory", "8192"),
                ("net0", "virtio,bridge=vmbr1"),
                ("sshkeys", "ssh-ed25519%20AAAA%2Bb%20ada"),
            ]),
            Value::Null,
        ),
        data(signed(Step::post("/api2/json/nodes/pve1/qemu/105/status/start")), json!(START)),
        task(START, done()),
        data(put().form(&[("tags", &format!("role.web;{}", tag()))]), Value::Null),
        guests(&[ordered]),
        data(
            get("/nodes/pve1/qemu/105/status/current"),
            json!({"vmid": 105, "status": "running", "qmpstatus": "running", "cpus": 4}),
        ),
        data(config(105), json!({"description": description()})),
    ]
}

#[tokio::test]
async fn an_order_clones_configures_starts_and_finally_tags() {
    let provider = Provider::start(|_| {
        let mut steps = vec![
            guests(&[template(), guest(104, "web-01", "running")]),
            // A guest with the same name that does not belong to the order.
            data(config(104), json!({"description": "by hand"})),
            data(get("/cluster/nextid"), json!("105")),
            data(clone_of_template(), json!(CLONE)),
            task(CLONE, done()),
            guests(&[template(), guest(105, "web-01", "stopped")]),
        ];
        steps.extend(set_up());
        steps
    })
    .await;
    let vm = Proxmox.provision(&access_to(&provider), &lab_order()).await.unwrap();
    assert_eq!((vm.provider_vm_id.as_str(), vm.state, vm.tags["tenantd-order"].clone()), ("105", VmState::Running, token()));
}

#[tokio::test]
async fn an_order_continues_with_the_copy_of_an_earlier_attempt() {
    let provider = Provider::start(|_| {
        let mut steps = vec![
            guests(&[template(), guest(105, "web-01", "stopped")]),
            data(config(105), json!({"description": format!("{}\n", description())})),
        ];
        steps.extend(set_up());
        steps
    })
    .await;
    assert_eq!(Proxmox.provision(&access_to(&provider), &lab_order()).await.unwrap().provider_vm_id, "105");
}

#[tokio::test]
async fn only_a_complete_guest_is_found() {
    let mut ordered = guest(105, "web-01", "running");
    ordered["tags"] = tag().into();
    let provider =
        Provider::start(|_| vec![guests(&[guest(105, "web-01", "stopped")]), guests(&[ordered]), data(config(105), json!({}))])
            .await;
    let access = access_to(&provider);
    assert_eq!(Proxmox.find(&access, &lab_order()).await.unwrap(), None);
    assert_eq!(Proxmox.find(&access, &lab_order()).await.unwrap().unwrap().provider_vm_id, "105");
}

#[tokio::test]
async fn a_clone_names_its_target_node_and_a_failed_task_fails_the_order() {
    let order = Order { region: "pve2".into(), ..lab_order() };
    for (exit, class) in [
        ("unable to create image: got lock timeout", FailureClass::ProviderError),
        ("clone failed: No space left on device", FailureClass::QuotaExceeded),
    ] {
        let form = [("newid", "105"), ("name", "web-01"), ("description", &description()), ("target", "pve2")];
        let provider = Provider::start(|_| {
            vec![
                guests(&[template()]),
                data(get("/cluster/nextid"), json!("105")),
                data(signed(Step::post("/api2/json/nodes/pve1/qemu/9000/clone")).form(&form), json!(CLONE)),
                task(CLONE, json!({"status": "stopped", "exitstatus": exit})),
            ]
        })
        .await;
        let failure = Proxmox.provision(&access_to(&provider), &order).await.unwrap_err();
        assert_eq!((failure.class, failure.message.as_str()), (class, exit));
    }
}

#[tokio::test]
async fn an_unsupported_order_is_not_sent() {
    let provider = Provider::start(|_| Vec::new()).await;
    for (order, code) in [
        (Order { user_data: Some(Secret::new("x")), ..lab_order() }, "no_user_data"),
        (Order { zone: Some("a".into()), ..lab_order() }, "no_zones"),
        (Order { size: "large".into(), ..lab_order() }, "bad_size"),
        (Order { image: "debian".into(), ..lab_order() }, "bad_image"),
        (Order { tags: tags(&[("owner", "Ada L")]), ..lab_order() }, "bad_tag"),
    ] {
        assert_eq!(Proxmox.provision(&access_to(&provider), &order).await.unwrap_err().code, code);
    }
}

#[tokio::test]
async fn a_rehearsal_checks_template_node_and_privilege() {
    let nodes = || {
        data(get("/cluster/resources?type=node"), json!([{"id": "node/pve1", "type": "node", "node": "pve1", "status": "online"}]))
    };
    let provider = Provider::start(|_| {
        vec![
            guests(&[template()]),
            nodes(),
            data(get("/access/permissions"), json!({"/": {"VM.Audit": 1}, "/vms": {"VM.Allocate": 1, "VM.Clone": 1}})),
            data(get("/access/permissions"), json!({"/": {"VM.Audit": 1}})),
            guests(&[]),
            guests(&[template()]),
            nodes(),
        ]
    })
    .await;
    let access = access_to(&provider);
    assert_eq!(Proxmox.rehearse(&access, Some(&lab_order())).await.unwrap(), Rehearsal::Allowed);
    assert_eq!(Proxmox.rehearse(&access, None).await.unwrap_err().class, FailureClass::InsufficientPermissions);
    assert_eq!(Proxmox.rehearse(&access, Some(&lab_order())).await.unwrap_err().code, "unknown_image");
    let elsewhere = Order { region: "pve9".into(), ..lab_order() };
    assert_eq!(Proxmox.rehearse(&access, Some(&elsewhere)).await.unwrap_err().code, "unknown_region");
}

#[tokio::test]
async fn errors_map_to_failure_classes() {
    for (status, body, class, message) in [
        (401, json!({"data": null}), FailureClass::InvalidCredentials, "the provider answered 401 Unauthorized"),
        (
            403,
            json!({"data": null, "message": "Permission check failed (/vms, VM.Audit)\n"}),
            FailureClass::InsufficientPermissions,
            "Permission check failed (/vms, VM.Audit)",
        ),
        (
            400,
            json!({"data": null, "message": "Parameter verification failed.\n", "errors": {"type": "value 'x' does not have a value"}}),
            FailureClass::InvalidRequest,
            "Parameter verification failed.; type: value 'x' does not have a value",
        ),
        (429, json!({"data": null}), FailureClass::RateLimited, "the provider answered 429 Too Many Requests"),
        (500, json!({"data": null, "message": "got no worker upid"}), FailureClass::ProviderError, "got no worker upid"),
        (
            500,
            json!({"data": null, "message": "Configuration file 'nodes/pve1/qemu-server/9.conf' does not exist"}),
            FailureClass::NotFound,
            "Configuration file 'nodes/pve1/qemu-server/9.conf' does not exist",
        ),
        (596, json!({"data": null}), FailureClass::ProviderError, "the provider answered 596 <unknown status code>"),
        (504, json!({"data": null}), FailureClass::Timeout, "the provider answered 504 Gateway Timeout"),
    ] {
        let provider = Provider::start(|_| vec![get("/cluster/resources?type=vm").refusal(status, body)]).await;
        let failure = Proxmox.list(&access_to(&provider), None).await.unwrap_err();
        assert_eq!((failure.class, failure.message.as_str()), (class, message));
        assert_eq!(failure.code, format!("http_{status}"));
    }
}

#[tokio::test]
async fn a_partly_unreadable_guest_is_listed() {
    let mut odd = guest(101, "web-01", "stopped");
    odd["maxcpu"] = json!("two");
    let mut nobody = guest(103, "x", "stopped");
    nobody["vmid"] = json!("one hundred and three");
    let provider = Provider::start(|_| {
        vec![
            guests(&[odd, guest(102, "db-01", "stopped"), nobody]),
            data(config(101), json!({"cores": 2})),
            config(102).answer(500, json!({"data": null, "message": "no such cluster node"})),
        ]
    })
    .await;
    let page = Proxmox.list(&access_to(&provider), None).await.unwrap();
    assert_eq!((unread(&page.vms[0]), unread(&page.vms[1])), (vec!["size"], vec!["private_ips", "launched_at"]));
    assert_eq!((page.vms[0].size.memory_bytes, page.skipped.len()), (Some(4 << 30), 1));
}
