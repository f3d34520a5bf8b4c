//! Who is in the story: the staff, the customers with their contacts, and their devices.

use super::{
    super::App,
    SampleError,
    fleet::{self, Home},
    pick,
    words::{FAMILY_NAMES, GIVEN_NAMES, ORGANIZATIONS},
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
    slices::directory::{Directory, NewOrganization, NewUser, Standing},
};

const STAFF: usize = 5;
const CONTACTS: u64 = 6;
const FEWEST_DEVICES: u64 = 6;
const MORE_DEVICES: u64 = 28;

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

/// Brings everyone in `at` the beginning of the story. Their devices are as they are `now`, at its end.
pub(super) async fn enter(
    app: &App,
    tenant: TenantId,
    random: &mut Entropy,
    at: Timestamp,
    now: Timestamp,
) -> Result<Cast, SampleError> {
    let intent = Intent::new(tenant, at, Actor::system("Sample data"));
    let (directory, seed) = (app.slices.directory, random.next_u64());
    app.store
        .write(move |tx| {
            let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
            let mut cast = Cast::default();
            for place in 0..STAFF {
                let role = if place == 0 { Role::Admin } else { Role::Technician };
                cast.staff.push(person(&directory, tx, &mut act, &mut random, "msp.example", Standing::Staff { role })?);
            }
            for (network, name) in (0..).zip(ORGANIZATIONS) {
                cast.customers.push(customer(&directory, tx, &mut act, &mut random, (network, name), now)?);
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
    (network, name): (u64, &str),
    now: Timestamp,
) -> Result<Customer, SampleError> {
    let short: String = name.chars().filter(char::is_ascii_alphanumeric).take(10).collect::<String>().to_lowercase();
    let new = NewOrganization { external_id: Some(format!("sample-{short}")), name: name.to_owned() };
    let id = directory.create_organization(tx, act, &new)?.id;
    let mut customer = Customer { id, contacts: Vec::new(), devices: Vec::new() };
    let standing = Standing::Contact { organization_id: Some(id) };
    for _ in 0..2 + random.below(CONTACTS) {
        customer.contacts.push(person(directory, tx, act, random, &format!("{short}.example"), standing)?);
    }
    let people: Vec<UserId> = customer.contacts.iter().map(|person| person.id).collect();
    let home = Home { organization_id: id, short: &short, network, people: &people, now };
    for number in 0..FEWEST_DEVICES + random.below(MORE_DEVICES) {
        let Some(new) = fleet::device(random, &home, number) else { continue };
        let made = directory.create_device(tx, act, &new)?;
        customer.devices.push((made.id, made.name));
    }
    Ok(customer)
}
