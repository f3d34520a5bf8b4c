//! What happens: for each ticket a few scenes, all of them in the order of time.

use std::time::Duration;

use tenantd_base::{change::Change, clock::Timestamp, entropy::Entropy};
use tenantd_tickets::{
    NewComment, NewTicket, NewTimeEntry, Priority, ResolutionCode, Source, Status, Ticket, TicketChange, TicketType, Visibility,
};

use super::{
    between,
    people::{Cast, Player},
    pick, tags,
    words::{TROUBLES, Trouble, WORK_TYPES},
};

#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) at: Timestamp,
    pub(super) ticket: usize,
    pub(super) player: Player,
    pub(super) deed: Deed,
}

#[derive(Clone, Debug)]
pub(super) enum Deed {
    Create(Box<NewTicket>),
    Change(Box<TicketChange>),
    Comment(NewComment),
    Work(NewTimeEntry),
}

/// Tickets that are younger than this may be unfinished.
const STILL_OPEN: Duration = Duration::from_hours(24 * 12);
/// Hours in which people write to the service desk.
const FIRST_HOUR: u64 = 7;
const HOURS: u64 = 11;

/// All scenes that took place before `now`.
pub(super) fn tell(cast: &Cast, random: &mut Entropy, from: Timestamp, now: Timestamp, tickets: usize) -> Vec<Scene> {
    let mut scenes = Vec::with_capacity(tickets * 5);
    for ticket in 0..tickets {
        let trouble_place = random.below(TROUBLES.len() as u64);
        let Some(trouble) = usize::try_from(trouble_place).ok().and_then(|place| TROUBLES.get(place)) else { continue };
        let begins = begins(random, trouble, from, now);
        let mut telling = Telling { ticket, at: begins, scenes: &mut scenes, left: u64::MAX };
        if now.since(begins) < STILL_OPEN && random.below(3) > 0 {
            telling.left = 1 + random.below(6);
        }
        play(cast, random, trouble, &mut telling);
    }
    scenes.retain(|scene| scene.at < now);
    // Scenes of one ticket are in order already, and a stable sort keeps them so.
    scenes.sort_by_key(|scene| scene.at);
    scenes
}

/// The monitoring never sleeps; people write on working days.
fn begins(random: &mut Entropy, trouble: &Trouble, from: Timestamp, now: Timestamp) -> Timestamp {
    let any = between(random, from, now);
    if trouble.alert {
        return any;
    }
    let day = Duration::from_hours(24);
    let days = now.since(any).as_secs() / day.as_secs();
    let today = Duration::from_secs(u64::try_from(now.as_seconds().rem_euclid(86_400)).unwrap_or_default());
    let midnight = now - today - day * u32::try_from(days).unwrap_or_default();
    midnight + Duration::from_secs(FIRST_HOUR * 3600 + random.below(HOURS * 3600))
}

struct Telling<'a> {
    ticket: usize,
    at: Timestamp,
    scenes: &'a mut Vec<Scene>,
    /// How many more scenes there are: work on many of the newer tickets has only begun.
    left: u64,
}

impl Telling<'_> {
    fn scene(&mut self, player: Player, deed: Deed) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.scenes.push(Scene { at: self.at, ticket: self.ticket, player, deed });
    }

    /// Some time passes: mostly about `typical_minutes`, now and then much more.
    fn wait(&mut self, random: &mut Entropy, typical_minutes: u64) {
        let stretch = [1, 1, 1, 2, 2, 3, 6, 14];
        let factor = pick(random, &stretch).copied().unwrap_or(1);
        self.at = self.at + Duration::from_secs(60 * (1 + random.below(typical_minutes * factor)));
    }

    fn comment(&mut self, player: Player, body: &str, visibility: Visibility) {
        self.scene(player, Deed::Comment(NewComment { body: body.to_owned(), visibility, contact_id: None }));
    }

    fn status(&mut self, player: Player, status: Status) {
        self.scene(player, Deed::Change(Box::new(TicketChange { status: Some(status), ..TicketChange::default() })));
    }
}

