//! Background operations with observable progress: the creation of VMs, and syncs that a client requested.
//!
//! **Invariant:** a slot is `Ordered` in the store before its order is sent. The VM of such a slot may or may not exist, so the
//! cloud is asked before the order is sent again.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
    secrets::{Sealed, Secret},
    vocabulary::vocabulary,
};
use tenantd_store::events::Actor;

use super::{
    failure::Failure,
    order::{Order, OrderToken},
};

/// The number of attempts for an order, and the pauses between them.
const MAX_ATTEMPTS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_mins(1);

vocabulary! {
    OperationStatus as variants:
    Queued "queued", Running "running", Succeeded "succeeded", Failed "failed", Cancelled "cancelled",
}

impl OperationStatus {
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

vocabulary! {
    /// The phase of an operation. `Ordering`: orders are being sent. `Starting`: the VMs exist and are starting.
    Phase:
    Queued "queued", Ordering "ordering", Starting "starting", Syncing "syncing", Done "done",
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperationError {
    pub(crate) code: String,
    pub(crate) message: String,
    /// Whether a retry may succeed later.
    pub(crate) transient: bool,
}

impl From<&Failure> for OperationError {
    fn from(failure: &Failure) -> Self {
        Self { code: failure.class.name().to_owned(), message: failure.message.clone(), transient: failure.class.is_transient() }
    }
}

/// The specification of an order, shared by all VMs of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderSpec {
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
    pub(crate) size: String,
    pub(crate) image: String,
    pub(crate) network: Option<String>,
    pub(crate) ssh_keys: Vec<String>,
    /// Often contains passwords. Removed when the operation ends.
    pub(crate) user_data: Option<Sealed>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) count: u32,
}

impl OrderSpec {
    /// The name of one VM. If there are several, the name ends with a number.
    pub(crate) fn name_of(&self, index: u32) -> String {
        if self.count == 1 { self.name.clone() } else { format!("{}-{}", self.name, index + 1) }
    }

    pub(crate) fn order(&self, token: OrderToken, user_data: Option<Secret>) -> Order {
        Order {
            token,
            name: self.name_of(token.index),
            region: self.region.clone(),
            zone: self.zone.clone(),
            size: self.size.clone(),
            image: self.image.clone(),
            network: self.network.clone(),
            ssh_keys: self.ssh_keys.clone(),
            user_data,
            tags: self.tags.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SlotState {
    Waiting,
    /// The order may have been sent.
    Ordered,
    Created {
        provider_vm_id: String,
    },
    Running {
        provider_vm_id: String,
    },
    Failed {
        error: OperationError,
        provider_vm_id: Option<String>,
        uncertain: bool,
    },
}

/// One VM of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slot {
    pub(crate) vm_id: VmId,
    pub(crate) tries: u32,
    pub(crate) state: SlotState,
}

/// One provider of a requested sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refreshing {
    pub(crate) provider_id: CloudProviderId,
    pub(crate) done: bool,
    pub(crate) error: Option<OperationError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperationWork {
    Provision { provider_id: CloudProviderId, spec: Box<OrderSpec>, slots: Vec<Slot> },
    Refresh { providers: Vec<Refreshing> },
}

/// A VM that a failed operation left, or may have left, in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) vm_id: VmId,
    pub(crate) name: String,
    pub(crate) provider_vm_id: Option<String>,
    /// The token of the order.
    pub(crate) token: String,
    /// Whether it is unknown if the VM exists.
    pub(crate) uncertain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) tenant_id: TenantId,
    /// The organization that the VMs belong to, if there is one.
    pub(crate) organization_id: Option<OrganizationId>,
    pub(crate) status: OperationStatus,
    pub(crate) work: OperationWork,
    pub(crate) actor: Actor,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// When the next step is due. `None` if the operation has ended or waits for other work.
    pub(crate) due_at: Option<Timestamp>,
    /// VMs that are not running by then count as failed.
    pub(crate) patience_until: Timestamp,
    pub(crate) version: u64,
}

impl Operation {
    pub(crate) fn token(&self, index: u32) -> OrderToken {
        OrderToken { operation: self.id, index }
    }

