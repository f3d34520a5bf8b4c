//! The creation of a guest: clones a template, configures and starts the copy, and finally tags the copy with the order's token.
//!
//! **Invariant:** every step detects the work of an earlier attempt and continues after it. The description of the copy contains
//! the order's token from the start, the tags only at the end. A guest with the tag is complete.

use std::{collections::BTreeMap, time::Duration};

use http::Method;

use super::super::{
    super::model::{CloudVm, Failure, FailureClass, Order, OrderToken},
    Access,
    client::Call,
    wire::{invalid_order, segment},
};
use super::{
    answers::{Guest, GuestConfig, TaskStatus},
    ask, config_of, guests, show, url,
};

/// The pauses between checks of a task.
const FIRST_PAUSE: Duration = Duration::from_millis(300);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// The number of guests with the same name that are checked for an earlier attempt.
const MAX_CANDIDATES: usize = 20;

/// An order in the terms of Proxmox VE.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) template: u64,
    cores: u32,
    mib: u64,
    bridge: Option<String>,
    ssh_keys: Option<String>,
    tags: String,
    description: String,
}

pub(super) fn order_tag(order: &Order) -> String {
    format!("{}.{}", OrderToken::TAG, order.token)
}

fn is_tag(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte);
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && text.bytes().all(allowed)
}

fn tag_list(tags: &BTreeMap<String, String>, own: &str) -> Result<String, Failure> {
    let mut list = Vec::new();
    for (key, value) in tags {
        let tag = if value.is_empty() { key.clone() } else { format!("{key}.{value}") };
        if key.contains('.') || !is_tag(&tag) {
            let message =
                format!("{tag} is not a valid Proxmox VE tag: use letters, digits, _ - and +, with a dot before the value");
            return Err(invalid_order("bad_tag", message));
        }
        list.push(tag);
    }
    list.push(own.to_owned());
    Ok(list.join(";"))
}

impl Plan {
    pub(super) fn read(order: &Order) -> Result<Self, Failure> {
        if order.zone.is_some() {
            return Err(invalid_order("no_zones", "Proxmox VE has no zones: omit zone"));
        }
        if order.user_data.is_some() {
            let message = "the API of Proxmox VE does not accept user data: put it into the template";
            return Err(invalid_order("no_user_data", message));
        }
        let size = order.size.split_once('x').and_then(|(cores, mib)| Some((cores.parse().ok()?, mib.parse().ok()?)));
        let (cores, mib) = size.ok_or_else(|| {
            invalid_order("bad_size", format!("{} is not a valid size: use CORESxMIB, such as 2x4096", order.size))
        })?;
        let template = order
            .image
            .parse()
            .map_err(|_| invalid_order("bad_image", format!("{} is not the VMID of a template", order.image)))?;
        let ssh_keys = (!order.ssh_keys.is_empty()).then(|| segment(&order.ssh_keys.join("\n")));
        let tags = tag_list(&order.tags, &order_tag(order))?;
        let description = format!("{}: {}", OrderToken::TAG, order.token);
        Ok(Self { template, cores, mib, bridge: order.network.clone(), ssh_keys, tags, description })
    }
}

pub(super) async fn create(access: &Access, order: &Order) -> Result<CloudVm, Failure> {
    let plan = Plan::read(order)?;
    let known = guests(access).await?.list;
    let copy = match existing_copy(access, order, &plan, &known).await? {
        Some(copy) => copy,
        None => clone(access, order, &plan, &known).await?,
    };
    let path = format!("/nodes/{}/qemu/{}", segment(&copy.node), copy.vmid);
    set_up(access, &plan, &path).await?;
    if !copy.is_running() {
        let task: String = ask(access, Call::post(url(access, &format!("{path}/status/start"))?)).await?;
        wait(access, &copy.node, &task).await?;
    }
    change(access, &path, &[("tags", &plan.tags)]).await?;
    show(access, copy.vmid)
        .await?
        .ok_or_else(|| Failure::new(FailureClass::ProviderError, "vanished", "the new guest was removed while it was being set up"))
}

/// The copy that an earlier attempt created.
async fn existing_copy(access: &Access, order: &Order, plan: &Plan, known: &[Guest]) -> Result<Option<Guest>, Failure> {
    let namesakes = known.iter().filter(|guest| guest.is_machine() && guest.name.value() == Some(&order.name));
    for guest in namesakes.take(MAX_CANDIDATES) {
        let config: GuestConfig = config_of(access, guest).await?;
        if config.text("description").is_some_and(|description| description.trim() == plan.description) {
            return Ok(Some(guest.clone()));
        }
    }
    Ok(None)
}

async fn clone(access: &Access, order: &Order, plan: &Plan, known: &[Guest]) -> Result<Guest, Failure> {
    let template = template_of(plan, known)?;
    let id: String = ask(access, Call::get(url(access, "/cluster/nextid")?)).await?;
    let mut form = vec![("newid", id.as_str()), ("name", &order.name), ("description", &plan.description)];
    if template.node != order.region {
        form.push(("target", &order.region));
    }
    let path = format!("/nodes/{}/qemu/{}/clone", segment(&template.node), plan.template);
    let task: String = ask(access, Call::post(url(access, &path)?).form(&form)).await?;
    wait(access, &template.node, &task).await?;
    let copy = guests(access).await?.find(|guest| guest.vmid.to_string() == id)?;
    copy.ok_or_else(|| {
        Failure::new(FailureClass::ProviderError, "vanished", "the clone was created, but the cluster does not list it")
    })
}

pub(super) fn template_of<'a>(plan: &Plan, known: &'a [Guest]) -> Result<&'a Guest, Failure> {
    known.iter().find(|guest| guest.is_template() && guest.vmid == plan.template).ok_or_else(|| {
        let message =
            format!("the template with the VMID {} was not found, or the token has no permission to see it", plan.template);
        Failure::new(FailureClass::NotFound, "unknown_image", message)
    })
}

async fn set_up(access: &Access, plan: &Plan, path: &str) -> Result<(), Failure> {
    let (cores, mib) = (plan.cores.to_string(), plan.mib.to_string());
    let interface = plan.bridge.as_ref().map(|bridge| format!("virtio,bridge={bridge}"));
    let mut form = vec![("cores", cores.as_str()), ("memory", mib.as_str())];
    form.extend(interface.as_deref().map(|interface| ("net0", interface)));
    // Encoded here and again by the form, because the API decodes it twice.
    form.extend(plan.ssh_keys.as_deref().map(|keys| ("sshkeys", keys)));
    change(access, path, &form).await
}

/// Changes the settings of a guest. The change is idempotent.
async fn change(access: &Access, path: &str, form: &[(&str, &str)]) -> Result<(), Failure> {
    let call = Call::post(url(access, &format!("{path}/config"))?).form(form);
    ask::<Option<String>>(access, Call { method: Method::PUT, repeatable: true, ..call }).await?;
    Ok(())
}

/// Waits for a task to succeed, within the remaining time.
async fn wait(access: &Access, node: &str, task: &str) -> Result<(), Failure> {
    let path = format!("/nodes/{}/tasks/{}/status", segment(node), segment(task));
    let mut pause = FIRST_PAUSE;
    loop {
        let status: TaskStatus = ask(access, Call::get(url(access, &path)?)).await?;
        if let Some(outcome) = status.outcome() {
            return outcome;
        }
        if pause >= access.client.left() {
            let message = "the task is still running; the next attempt checks it again";
            return Err(Failure::new(FailureClass::Timeout, "task_running", message));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}
