//! Who is in the story: the staff, the customers with their contacts, and their devices.

use std::time::Duration;

use super::{
    super::App,
    SampleError, pick,
    words::{FAMILY_NAMES, GIVEN_NAMES, ORGANIZATIONS, SITES},
};
use crate::{
    kernel::{
        access::Role,
        clock::Timestamp,
        entropy::Entropy,
        events::{Act, Actor, ActorKind, Intent},
        id::{DeviceId, OrganizationId, TenantId, UserId},
        store::WriteTx,
    },
    slices::directory::{
        Details, DeviceClass, Directory, Hardware, Health, Lifecycle, Network, NewDevice, NewOrganization, NewUser,
        OperatingSystem, OsFamily, Standing,
    },
};

const STAFF: usize = 5;
const CONTACTS: u64 = 6;
const DEVICES: u64 = 14;

#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) id: UserId,
    pub(super) name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Customer {
    pub(super) id: OrganizationId,
    pub(super) contacts: Vec<Person>,
    pub(super) devices: Vec<(DeviceId, String)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cast {
    pub(super) staff: Vec<Person>,
    pub(super) customers: Vec<Customer>,
}

/// Who acts in a scene.
#[derive(Clone, Copy, Debug)]
pub(super) enum Player {
    Staff(usize),
    Contact { customer: usize, person: usize },
    Monitoring,
}

impl Cast {
    pub(super) fn actor(&self, role: Player) -> Actor {
        let person = match role {
            Player::Staff(place) => self.staff.get(place),
            Player::Contact { customer, person } => self.customers.get(customer).and_then(|found| found.contacts.get(person)),
            Player::Monitoring => None,
        };
        person.map_or_else(
            || Actor::system("Monitoring"),
            |person| Actor { kind: ActorKind::User, id: person.id.to_string(), name: person.name.clone() },
        )
    }
}

/// Brings everyone in.
pub(super) async fn enter(app: &App, tenant: TenantId, random: &mut Entropy, at: Timestamp) -> Result<Cast, SampleError> {
    let intent = Intent::new(tenant, at, Actor::system("Sample data"));
    let (directory, seed) = (app.directory, random.next_u64());
    app.store
        .write(move |tx| {
            let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
            let mut cast = Cast::default();
            for place in 0..STAFF {
                let role = if place == 0 { Role::Admin } else { Role::Technician };
                cast.staff.push(person(&directory, tx, &mut act, &mut random, "msp.example", Standing::Staff { role })?);
            }
            for name in ORGANIZATIONS {
                cast.customers.push(customer(&directory, tx, &mut act, &mut random, name)?);
            }
            Ok(cast)
        })
        .await
}

fn person(
    directory: &Directory,
    tx: &mut WriteTx,
    act: &mut Act,
    random: &mut Entropy,
    domain: &str,
    standing: Standing,
) -> Result<Person, SampleError> {
    let given = pick(random, &GIVEN_NAMES).copied().unwrap_or_default();
    let family = pick(random, &FAMILY_NAMES).copied().unwrap_or_default();
    let number = random.below(1000);
    let email = format!("{}.{}{number}@{domain}", given.to_lowercase(), family.to_lowercase());
    let new = NewUser { external_id: None, email: Some(email), name: format!("{given} {family}"), standing };
    let user = directory.create_user(tx, act, &new)?;
    Ok(Person { id: user.id, name: user.name })
}

fn customer(
    directory: &Directory,
    tx: &mut WriteTx,
    act: &mut Act,
    random: &mut Entropy,
    name: &str,
) -> Result<Customer, SampleError> {
    let short: String = name.chars().filter(char::is_ascii_alphanumeric).take(10).collect::<String>().to_lowercase();
    let new = NewOrganization { external_id: Some(format!("sample-{short}")), name: name.to_owned() };
    let id = directory.create_organization(tx, act, &new)?.id;
    let mut customer = Customer { id, contacts: Vec::new(), devices: Vec::new() };
    let standing = Standing::Contact { organization_id: Some(id) };
    for _ in 0..2 + random.below(CONTACTS) {
        customer.contacts.push(person(directory, tx, act, random, &format!("{short}.example"), standing)?);
    }
    for number in 0..4 + random.below(DEVICES) {
        let owner = pick(random, &customer.contacts).map(|person| person.id);
        let new = device(random, act.now, &short, number, id, owner);
        let made = directory.create_device(tx, act, &new)?;
        customer.devices.push((made.id, made.name));
    }
    Ok(customer)
}

fn device(
    random: &mut Entropy,
    at: Timestamp,
    short: &str,
    number: u64,
    organization_id: OrganizationId,
    owner: Option<UserId>,
) -> NewDevice {
    let (class, prefix, os) = match random.below(10) {
        0 | 1 => (DeviceClass::Server, "srv", Some((OsFamily::Linux, "Debian GNU/Linux", "12"))),
        2 => (DeviceClass::Printer, "prn", None),
        3 => (DeviceClass::Network, "net", None),
        4 => (DeviceClass::Workstation, "mac", Some((OsFamily::Macos, "macOS", "15.3"))),
        _ => (DeviceClass::Workstation, "ws", Some((OsFamily::Windows, "Windows 11 Pro", "24H2"))),
    };
    let name = format!("{prefix}-{short}-{:02}", number + 1);
    let text = |text: &str| Some(text.to_owned());
    let details = Details {
        hardware: Some(Hardware {
            manufacturer: pick(random, &["Contoso", "Fabrikam", "Northwind Devices"]).copied().and_then(text),
            model: Some(format!("Model {}", 100 + random.below(9) * 10)),
            serial: Some(format!("SN{:08}", random.below(100_000_000))),
            memory_bytes: Some((8 << random.below(3)) << 30),
            ..Hardware::default()
        }),
        os: os.map(|(family, name, version)| OperatingSystem {
            family,
            name: text(name),
            version: text(version),
            build: None,
            reboot_required: Some(random.below(9) == 0),
            eol_at: None,
            last_boot_at: None,
        }),
        network: Some(Network {
            hostname: Some(name.clone()),
            primary_ip: Some(format!("192.168.{}.{}", random.below(250), 2 + random.below(250))),
            public_ip: None,
            interfaces: Vec::new(),
        }),
        ..Details::default()
    };
    NewDevice {
        external_id: Some(format!("sample-{name}")),
        name,
        class,
        lifecycle: Lifecycle::Active,
        organization_id,
        site: pick(random, &SITES).map(|site| (*site).to_owned()),
        owner_id: owner.filter(|_| class == DeviceClass::Workstation),
        agent_version: os.map(|_| "5.2.1".to_owned()),
        last_seen_at: os.map(|_| at + Duration::from_mins(random.below(60 * 24 * 90))),
        health: if random.below(12) == 0 { Health::NeedsAttention } else { Health::Healthy },
        collected_at: Some(at),
        details,
    }
}
