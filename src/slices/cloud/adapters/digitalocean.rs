//! DigitalOcean, API v2.
//!
//! | field of an order | meaning |
//! |---|---|
//! | `region` | a region's slug, such as `fra1` |
//! | `zone` | not accepted: regions have no zones |
//! | `size` | a size's slug, such as `s-1vcpu-1gb` |
//! | `image` | an image's slug or number, such as `debian-12-x64` |
//! | `network` | the id of a VPC; by default the region's own VPC |
//! | `ssh_keys` | ids or fingerprints of keys in the account |
//! | `tags` | tags in the form `key:value`, because DigitalOcean's tags have no values |
//!
//! DigitalOcean has no idempotency token. The order's token becomes a tag, by which the droplet is found. If one tag is malformed,
//! DigitalOcean creates the droplet without any tags, so all tags are checked first.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    super::model::{CloudVm, Failure, FailureClass, Order, OrderToken, Size, VmState},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, Reply, unusable},
    fields::{Field, Unidentified, Unread, id},
    wire::{as_bearer, invalid_order, is_in_regions, query, segment},
};

const API: &str = "https://api.digitalocean.com";
/// The maximum page size of the API.
const PAGE: &str = "200";
const MAX_TAG_LENGTH: usize = 255;

#[derive(Clone, Copy, Debug)]
pub(super) struct DigitalOcean;

#[derive(Debug, Deserialize)]
struct Account {
    account: AccountDetail,
}

#[derive(Debug, Deserialize)]
struct AccountDetail {
    email: String,
    #[serde(default)]
    team: Option<Team>,
}

#[derive(Debug, Deserialize)]
struct Team {
    name: String,
}

#[derive(Debug, Deserialize)]
struct DropletPage {
    droplets: Vec<Field<Droplet>>,
    #[serde(default)]
    links: Links,
}

#[derive(Debug, Default, Deserialize)]
struct Links {
    #[serde(default)]
    pages: Pages,
}