    pub(crate) fn phase(&self) -> Phase {
        match (&self.work, self.status) {
            (_, status) if status.has_ended() => Phase::Done,
            (_, OperationStatus::Queued) => Phase::Queued,
            (OperationWork::Refresh { .. }, _) => Phase::Syncing,
            (OperationWork::Provision { slots, .. }, _) => {
                let ordering = slots.iter().any(|slot| matches!(slot.state, SlotState::Waiting | SlotState::Ordered));
                if ordering { Phase::Ordering } else { Phase::Starting }
            }
        }
    }

    /// The progress in percent. A created VM counts half, a running VM counts fully.
    pub(crate) fn progress(&self) -> u32 {
        if self.status.has_ended() {
            return 100;
        }
        let (done, all) = match &self.work {
            OperationWork::Provision { slots, .. } => {
                let halves = |slot: &Slot| match slot.state {
                    SlotState::Waiting | SlotState::Ordered => 0,
                    SlotState::Created { .. } => 1,
                    SlotState::Running { .. } | SlotState::Failed { .. } => 2,
                };
                (slots.iter().map(halves).sum(), slots.len() * 2)
            }
            OperationWork::Refresh { providers } => (providers.iter().filter(|one| one.done).count(), providers.len()),
        };
        u32::try_from(done * 100 / all.max(1)).unwrap_or(100)
    }

    /// The first error.
    pub(crate) fn error(&self) -> Option<&OperationError> {
        match &self.work {
            OperationWork::Provision { slots, .. } => slots.iter().find_map(|slot| match &slot.state {
                SlotState::Failed { error, .. } => Some(error),
                _ => None,
            }),
            OperationWork::Refresh { providers } => providers.iter().find_map(|one| one.error.as_ref()),
        }
    }

    /// The VMs of a failed operation that exist in the cloud or may exist there.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        let OperationWork::Provision { spec, slots, .. } = &self.work else { return Vec::new() };
        if self.status != OperationStatus::Failed {
            return Vec::new();
        }
        let left = |(slot, index): (&Slot, u32)| {
            let (provider_vm_id, uncertain) = match &slot.state {
                SlotState::Created { provider_vm_id } | SlotState::Running { provider_vm_id } => {
                    (Some(provider_vm_id.clone()), false)
                }
                SlotState::Failed { provider_vm_id: Some(id), .. } => (Some(id.clone()), false),
                SlotState::Failed { uncertain: true, .. } | SlotState::Ordered => (None, true),
                SlotState::Failed { .. } | SlotState::Waiting => return None,
            };
            let token = self.token(index).to_string();
            Some(Leftover { vm_id: slot.vm_id, name: spec.name_of(index), provider_vm_id, token, uncertain })
        };
        slots.iter().zip(0..).filter_map(left).collect()
    }

    /// Ends the operation with its result if no work is left.
    pub(crate) fn settle(&mut self, now: Timestamp) {
        let open = match &self.work {
            OperationWork::Provision { slots, .. } => {
                slots.iter().any(|slot| !matches!(slot.state, SlotState::Running { .. } | SlotState::Failed { .. }))
            }
            OperationWork::Refresh { providers } => providers.iter().any(|one| !one.done),
        };
        if open || self.status.has_ended() {
            return;
        }
        self.status = if self.error().is_some() { OperationStatus::Failed } else { OperationStatus::Succeeded };
        self.ended_at = Some(now);
        self.due_at = None;
        if let OperationWork::Provision { spec, .. } = &mut self.work {
            spec.user_data = None;
        }
    }
}

/// The pause before a failed order is sent again. `None` if a retry is pointless.
pub(crate) fn retry_delay(failure: &Failure, tries: u32) -> Option<Duration> {
    if !failure.class.is_transient() || tries >= MAX_ATTEMPTS {
        return None;
    }
    let pause = (FIRST_PAUSE * (1 << tries.saturating_sub(1).min(10))).min(MAX_PAUSE);
    Some(failure.retry_after.unwrap_or(pause).clamp(pause, MAX_PAUSE * 10))
}
