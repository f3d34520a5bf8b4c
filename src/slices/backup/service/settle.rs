//! Puts a posture in the place of the one before, with all that follows from it: the sums of its organization, events, tickets, and the
//! next timer. Whoever changes a posture comes by here, so nothing of it can be forgotten, and nothing is told twice.

use tenantd_base::id::{DeviceId, TicketId};
use tenantd_directory::{self as directory, DeviceLabel, OrganizationLabel};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Describe, Draft, EventKind},
};
use tenantd_tickets::{NewTicket, Source, Ticket, TicketType};

use super::{
    super::{
        error::BackupError,
        model::{Alarm, Outcome, Policy, Posture, Rpo, Tally},
        repo::{postures, rollups},
    },
    JOB_MISSED, RPO_BREACHED, RPO_RECOVERED, Service, Whose, chain,
};

/// The names of a device and its organization; one that is gone is shown by its id.
pub(super) fn whose(tx: &impl Read, posture: &Posture) -> Result<Whose, BackupError> {
    let (tenant, id, organization_id) = (posture.tenant_id, posture.device_id, posture.organization_id);
    let device = directory::device(tx, tenant, id)?;
    let organization = directory::organization(tx, tenant, organization_id)?;
    Ok(Whose {
        device: device.unwrap_or_else(|| DeviceLabel { id, name: id.to_string(), organization_id }),
        organization: organization.unwrap_or_else(|| OrganizationLabel { id: organization_id, name: organization_id.to_string() }),
    })
}

impl Service {
    /// Judges `after` by the policy and the time, and stores it in the place of `before`.
    pub(super) fn settle(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: Option<Posture>,
        after: Posture,
        policy: &Policy,
        mut tally: Tally,
    ) -> Result<Posture, BackupError> {
        let mut after = after.judged(policy, act.now);
        let was = before.as_ref().map(|posture| posture.standing).unwrap_or_default();
        let is = after.standing;
        if is.missed && !was.missed {
            tell(tx, act, &JOB_MISSED, &after, policy)?;
            self.open_ticket(tx, act, Alarm::Missed, &mut after, policy, None)?;
        }
        let breached = |rpo: Option<Rpo>| rpo == Some(Rpo::Breached);
        match (breached(was.rpo), breached(is.rpo)) {
            (false, true) => {
                tell(tx, act, &RPO_BREACHED, &after, policy)?;
                self.open_ticket(tx, act, Alarm::RpoBreach, &mut after, policy, None)?;
            }
            // One that is not to be backed up any more has not recovered.
            (true, false) if is.eligible() => tell(tx, act, &RPO_RECOVERED, &after, policy)?,
            _ => {}
        }
        if before.as_ref() == Some(&after) && !tally.job && tally.verified_at.is_none() {
            return Ok(after);
        }
        after.version += 1;
        let missed_now = is.missed && !was.missed;
        let moved = before.as_ref().filter(|before| before.organization_id != after.organization_id);
        if let Some(before) = moved {
            let mut left = rollups::get(tx, (before.tenant_id, before.organization_id))?;
            left.exchange(Some(before), None, act.now);
            rollups::put(tx, &left)?;
            postures::remove(tx, before)?;
        }
        let mut rollup = rollups::get(tx, (after.tenant_id, after.organization_id))?;
        let here = before.as_ref().filter(|_| moved.is_none());
        rollup.exchange(here, Some(&after), act.now);
        rollup.count(&tally, act.now);
        if missed_now {
            tally = Tally { outcome: Some((Outcome::Missed, act.now)), ..Tally::default() };
            rollup.count(&tally, act.now);
        }
        rollups::put(tx, &rollup)?;
        postures::put(tx, &after)?;
        Ok(after)
    }

    /// Judges a posture by what holds for it now.
    pub(crate) fn review(&self, tx: &mut WriteTx, act: &mut Act, posture: Posture) -> Result<Posture, BackupError> {
        let policy = chain::device_policy(tx, posture.tenant_id, posture.organization_id, posture.device_id)?;
        self.settle(tx, act, Some(posture.clone()), posture, &policy, Tally::default())
    }

    /// Opens a ticket if one is wanted for this; one that is open for the same already gets a comment.
    pub(super) fn open_ticket(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        alarm: Alarm,
        posture: &mut Posture,
        policy: &Policy,
        detail: Option<String>,
    ) -> Result<(), BackupError> {
        if !policy.notifications.ticket_on.contains(&alarm) {
            return Ok(());
        }
        let whose = whose(tx, posture)?;
        let last = posture.last_success_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let name = &whose.device.name;
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

fn tell(tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, posture: &Posture, policy: &Policy) -> Result<(), BackupError> {
    let objective = posture.workload.map_or(0, |workload| policy.objectives.rpo_minutes.of(workload));
    let shown = posture.describe((&whose(tx, posture)?, objective))?;
    let draft = Draft::new(kind, posture.device_id.to_string(), posture.version + 1, &shown);
    events::append(tx, act, &draft)?;
    Ok(())
}

fn dedup_key(alarm: Alarm, device: DeviceId) -> String {
    format!("backup:{}:{device}", alarm.name())
}
