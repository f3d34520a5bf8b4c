//! Generates the activity on tickets: a few steps for each ticket, sorted by time.

use std::time::Duration;

use tenantd_base::{change::Change, clock::Timestamp, entropy::Entropy};
use tenantd_tickets::{
    NewComment, NewTicket, NewTimeEntry, Priority, ResolutionCode, Source, Status, Ticket, TicketChange, TicketType, Visibility,
};

use super::{
    between,
    people::{Author, Participants},
    pick, tags,
    words::{TICKET_TEMPLATES, TicketTemplate, WORK_TYPES},
};

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) ticket: usize,
    pub(super) author: Author,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Create(Box<NewTicket>),
    Change(Box<TicketChange>),
    Comment(NewComment),
    Work(NewTimeEntry),
}

/// Tickets younger than this can be open.
const STILL_OPEN: Duration = Duration::from_hours(24 * 12);
/// The hours in which people contact the service desk.
const FIRST_HOUR: u64 = 7;
const HOURS: u64 = 11;

/// All steps before `now`.
pub(super) fn steps(
    participants: &Participants,
    random: &mut Entropy,
    from: Timestamp,
    now: Timestamp,
    tickets: usize,
) -> Vec<Step> {
    let mut steps = Vec::with_capacity(tickets * 5);
    for ticket in 0..tickets {
        let index = random.below(TICKET_TEMPLATES.len() as u64);
        let Some(template) = usize::try_from(index).ok().and_then(|place| TICKET_TEMPLATES.get(place)) else { continue };
        let begins = begins(random, template, from, now);
        let mut timeline = Timeline { ticket, at: begins, steps: &mut steps, left: u64::MAX };
        if now.since(begins) < STILL_OPEN && random.below(3) > 0 {
            timeline.left = 1 + random.below(6);
        }
        build(participants, random, template, &mut timeline);
    }
    steps.retain(|step| step.at < now);
    // The steps of one ticket are already sorted, and a stable sort keeps their order.
    steps.sort_by_key(|step| step.at);
    steps
}

/// The creation time of a ticket. Monitoring creates tickets at any time, people during office hours.
fn begins(random: &mut Entropy, template: &TicketTemplate, from: Timestamp, now: Timestamp) -> Timestamp {
    let any = between(random, from, now);
    if template.alert {
        return any;
    }
    let day = Duration::from_hours(24);
    let days = now.since(any).as_secs() / day.as_secs();
    let today = Duration::from_secs(u64::try_from(now.as_seconds().rem_euclid(86_400)).unwrap_or_default());
    let midnight = now - today - day * u32::try_from(days).unwrap_or_default();
    midnight + Duration::from_secs(FIRST_HOUR * 3600 + random.below(HOURS * 3600))
}

struct Timeline<'a> {
    ticket: usize,
    at: Timestamp,
    steps: &'a mut Vec<Step>,
    /// The number of remaining steps. It is limited for newer tickets that are still open.
    left: u64,
}

impl Timeline<'_> {
    fn step(&mut self, author: Author, action: Action) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.steps.push(Step { at: self.at, ticket: self.ticket, author, action });
    }

    /// Advances the time, mostly by about `typical_minutes`, occasionally by much more.
    fn wait(&mut self, random: &mut Entropy, typical_minutes: u64) {
        let stretch = [1, 1, 1, 2, 2, 3, 6, 14];
        let factor = pick(random, &stretch).copied().unwrap_or(1);
        self.at = self.at + Duration::from_secs(60 * (1 + random.below(typical_minutes * factor)));
    }

    fn comment(&mut self, author: Author, body: &str, visibility: Visibility) {
        self.step(author, Action::Comment(NewComment { body: body.to_owned(), visibility, contact_id: None }));
    }

    fn status(&mut self, author: Author, status: Status) {
        self.step(author, Action::Change(Box::new(TicketChange { status: Some(status), ..TicketChange::default() })));
    }
}

