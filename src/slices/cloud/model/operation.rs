//! What goes on in the background for somebody who may ask how far it is: the creation of VMs, or a sync that was asked for.
//!
//! **Invariant:** a slot is `Ordered` in the store before its order goes out. Whoever finds one like that does not know whether the VM
//! was created, and asks the cloud before ordering again.

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

/// How often an order is given before it is given up, and the pauses between.
const MOST_TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

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
    /// How far an operation is. `Ordering`: orders go out. `Starting`: the VMs are there and have to come up.
    Phase:
    Queued "queued", Ordering "ordering", Starting "starting", Syncing "syncing", Done "done",
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperationError {
    pub(crate) code: String,
    pub(crate) message: String,
    /// Whether the same could go well at another time.
    pub(crate) transient: bool,
}

impl From<&Failure> for OperationError {
    fn from(failure: &Failure) -> Self {
        Self { code: failure.class.name().to_owned(), message: failure.message.clone(), transient: failure.class.is_transient() }
    }
}

/// What is ordered, the same for all VMs of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderSpec {
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
    pub(crate) size: String,
    pub(crate) image: String,
    pub(crate) network: Option<String>,
    pub(crate) ssh_keys: Vec<String>,
    /// Often has passwords in it. Forgotten when the operation has ended.
    pub(crate) user_data: Option<Sealed>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) count: u32,
}

impl OrderSpec {
    /// The name of one of the VMs: numbered when there are several.
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
    /// The order may have gone out.
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

/// One provider of a sync that was asked for.
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

/// What a failed operation left in the cloud, or may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) vm_id: VmId,
    pub(crate) name: String,
    pub(crate) provider_vm_id: Option<String>,
    /// The token that its order carried.
    pub(crate) token: String,
    /// Nobody knows whether it is there.
    pub(crate) uncertain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) tenant_id: TenantId,
    /// Whose VMs it is about, where that is one organization.
    pub(crate) organization_id: Option<OrganizationId>,
    pub(crate) status: OperationStatus,
    pub(crate) work: OperationWork,
    pub(crate) actor: Actor,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// When there is next something to do; `None` when others do it, or nobody any more.
    pub(crate) due_at: Option<Timestamp>,
    /// VMs that have not come up by then are told as they are.
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

    /// In percent. An order is half of the way, a VM that runs the whole.
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

    /// The first thing that went wrong.
    pub(crate) fn error(&self) -> Option<&OperationError> {
        match &self.work {
            OperationWork::Provision { slots, .. } => slots.iter().find_map(|slot| match &slot.state {
                SlotState::Failed { error, .. } => Some(error),
                _ => None,
            }),
            OperationWork::Refresh { providers } => providers.iter().find_map(|one| one.error.as_ref()),
        }
    }

    /// Of an operation that failed: what is there all the same, and what may be.
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

    /// Ends the operation when nothing is left to do, with what came of it.
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

/// When an order is given again after it failed, or `None` when that is no use.
pub(crate) fn next_try(failure: &Failure, tries: u32) -> Option<Duration> {
    if !failure.class.is_transient() || tries >= MOST_TRIES {
        return None;
    }
    let pause = (FIRST_PAUSE * (1 << tries.saturating_sub(1).min(10))).min(LONGEST_PAUSE);
    Some(failure.retry_after.unwrap_or(pause).clamp(pause, LONGEST_PAUSE * 10))
}
