//! Who acts, when, and with which randomness. A use case gets all of it from an [`Act`] and from nowhere else.
//!
//! A write may run more than once. So the edge creates an [`Intent`], and each run starts from it again with the same time, the
//! same ids and the same secrets.

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

/// The person or program that made a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub kind: ActorKind,
    pub id: String,
    pub name: String,
}

impl Actor {
    /// tenantd itself, named by the part that acts.
    pub fn system(part: &str) -> Self {
        Self { kind: ActorKind::System, id: "system".to_owned(), name: part.to_owned() }
    }

    pub fn of(principal: &Principal) -> Self {
        match &principal.identity {
            Identity::User { id, name, .. } | Identity::Contact { id, name, .. } => {
                Self { kind: ActorKind::User, id: id.to_string(), name: name.clone() }
            }
            Identity::ApiKey { id, name } => Self { kind: ActorKind::ApiKey, id: id.to_string(), name: name.clone() },
            Identity::LocalOperator => {
                Self { kind: ActorKind::System, id: "local_operator".to_owned(), name: "Local operator".to_owned() }
            }
        }
    }
}

/// What caused an event, other than a request.
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

/// What a caller is about to do in a tenant.
#[derive(Clone, Debug)]
pub struct Intent {
    pub tenant_id: TenantId,
    /// The time on the tenant's clock.
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

    /// Like [`Self::new`], with ids that are generated from a seed. For evaluation data only.
    pub fn seeded(tenant_id: TenantId, now: Timestamp, actor: Actor, seed: Seed) -> Self {
        Self { seed, ..Self::new(tenant_id, now, actor) }
    }

    /// An action of a caller, within the quotas of their tenant. The operator's tenant has no quotas.
    pub fn of(principal: &Principal, now: Timestamp) -> Self {
        let is_limited = principal.tenant_kind != TenantKind::Platform;
        let allowance = if is_limited { Allowance::Quota } else { Allowance::Unlimited };
        Self { reach: principal.reach.clone(), allowance, ..Self::new(principal.tenant_id, now, Actor::of(principal)) }
    }

    /// Marks an action on credentials and sessions. `now` was the installation's time, and the tenant's clock is ahead of it by
    /// `ahead`.
    #[must_use]
    pub fn guarding(mut self, ahead: Duration) -> Self {
        (self.now, self.ahead) = (self.now + ahead, ahead);
        self
    }

    /// Starts one run. Each run generates the same ids.
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
    /// The time on the tenant's clock.
    pub now: Timestamp,
    /// For an action on credentials and sessions: by how much `now` is ahead of the installation's time.
    ahead: Duration,
    pub actor: Actor,
    pub cause: Cause,
    /// Records out of reach are treated as missing.
    pub reach: Reach,
    pub allowance: Allowance,
    pub entropy: Entropy,
}

impl Act {
    /// The installation's time, for an action on credentials and sessions. Moving a tenant's clock must not end or extend a
    /// session or token.
    pub fn guard_time(&self) -> Timestamp {
        self.now - self.ahead
    }

    /// Continues in another tenant, whose clock is ahead of the installation's by `ahead`.
    pub fn enter(&mut self, tenant: TenantId, ahead: Duration) {
        (self.tenant_id, self.now, self.ahead) = (tenant, self.guard_time() + ahead, ahead);
    }

    /// Allows the act to use the reserve of its tenant's quotas. For actions that stop or secure something.
    pub fn use_reserve(&mut self) {
        self.allowance = self.allowance.max(Allowance::Reserve);
    }
}
