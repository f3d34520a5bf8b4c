//! Replaces a posture and applies all consequences: the sums of its organization, the device's state in the directory, events,
//! tickets, and the next timer. Every change of a posture goes through here, so no consequence is lost or reported twice.

use tenantd_base::{
    access::Reach,
    id::{DeviceId, TicketId},
};
use tenantd_directory::{self as directory, DeviceLabel, OrganizationLabel};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Actor, Describe, Draft, EventKind},
};
use tenantd_tickets::{
    NewComment, NewTicket, ResolutionCode, Source, Status, Ticket, TicketChange, TicketRef, TicketType, Visibility,
};

use super::{
    super::{
        error::BackupError,
        model::{Alarm, Outcome, Policy, Posture, Rpo, Tally},
        repo::{postures, rollups},
    },
    BackupLabels, JOB_MISSED, RPO_BREACHED, RPO_RECOVERED, Service, chain,
};

/// The names of a device and its organization. A deleted record is shown by its ID.
pub(super) fn labels(tx: &impl Read, posture: &Posture) -> Result<BackupLabels, BackupError> {
    let (tenant, id, organization_id) = (posture.tenant_id, posture.device_id, posture.organization_id);
    let device = directory::device(tx, tenant, id)?;
    let organization = directory::organization(tx, tenant, organization_id)?;
    Ok(BackupLabels {
        device: device.unwrap_or_else(|| DeviceLabel { id, name: id.to_string(), organization_id }),
        organization: organization.unwrap_or_else(|| OrganizationLabel { id: organization_id, name: organization_id.to_string() }),
    })
}

impl Service {
    /// Evaluates `after` by the policy and the time, and replaces `before` with it.
    pub(super) fn settle(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: Option<Posture>,
        after: Posture,
        policy: &Policy,
        mut tally: Tally,
    ) -> Result<Posture, BackupError> {
        let mut after = after.evaluated(policy, act.now);
        let was = before.as_ref().map(|posture| posture.standing).unwrap_or_default();
        let is = after.standing;
        let missed_now = is.missed && !was.missed;
        if missed_now {
            announce_posture(tx, act, &JOB_MISSED, &after, policy)?;
        }
        let breached = |rpo: Option<Rpo>| rpo == Some(Rpo::Breached);
        match (breached(was.rpo), breached(is.rpo)) {
            (false, true) => announce_posture(tx, act, &RPO_BREACHED, &after, policy)?,
            // A device that is no longer eligible has not recovered.
            (true, false) if is.eligible() => announce_posture(tx, act, &RPO_RECOVERED, &after, policy)?,
            _ => {}
        }
        self.settle_tickets(tx, act, before.as_ref(), &mut after, policy, tally.failure.take())?;
        if before.as_ref() == Some(&after) && !tally.job && tally.verified_at.is_none() {
            return Ok(after);
        }
        after.version += 1;
        let moved = before.as_ref().filter(|before| before.organization_id != after.organization_id);
        if let Some(before) = moved {
            let mut left = rollups::get(tx, (before.tenant_id, before.organization_id))?;
            left.replace_device(Some(before), None, act.now);
            rollups::put(tx, &left)?;
            postures::remove(tx, before)?;
        }
        let mut rollup = rollups::get(tx, (after.tenant_id, after.organization_id))?;
        let here = before.as_ref().filter(|_| moved.is_none());
        rollup.replace_device(here, Some(&after), act.now);
        rollup.count(&tally, act.now);
        if missed_now {
            tally = Tally { outcome: Some((Outcome::Missed, act.now)), ..Tally::default() };
            rollup.count(&tally, act.now);
        }
        rollups::put(tx, &rollup)?;
        postures::put(tx, &after)?;
        let state = after.backup_state();
        if before.is_none_or(|before| before.backup_state() != state) {
            directory::set_backup(tx, after.tenant_id, after.device_id, Some(&state))?;
        }
        Ok(after)
    }

    /// Evaluates a posture by its current policy.
    pub(crate) fn review(&self, tx: &mut WriteTx, act: &mut Act, posture: Posture) -> Result<Posture, BackupError> {
        let policy = chain::device_policy(tx, posture.tenant_id, posture.organization_id, posture.device_id)?;
        self.settle(tx, act, Some(posture.clone()), posture, &policy, Tally::default())
    }