#[derive(Debug, Default, Deserialize)]
struct Pages {
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OneDroplet {
    droplet: Droplet,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Droplet {
    id: Field<u64>,
    name: Field<String>,
    /// In MiB.
    memory: Field<u64>,
    vcpus: Field<u32>,
    status: Field<String>,
    created_at: Field<String>,
    image: Field<Image>,
    size_slug: Field<String>,
    networks: Field<Networks>,
    region: Field<Region>,
    tags: Field<Vec<Field<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Image {
    id: Field<u64>,
    /// Only public images have a slug.
    slug: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Networks {
    v4: Field<Vec<Field<Network>>>,
    v6: Field<Vec<Field<Network>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Network {
    ip_address: Field<String>,
    #[serde(rename = "type")]
    reach: Field<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Region {
    slug: Field<String>,
}

#[derive(Debug, Deserialize)]
struct SizePage {
    sizes: Vec<OfferedSize>,
}

#[derive(Debug, Deserialize)]
struct OfferedSize {
    slug: String,
    available: bool,
    regions: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ErrorAnswer {
    #[serde(default)]
    id: String,
    #[serde(default)]
    message: String,
}

impl Adapter for DigitalOcean {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            match ask::<Account>(access, get(access, "/v2/account")).await {
                Ok(Account { account }) => {
                    let team = account.team.map(|team| format!(" ({})", team.name)).unwrap_or_default();
                    Ok(Identity(format!("{}{team}", account.email)))
                }
                // The token is valid, but its scopes do not include the account.
                Err(failure) if failure.class == FailureClass::InsufficientPermissions => {
                    Ok(Identity(format!("token {}", access.credential.hint().unwrap_or_default())))
                }
                Err(failure) => Err(failure),
            }
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(async move {
            let pairs = [("page", from.unwrap_or("1")), ("per_page", PAGE)];
            let page: DropletPage = ask(access, get(access, &format!("/v2/droplets{}", query(&pairs)))).await?;
            let next = page.links.pages.next.map(|link| page_of(&link)).transpose()?;
            Ok(FleetPage::read(page.droplets, Droplet::into_vm).keep(|vm| is_in_regions(access, vm)).and_next(next))
        })
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let path = format!("/v2/droplets/{}", segment(&place.provider_vm_id));
            match ask::<OneDroplet>(access, get(access, &path)).await {
                Ok(found) => Ok(Some(found.droplet.into_vm()?)),
                Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
                Err(failure) => Err(failure),
            }
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            if let Some(order) = order {
                body_of(order)?;
                check_size(access, order).await?;
                ask::<Value>(access, get(access, &format!("/v2/images/{}", segment(&order.image)))).await?;
            }
            // The API cannot be asked whether the token may create VMs, but it refuses an empty order of a token that may not.
            let call = Call::post(url(access, "/v2/droplets")).json(&json!({}))?;
            match ask::<Value>(access, call).await {
                Ok(_) => Err(unusable("the endpoint accepted an empty order")),
                Err(failure) if failure.class == FailureClass::InvalidRequest => Ok(Rehearsal::CannotTell),
                Err(failure) => Err(failure),
            }
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let path = format!("/v2/droplets{}", query(&[("tag_name", &order_tag(order))]));
            match ask::<DropletPage>(access, get(access, &path)).await {
                Ok(page) => FleetPage::read(page.droplets, Droplet::into_vm).only(),
                // The tag does not exist.
                Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
                Err(failure) => Err(failure),
            }
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(async move {
            let call = Call::post(url(access, "/v2/droplets")).json(&body_of(order)?)?;
            let created: OneDroplet = ask(access, call).await?;
            Ok(created.droplet.into_vm()?)
        })
    }
}

fn url(access: &Access, path: &str) -> String {
    format!("{}{path}", access.endpoint(API))
}

fn get(access: &Access, path: &str) -> Call {
    Call::get(url(access, path))
}

async fn ask<T: DeserializeOwned>(access: &Access, call: Call) -> Result<T, Failure> {
    let reply = as_bearer(access, call).await?;
    if reply.is_success() { reply.json() } else { Err(failure(&reply)) }
}

/// The page number of a link. The link itself is not followed, because it could send the token to another host.
fn page_of(link: &str) -> Result<String, Failure> {
    let pairs = link.split_once('?').map_or("", |(_, pairs)| pairs);
    let page = form_urlencoded::parse(pairs.as_bytes()).find(|(name, _)| name == "page");
    page.map(|(_, page)| page.into_owned()).ok_or_else(|| unusable("the link to the next page contains no page number"))
}

async fn check_size(access: &Access, order: &Order) -> Result<(), Failure> {
    let offered: SizePage = ask(access, get(access, &format!("/v2/sizes{}", query(&[("per_page", PAGE)])))).await?;
    let Some(size) = offered.sizes.iter().find(|size| size.slug == order.size) else {
        let message = format!("DigitalOcean has no size {}", order.size);
        return Err(Failure::new(FailureClass::NotFound, "unknown_size", message));
    };
    if size.available && size.regions.contains(&order.region) {
        return Ok(());
    }
    let message = format!("the size {} is not offered in {}; it is in {}", size.slug, order.region, size.regions.join(", "));
    Err(invalid_order("size_not_in_region", message))
}

fn order_tag(order: &Order) -> String {
    format!("{}:{}", OrderToken::TAG, order.token)
}

fn body_of(order: &Order) -> Result<Value, Failure> {
    if order.zone.is_some() {
        return Err(invalid_order("no_zones", "DigitalOcean has no zones: omit zone"));
    }
    let mut tags = vec![order_tag(order)];
    for (key, value) in &order.tags {
        tags.push(if value.is_empty() { key.clone() } else { format!("{key}:{value}") });
    }
    let fits = |tag: &&String| {
        tag.len() <= MAX_TAG_LENGTH && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_".contains(&byte))
    };
    if let Some(tag) = tags.iter().find(|tag| !fits(tag)) {
        let message =
            format!("{tag} is not a valid DigitalOcean tag: use at most 255 letters, digits, colons, hyphens and underscores");
        return Err(invalid_order("bad_tag", message));
    }
    // An id is sent as a JSON number, a slug or a fingerprint as a string.
    let number_or_text = |text: &String| text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
    let mut body = json!({
        "name": order.name,
        "region": order.region,
        "size": order.size,
        "image": number_or_text(&order.image),
        "tags": tags,
    });
    let mut add = |name: &str, value: Value| {
        body.as_object_mut().map(|body| body.insert(name.to_owned(), value));
    };
    if !order.ssh_keys.is_empty() {
        add("ssh_keys", order.ssh_keys.iter().map(number_or_text).collect());
    }
    if let Some(network) = &order.network {
        add("vpc_uuid", json!(network));
    }
    if let Some(data) = &order.user_data {
        add("user_data", json!(data.expose()));
    }
    Ok(body)
}

impl Droplet {
    fn into_vm(self) -> Result<CloudVm, Unidentified> {
        let id = id("id", self.id)?;
        let mut unread = Unread::default();
        let networks = unread.optional("public_ips", "networks", self.networks).unwrap_or_default();
        let (mut private_ips, mut public_ips) = (Vec::new(), Vec::new());
        for (name, list) in [("networks.v4", networks.v4), ("networks.v6", networks.v6)] {
            for network in unread.list("public_ips", name, list) {
                match unread.required("public_ips", "networks.type", network.reach).as_str() {
                    "private" => private_ips.extend(unread.address("private_ips", name, network.ip_address)),
                    "public" => public_ips.extend(unread.address("public_ips", name, network.ip_address)),
                    _ => {}
                }
            }
        }
        let pair =
            |tag: String| tag.split_once(':').map_or((tag.clone(), String::new()), |(key, value)| (key.into(), value.into()));
        let tags: BTreeMap<String, String> = unread.list("tags", "tags", self.tags).into_iter().map(pair).collect();
        let status = unread.required("state", "status", self.status);
        let state = state(&status);
        let region = unread.required("region", "region", self.region);
        let image = unread.optional("image", "image", self.image).unwrap_or_default();
        let image_id = unread.optional("image", "image.id", image.id);
        let memory = unread.optional("size", "memory", self.memory);
        Ok(CloudVm {
            provider_vm_id: id,
            name: unread.required("name", "name", self.name),
            state,
            provider_state: status,
            state_note: (state == VmState::Stopped).then(|| "A droplet that is off is still billed.".to_owned()),
            region: unread.required("region", "region.slug", region.slug),
            zone: None,
            size: Size {
                id: unread.required("size", "size_slug", self.size_slug),
                vcpus: unread.optional("size", "vcpus", self.vcpus),
                memory_bytes: memory.and_then(|mib| mib.checked_mul(1 << 20)),
            },
            image: unread.optional("image", "image.slug", image.slug).or_else(|| Some(image_id?.to_string())),
            private_ips,
            public_ips,
            tags,
            launched_at: unread.launched_at("created_at", self.created_at),
            unread: unread.into_fields(),
        })
    }
}

/// `archive` is a droplet whose disk was archived. It stays off until it is restored.
fn state(status: &str) -> VmState {
    match status {
        "new" => VmState::Provisioning,
        "active" => VmState::Running,
        "off" | "archive" => VmState::Stopped,
        _ => VmState::Unknown,
    }
}

fn failure(reply: &Reply) -> Failure {
    let answer: ErrorAnswer = reply.json().unwrap_or_default();
    let full = answer.message.contains("limit") && reply.status.as_u16() == 422;
    let class = if full { FailureClass::QuotaExceeded } else { reply.class() };
    reply.failure(class, &answer.id, &answer.message)
}