fn build(participants: &Participants, random: &mut Entropy, template: &TicketTemplate, timeline: &mut Timeline<'_>) {
    let customer_place = usize::try_from(random.below(participants.customers.len() as u64)).unwrap_or_default();
    let Some(customer) = participants.customers.get(customer_place) else { return };
    let person = usize::try_from(random.below(customer.contacts.len() as u64)).unwrap_or_default();
    let technician = usize::try_from(random.below(participants.staff.len() as u64)).unwrap_or_default();
    let (Some(contact), Some(assignee)) = (customer.contacts.get(person), participants.staff.get(technician)) else { return };
    let device = pick(random, &customer.devices);
    let contact_author = Author::Contact { customer: customer_place, person };
    let staff = Author::Staff(technician);
    let reporter = if template.alert { Author::Monitoring } else { contact_author };

    let text = |text: &str| {
        text.replace("{device}", device.map_or("a device", |device| device.1.as_str())).replace("{person}", &contact.name)
    };
    let priority = [Priority::Critical, Priority::High, Priority::Medium, Priority::Low];
    let weight = usize::try_from(template.weight + random.below(2)).unwrap_or_default();
    let new = NewTicket {
        priority: priority.get(weight).copied().or(Some(Priority::Low)),
        organization_id: Some(customer.id),
        ticket: Ticket {
            subject: text(template.subject),
            description: Some(template.description.to_owned()),
            kind: if template.alert { TicketType::Alert } else { TicketType::Incident },
            source: source(random, template),
            queue: Some(template.queue.to_owned()),
            category: Some(template.category.to_owned()),
            contact_id: (!template.alert).then_some(contact.id),
            device_ids: device.filter(|_| template.alert || random.below(3) > 0).map(|device| device.0).into_iter().collect(),
            tags: tags(random),
            ..Ticket::default()
        },
        ..NewTicket::default()
    };
    timeline.step(reporter, Action::Create(Box::new(new)));

    timeline.wait(random, 90);
    let taken = TicketChange { status: Some(Status::InProgress), assignee_id: Change::Set(assignee.id), ..TicketChange::default() };
    timeline.step(staff, Action::Change(Box::new(taken)));
    timeline.wait(random, 20);
    timeline.comment(staff, template.first_answer, Visibility::Public);
    if random.below(12) == 0 {
        timeline.wait(random, 60);
        timeline.status(staff, Status::Cancelled);
        return;
    }
    if !template.alert && random.below(2) == 0 {
        timeline.wait(random, 60);
        timeline.comment(staff, template.question, Visibility::Public);
        timeline.status(staff, Status::WaitingCustomer);
        timeline.wait(random, 600);
        timeline.comment(contact_author, template.reply, Visibility::Public);
        timeline.wait(random, 60);
        timeline.status(staff, Status::InProgress);
    }
    timeline.wait(random, 240);
    let work_type = pick(random, &WORK_TYPES).copied().unwrap_or_default();
    let minutes = u32::try_from(10 + random.below(10) * 10).unwrap_or_default();
    let work =
        NewTimeEntry { minutes, billable: random.below(3) > 0, work_type: work_type.to_owned(), note: None, started_at: None };
    timeline.step(staff, Action::Work(work));
    timeline.wait(random, 30);
    resolve(timeline, staff, template);
    if random.below(15) == 0 {
        // A resolved ticket can be reopened before tenantd closes it.
        timeline.wait(random, 300);
        timeline.comment(contact_author, "It has come back, sorry.", Visibility::Public);
        timeline.wait(random, 120);
        resolve(timeline, staff, template);
    }
}

fn resolve(timeline: &mut Timeline<'_>, staff: Author, template: &TicketTemplate) {
    let change = TicketChange {
        status: Some(Status::Resolved),
        resolution_code: Some(ResolutionCode::Fixed),
        resolution_summary: Some(template.resolution.to_owned()),
        ..TicketChange::default()
    };
    timeline.step(staff, Action::Change(Box::new(change)));
}

fn source(random: &mut Entropy, template: &TicketTemplate) -> Source {
    if template.alert {
        return Source::Monitoring;
    }
    pick(random, &[Source::Email, Source::Email, Source::Phone, Source::Portal, Source::Chat]).copied().unwrap_or(Source::Email)
}