    /// Opens the tickets for current conditions and closes those for past ones. A condition from before its notification was
    /// enabled gets a ticket too. `failure` describes a job that has just failed.
    fn settle_tickets(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: Option<&Posture>,
        after: &mut Posture,
        policy: &Policy,
        failure: Option<String>,
    ) -> Result<(), BackupError> {
        for alarm in Alarm::ALL.iter().copied() {
            let ticket = after.tickets.get(alarm as usize).copied().flatten();
            if after.has(alarm) {
                let is_new = match alarm {
                    // Every failure counts: as a comment while the ticket is open.
                    Alarm::Failed => failure.is_some(),
                    Alarm::Missed | Alarm::RpoBreach => !before.is_some_and(|before| before.has(alarm)),
                };
                if policy.notifications.ticket_on.contains(&alarm) && (is_new || ticket.is_none()) {
                    let detail = failure.clone().filter(|_| alarm == Alarm::Failed);
                    self.open_ticket(tx, act, alarm, after, policy, detail)?;
                }
            } else if let Some(id) = ticket {
                // A device that is no longer eligible has not recovered, so its ticket stays open.
                if after.standing.eligible() && policy.notifications.resolve_on_recovery {
                    self.close_ticket(tx, act, alarm, id)?;
                }
                if let Some(place) = after.tickets.get_mut(alarm as usize) {
                    *place = None;
                }
            }
        }
        Ok(())
    }

    /// Resolves a ticket whose cause is gone, as tenantd itself. Adds a comment if someone works on the ticket. Does nothing if it
    /// is finished or deleted.
    fn close_ticket(&self, tx: &mut WriteTx, act: &mut Act, alarm: Alarm, id: TicketId) -> Result<(), BackupError> {
        let Some(ticket) = tenantd_tickets::ticket(tx, act.tenant_id, id)? else { return Ok(()) };
        if !ticket.status.is_unfinished() {
            return Ok(());
        }
        let over = match alarm {
            Alarm::Failed => "A backup has succeeded since.",
            Alarm::Missed => "The backup is no longer overdue.",
            Alarm::RpoBreach => "The device meets its objective again.",
        };
        // The ticket may have moved out of reach of the credential that sent the job.
        let sender = (act.actor.clone(), std::mem::replace(&mut act.reach, Reach::Everything));
        act.actor = Actor::system("Backup");
        let reference = TicketRef::Id(id);
        let done = if ticket.status == Status::New {
            let resolved = TicketChange {
                status: Some(Status::Resolved),
                resolution_code: Some(ResolutionCode::Fixed),
                resolution_summary: Some(over.to_owned()),
                ..TicketChange::default()
            };
            self.tickets.change(tx, act, reference, &resolved)
        } else {
            let comment = NewComment { body: over.to_owned(), visibility: Visibility::Internal, contact_id: None };
            self.tickets.comment(tx, act, reference, &comment)
        };
        (act.actor, act.reach) = sender;
        done?;
        Ok(())
    }

    /// Opens a ticket, or adds a comment to the open ticket with the same cause.
    fn open_ticket(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        alarm: Alarm,
        posture: &mut Posture,
        policy: &Policy,
        detail: Option<String>,
    ) -> Result<(), BackupError> {
        let labels = labels(tx, posture)?;
        let last = posture.last_success_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let name = &labels.device.name;
        let subject = match alarm {
            Alarm::Failed => format!("Backup of {name} failed"),
            Alarm::Missed => format!("Backup of {name} was missed"),
            Alarm::RpoBreach => format!("{name} breaches its recovery point objective"),
        };
        let description = [Some(format!("Last restore point: {last}.")), detail].into_iter().flatten().collect::<Vec<_>>();
        let new = NewTicket {
            ticket: Ticket {
                subject: subject.chars().take(200).collect(),
                description: Some(description.join("\n")),
                kind: TicketType::Alert,
                source: Source::Backup,
                device_ids: vec![posture.device_id],
                dedup_key: Some(dedup_key(alarm, posture.device_id)),
                ..Ticket::default()
            },
            priority: Some(policy.notifications.ticket_priority),
            organization_id: Some(posture.organization_id),
            ..NewTicket::default()
        };
        let ticket: TicketId = self.tickets.create(tx, act, &new)?.id;
        if let Some(place) = posture.tickets.get_mut(alarm as usize) {
            *place = Some(ticket);
        }
        Ok(())
    }
}

fn announce_posture(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    posture: &Posture,
    policy: &Policy,
) -> Result<(), BackupError> {
    let objective = posture.workload.map_or(0, |workload| policy.objectives.rpo_minutes.of(workload));
    let shown = posture.describe((&labels(tx, posture)?, objective))?;
    let draft = Draft::new(kind, posture.device_id.to_string(), posture.version + 1, &shown);
    events::append(tx, act, &draft)?;
    Ok(())
}

fn dedup_key(alarm: Alarm, device: DeviceId) -> String {
    format!("backup:{}:{device}", alarm.name())
}