fn play(cast: &Cast, random: &mut Entropy, trouble: &Trouble, telling: &mut Telling<'_>) {
    let customer_place = usize::try_from(random.below(cast.customers.len() as u64)).unwrap_or_default();
    let Some(customer) = cast.customers.get(customer_place) else { return };
    let person = usize::try_from(random.below(customer.contacts.len() as u64)).unwrap_or_default();
    let technician = usize::try_from(random.below(cast.staff.len() as u64)).unwrap_or_default();
    let (Some(contact), Some(assignee)) = (customer.contacts.get(person), cast.staff.get(technician)) else { return };
    let device = pick(random, &customer.devices);
    let contact_player = Player::Contact { customer: customer_place, person };
    let staff = Player::Staff(technician);
    let reporter = if trouble.alert { Player::Monitoring } else { contact_player };

    let text = |template: &str| {
        template.replace("{device}", device.map_or("a device", |device| device.1.as_str())).replace("{person}", &contact.name)
    };
    let priority = [Priority::Critical, Priority::High, Priority::Medium, Priority::Low];
    let weight = usize::try_from(trouble.weight + random.below(2)).unwrap_or_default();
    let new = NewTicket {
        priority: priority.get(weight).copied().or(Some(Priority::Low)),
        organization_id: Some(customer.id),
        ticket: Ticket {
            subject: text(trouble.subject),
            description: Some(trouble.description.to_owned()),
            kind: if trouble.alert { TicketType::Alert } else { TicketType::Incident },
            source: source(random, trouble),
            queue: Some(trouble.queue.to_owned()),
            category: Some(trouble.category.to_owned()),
            contact_id: (!trouble.alert).then_some(contact.id),
            device_ids: device.filter(|_| trouble.alert || random.below(3) > 0).map(|device| device.0).into_iter().collect(),
            tags: tags(random),
            ..Ticket::default()
        },
        ..NewTicket::default()
    };
    telling.scene(reporter, Deed::Create(Box::new(new)));

    telling.wait(random, 90);
    let taken = TicketChange { status: Some(Status::InProgress), assignee_id: Change::Set(assignee.id), ..TicketChange::default() };
    telling.scene(staff, Deed::Change(Box::new(taken)));
    telling.wait(random, 20);
    telling.comment(staff, trouble.first_answer, Visibility::Public);
    if random.below(12) == 0 {
        telling.wait(random, 60);
        telling.status(staff, Status::Cancelled);
        return;
    }
    if !trouble.alert && random.below(2) == 0 {
        telling.wait(random, 60);
        telling.comment(staff, trouble.question, Visibility::Public);
        telling.status(staff, Status::WaitingCustomer);
        telling.wait(random, 600);
        telling.comment(contact_player, trouble.reply, Visibility::Public);
        telling.wait(random, 60);
        telling.status(staff, Status::InProgress);
    }
    telling.wait(random, 240);
    let work_type = pick(random, &WORK_TYPES).copied().unwrap_or_default();
    let minutes = u32::try_from(10 + random.below(10) * 10).unwrap_or_default();
    let work =
        NewTimeEntry { minutes, billable: random.below(3) > 0, work_type: work_type.to_owned(), note: None, started_at: None };
    telling.scene(staff, Deed::Work(work));
    telling.wait(random, 30);
    resolve(telling, staff, trouble);
    if random.below(15) == 0 {
        // Within the days in which a resolved ticket is not yet closed.
        telling.wait(random, 300);
        telling.comment(contact_player, "It has come back, sorry.", Visibility::Public);
        telling.wait(random, 120);
        resolve(telling, staff, trouble);
    }
}

fn resolve(telling: &mut Telling<'_>, staff: Player, trouble: &Trouble) {
    let change = TicketChange {
        status: Some(Status::Resolved),
        resolution_code: Some(ResolutionCode::Fixed),
        resolution_summary: Some(trouble.resolution.to_owned()),
        ..TicketChange::default()
    };
    telling.scene(staff, Deed::Change(Box::new(change)));
}

fn source(random: &mut Entropy, trouble: &Trouble) -> Source {
    if trouble.alert {
        return Source::Monitoring;
    }
    pick(random, &[Source::Email, Source::Email, Source::Phone, Source::Portal, Source::Chat]).copied().unwrap_or(Source::Email)
}
