//! Who does something, when, and with which randomness. A use case takes an [`Act`] and asks nobody else for any of it.
//!
//! A write may run more than once, so the edge makes an [`Intent`] and each run begins anew from it: the same time, the same
//! ids, the same secrets.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Identity, Principal, Reach, TenantKind},
    clock::Timestamp,
    entropy::{Entropy, Seed},
    id::{EventId, RunId, TenantId},
    quotas::Allowance,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    User,
    ApiKey,
    Workflow,
    #[default]
    System,
    Agent,
}

/// Who changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub kind: ActorKind,
    pub id: String,
    pub name: String,
}

impl Actor {
    /// tenantd itself, by the name of the part that acts.
    pub fn system(part: &str) -> Self {
        Self { kind: ActorKind::System, id: "system".to_owned(), name: part.to_owned() }
    }

    pub fn of(principal: &Principal) -> Self {
        match &principal.identity {
            Identity::User { id, name, .. } => Self { kind: ActorKind::User, id: id.to_string(), name: name.clone() },
            Identity::ApiKey { id, name } => Self { kind: ActorKind::ApiKey, id: id.to_string(), name: name.clone() },
            Identity::LocalOperator => {
                Self { kind: ActorKind::System, id: "local_operator".to_owned(), name: "Local operator".to_owned() }
            }
        }
    }
}

/// What an event was caused by, other than a request.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub event_id: Option<EventId>,
    /// The workflow run whose step made the change.
    pub run_id: Option<RunId>,
}

impl Cause {
    pub fn is_empty(&self) -> bool {
        self.event_id.is_none() && self.run_id.is_none()
    }
}

/// What someone is about to do in a tenant.
#[derive(Clone, Debug)]
pub struct Intent {
    pub tenant_id: TenantId,
    /// The tenant's time.
    pub now: Timestamp,
    ahead: Duration,
    pub actor: Actor,
    pub cause: Cause,
    pub reach: Reach,
    /// How much of the tenant's quotas it may use.
    pub allowance: Allowance,
    seed: Seed,
}

impl Intent {
    pub fn new(tenant_id: TenantId, now: Timestamp, actor: Actor) -> Self {
        Self {
            tenant_id,
            now,
            ahead: Duration::ZERO,
            actor,
            cause: Cause::default(),
            reach: Reach::Everything,
            allowance: Allowance::Unlimited,
            seed: Seed::from_os(),
        }
    }

    /// The same, with ids that come of a seed. For evaluation data only.
    pub fn seeded(tenant_id: TenantId, now: Timestamp, actor: Actor, seed: Seed) -> Self {
        Self { seed, ..Self::new(tenant_id, now, actor) }
    }

    /// What a caller is about to do, within the quotas of their tenant. The operator's tenant has none.
    pub fn of(principal: &Principal, now: Timestamp) -> Self {
        let is_limited = principal.tenant_kind != TenantKind::Platform;
        let allowance = if is_limited { Allowance::Quota } else { Allowance::Unlimited };
        Self { reach: principal.reach.clone(), allowance, ..Self::new(principal.tenant_id, now, Actor::of(principal)) }
    }

    /// What someone is about to do with what guards people. `now` was the installation's time, which the tenant's clock is ahead of.
    #[must_use]
    pub fn guarding(mut self, ahead: Duration) -> Self {
        (self.now, self.ahead) = (self.now + ahead, ahead);
        self
    }

    /// One run of it. Each run draws the same ids.
    pub fn begin(&self) -> Act {
        Act {
            tenant_id: self.tenant_id,
            now: self.now,
            ahead: self.ahead,
            actor: self.actor.clone(),
            cause: self.cause.clone(),
            reach: self.reach.clone(),
            allowance: self.allowance,
            entropy: self.seed.stream(),
        }
    }
}

/// One run of an [`Intent`].
#[derive(Debug)]
pub struct Act {
    pub tenant_id: TenantId,
    /// The tenant's time.
    pub now: Timestamp,
    /// Of an act on what guards people: by how much that is ahead of the installation's time.
    ahead: Duration,
    pub actor: Actor,
    pub cause: Cause,
    /// What is out of reach is treated as if it were not there.
    pub reach: Reach,
    pub allowance: Allowance,
    pub entropy: Entropy,
}

impl Act {
    /// The installation's time, for an act on what guards people: nobody's session or token ends or lasts because a tenant's clock was moved.
    pub fn guard_time(&self) -> Timestamp {
        self.now - self.ahead
    }

    /// Goes on in another tenant, whose clock is ahead of the installation's by so much.
    pub fn enter(&mut self, tenant: TenantId, ahead: Duration) {
        (self.tenant_id, self.now, self.ahead) = (tenant, self.guard_time() + ahead, ahead);
    }

    /// Lets the act use the reserve of its tenant's quotas: for what stops or secures something.
    pub fn use_reserve(&mut self) {
        self.allowance = self.allowance.max(Allowance::Reserve);
    }
}
