//! Generates the staff, the customers with their contacts, and their devices.

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    entropy::Entropy,
    id::{DeviceId, OrganizationId, UserId},
};
use tenantd_directory::{Directory, NewOrganization, NewUser, Standing};
use tenantd_platform::SampleSpec;
use tenantd_store::{
    WriteTx,
    events::{Act, Actor, ActorKind},
};

use super::{
    GENERATOR, SampleContext, SampleError,
    fleet::{self, Home},
    pick,
    words::{FAMILY_NAMES, GIVEN_NAMES, ORGANIZATIONS},
};

const STAFF: usize = 5;
const CONTACTS: u64 = 6;
/// The number of devices per transaction.
const DEVICES_PER_TRANSACTION: usize = 50;

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
pub(super) struct Participants {
    pub(super) staff: Vec<Person>,
    pub(super) customers: Vec<Customer>,
}

/// The author of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Author {
    Staff(usize),
    Contact { customer: usize, person: usize },
    Monitoring,
}

impl Participants {
    pub(super) fn actor(&self, role: Author) -> Actor {
        let person = match role {
            Author::Staff(place) => self.staff.get(place),
            Author::Contact { customer, person } => self.customers.get(customer).and_then(|found| found.contacts.get(person)),
            Author::Monitoring => None,
        };
        person.map_or_else(
            || Actor::system("Monitoring"),
            |person| Actor { kind: ActorKind::User, id: person.id.to_string(), name: person.name.clone() },
        )
    }
}

/// Creates all people and devices `at` the start of the sample data. The devices have their state at its end.
pub(super) async fn create(
    context: &SampleContext,
    random: &mut Entropy,
    spec: &SampleSpec,
    at: Timestamp,
) -> Result<Participants, SampleError> {
    let mut participants = Participants { staff: staff(context, random.next_u64(), at).await?, customers: Vec::new() };
    for place in 0..spec.organizations {
        let devices = spec.devices / spec.organizations + u32::from(place < spec.devices % spec.organizations);
        let mut customer = customer(context, random.next_u64(), place, at).await?;
        create_devices(context, random, &mut customer, (place, devices), (at, spec.ends_at)).await?;
        participants.customers.push(customer);
    }
    Ok(participants)
}

async fn staff(context: &SampleContext, seed: u64, at: Timestamp) -> Result<Vec<Person>, SampleError> {
    let (directory, domain) = (context.parts.directory, context.domain.clone());
    let intent = context.intent("staff", 0, at, Actor::system(GENERATOR));
    let write = move |tx: &mut WriteTx| {
        let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
        let role = |place: usize| if place == 0 { Role::Admin } else { Role::Technician };
        (0..STAFF)
            .map(|place| {
                person(
                    &directory,
                    tx,
                    &mut act,
                    &mut random,
                    &domain,
                    Standing::Staff { role: role(place).into(), organization_ids: None },
                )
            })
            .collect::<Result<Vec<_>, SampleError>>()
    };
    context.parts.store.write(write).await
}

/// The name of a customer, and its short form. After the last name, the names repeat with a number.
fn customer_name(place: u32) -> (String, String) {
    let place = usize::try_from(place).unwrap_or_default();
    let (round, name) = (place / ORGANIZATIONS.len(), ORGANIZATIONS.get(place % ORGANIZATIONS.len()).copied().unwrap_or_default());
    let short: String = name.chars().filter(char::is_ascii_alphanumeric).take(10).collect::<String>().to_lowercase();
    if round == 0 { (name.to_owned(), short) } else { (format!("{name} {}", round + 1), format!("{short}{}", round + 1)) }
}

async fn customer(context: &SampleContext, seed: u64, place: u32, at: Timestamp) -> Result<Customer, SampleError> {
    let directory = context.parts.directory;
    let intent = context.intent("customer", u64::from(place), at, Actor::system(GENERATOR));
    let write = move |tx: &mut WriteTx| {
        let (mut act, mut random) = (intent.begin(), Entropy::from_seed(seed));
        let (name, short) = customer_name(place);
        let new = NewOrganization { external_id: Some(format!("sample-{short}")), name };
        let id = directory.create_organization(tx, &mut act, &new)?.id;
        let mut customer = Customer { id, contacts: Vec::new(), devices: Vec::new() };
        let standing = Standing::Contact { organization_id: Some(id) };
        for _ in 0..2 + random.below(CONTACTS) {
            customer.contacts.push(person(&directory, tx, &mut act, &mut random, &format!("{short}.example"), standing.clone())?);
        }
        Ok::<_, SampleError>(customer)
    };
    context.parts.store.write(write).await
}

/// Creates the devices of a customer in batches.
async fn create_devices(
    context: &SampleContext,
    random: &mut Entropy,
    customer: &mut Customer,
    (place, devices): (u32, u32),
    (at, now): (Timestamp, Timestamp),
) -> Result<(), SampleError> {
    let people: Vec<UserId> = customer.contacts.iter().map(|person| person.id).collect();
    for first in (0..devices).step_by(DEVICES_PER_TRANSACTION) {
        let (directory, people, seed) = (context.parts.directory, people.clone(), random.next_u64());
        let intent = context.intent("devices", u64::from(place) << 32 | u64::from(first), at, Actor::system(GENERATOR));
        let (organization_id, (_, short)) = (customer.id, customer_name(place));
        let numbers = first..devices.min(first + u32::try_from(DEVICES_PER_TRANSACTION).unwrap_or_default());
        let write = move |tx: &mut WriteTx| {
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
        customer.devices.extend(context.parts.store.write(write).await?);
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
