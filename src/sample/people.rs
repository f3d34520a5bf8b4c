//! Who is in the story: the staff, the customers with their contacts, and their devices.

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    entropy::Entropy,
    id::{DeviceId, OrganizationId, UserId},
};
use tenantd_directory::{Directory, NewOrganization, NewUser, Standing};
use tenantd_platform::Story;
use tenantd_store::{
    WriteTx,
    events::{Act, Actor, ActorKind},
};

use super::{
    SampleError, Stage, TELLER,
    fleet::{self, Home},
    pick,
    words::{FAMILY_NAMES, GIVEN_NAMES, ORGANIZATIONS},
};

const STAFF: usize = 5;
const CONTACTS: u64 = 6;
/// Devices that share a transaction.
const DEVICES_AT_ONCE: usize = 50;

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

/// Brings everyone in `at` the beginning of the story. Their devices are as they are at its end.
pub(super) async fn enter(stage: &Stage, random: &mut Entropy, story: &Story, at: Timestamp) -> Result<Cast, SampleError> {
    let mut cast = Cast { staff: staff(stage, random.next_u64(), at).await?, customers: Vec::new() };
    for place in 0..story.organizations {
        let devices = story.devices / story.organizations + u32::from(place < story.devices % story.organizations);
        let mut customer = customer(stage, random.next_u64(), place, at).await?;
        equip(stage, random, &mut customer, (place, devices), (at, story.ends_at)).await?;
        cast.customers.push(customer);
    }
    Ok(cast)
}

async fn staff(stage: &Stage, seed: u64, at: Timestamp) -> Result<Vec<Person>, SampleError> {
    let (directory, domain) = (stage.parts.directory, stage.domain.clone());
    let intent = stage.intent("staff", 0, at, Actor::system(TELLER));
    let enter = move |tx: &mut WriteTx| {
        let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
        let role = |place: usize| if place == 0 { Role::Admin } else { Role::Technician };
        (0..STAFF)
            .map(|place| person(&directory, tx, &mut act, &mut random, &domain, Standing::Staff { role: role(place) }))
            .collect::<Result<Vec<_>, SampleError>>()
    };
    stage.parts.store.write(enter).await
}

/// The name of a customer, and a short form of it. When all names are taken they come again with a number.
fn called(place: u32) -> (String, String) {
    let place = usize::try_from(place).unwrap_or_default();
    let (round, name) = (place / ORGANIZATIONS.len(), ORGANIZATIONS.get(place % ORGANIZATIONS.len()).copied().unwrap_or_default());
    let short: String = name.chars().filter(char::is_ascii_alphanumeric).take(10).collect::<String>().to_lowercase();
    if round == 0 { (name.to_owned(), short) } else { (format!("{name} {}", round + 1), format!("{short}{}", round + 1)) }
}

async fn customer(stage: &Stage, seed: u64, place: u32, at: Timestamp) -> Result<Customer, SampleError> {
    let directory = stage.parts.directory;
    let intent = stage.intent("customer", u64::from(place), at, Actor::system(TELLER));
    let enter = move |tx: &mut WriteTx| {
        let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
        let (name, short) = called(place);
        let new = NewOrganization { external_id: Some(format!("sample-{short}")), name };
        let id = directory.create_organization(tx, &mut act, &new)?.id;
        let mut customer = Customer { id, contacts: Vec::new(), devices: Vec::new() };
        let standing = Standing::Contact { organization_id: Some(id) };
        for _ in 0..2 + random.below(CONTACTS) {
            customer.contacts.push(person(&directory, tx, &mut act, &mut random, &format!("{short}.example"), standing)?);
        }
        Ok::<_, SampleError>(customer)
    };
    stage.parts.store.write(enter).await
}

/// Gives a customer its devices, some at a time.
async fn equip(
    stage: &Stage,
    random: &mut Entropy,
    customer: &mut Customer,
    (place, devices): (u32, u32),
    (at, now): (Timestamp, Timestamp),
) -> Result<(), SampleError> {
    let people: Vec<UserId> = customer.contacts.iter().map(|person| person.id).collect();
    for first in (0..devices).step_by(DEVICES_AT_ONCE) {
        let (directory, people, seed) = (stage.parts.directory, people.clone(), random.next_u64());
        let intent = stage.intent("devices", u64::from(place) << 32 | u64::from(first), at, Actor::system(TELLER));
        let (organization_id, (_, short)) = (customer.id, called(place));
        let numbers = first..devices.min(first + u32::try_from(DEVICES_AT_ONCE).unwrap_or_default());
        let enter = move |tx: &mut WriteTx| {
            let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
            let home = Home { organization_id, short: &short, network: u64::from(place), people: &people, now };
            let mut made = Vec::new();
            for number in numbers.clone() {
                let Some(new) = fleet::device(&mut random, &home, u64::from(number)) else { continue };
                let device = directory.create_device(tx, &mut act, new)?;
                made.push((device.id, device.name));
            }
            Ok::<_, SampleError>(made)
        };
        customer.devices.extend(stage.parts.store.write(enter).await?);
    }
    Ok(())
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
