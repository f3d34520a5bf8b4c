//! Exports and imports a tenant. The operator can choose a new slug at import.

use serde_json::Value;

use tenantd_base::access::TenantKind;
use tenantd_store::portable::{Arrival, Carrier, PortError, Portable};

use super::{
    super::{
        activity::ACTIVITY,
        model::{MAX_AHEAD, NewTenant, Tenant, TenantStatus},
    },
    TENANTS,
};

/// The longest lifetime that the API accepts.
const LONGEST_LIFE_DAYS: u32 = 365;

pub(crate) fn activity() -> Box<dyn Portable> {
    Carrier::plain("tenant_activity", &ACTIVITY, |arrival, _, activity| {
        // The event count is limited for evaluation tenants, and the imported events are part of it.
        let is_less = arrival.tenant_kind == TenantKind::Evaluation && activity.events < arrival.numbers.next() - 1;
        if is_less { Err(PortError::wrong("events: lower than the number of events in the file")) } else { Ok(()) }
    })
    .boxed()
}

/// `fields` checks a record against the limits of the API.
pub(crate) fn tenant(fields: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static) -> Box<dyn Portable> {
    Carrier::turning(
        "tenant",
        &TENANTS,
        |_, id, tenant| Ok(Some((id, tenant))),
        |arrival, id, mut tenant: Tenant| {
            tenant.id = id;
            if let Some(slug) = &arrival.slug {
                tenant.slug.clone_from(slug);
            }
            check(arrival, &tenant)?;
            Ok(Some((id, tenant)))
        },
    )
    .within(fields)
    .examined(|arrival, id, tenant| {
        arrival.tenant_now = arrival.now + tenant.clock_ahead;
        if *id == arrival.tenant {
            Ok(())
        } else {
            Err(PortError::Wrong(format!("id: this is the record of a different tenant, {id}")))
        }
    })
    .boxed()
}

/// Applies the same checks as the API.
fn check(arrival: &Arrival, tenant: &Tenant) -> Result<(), PortError> {
    let wrong = |reason: &str| Err(PortError::wrong(reason));
    match tenant.kind {
        TenantKind::Platform => return wrong("kind: a platform tenant cannot be imported"),
        kind if kind != arrival.tenant_kind => return wrong("kind: differs from the first line of the file"),
        TenantKind::Standard if tenant.id.has_own_clock() => {
            return wrong("kind: standard, but the ID is that of an evaluation tenant");
        }
        TenantKind::Standard | TenantKind::Evaluation => {}
    }
    let named = NewTenant { name: tenant.name.clone(), slug: Some(tenant.slug.clone()), kind: tenant.kind, expires_days: None };
    named.slug().map_err(PortError::wrong)?;
    if !matches!(tenant.status, TenantStatus::Active | TenantStatus::Suspended) {
        return wrong("status: must be active or suspended");
    }
    if tenant.clock_ahead > MAX_AHEAD || (!tenant.clock_ahead.is_zero() && !tenant.id.has_own_clock()) {
        return wrong("clock_ahead_seconds: too far ahead, or the tenant has no own clock");
    }
    match tenant.expires_at {
        Some(_) if tenant.kind == TenantKind::Standard => wrong("expires_at: only an evaluation tenant can expire"),
        Some(end) if end > arrival.now.plus_days(LONGEST_LIFE_DAYS) => {
            Err(PortError::Wrong(format!("expires_at: must be within {LONGEST_LIFE_DAYS} days")))
        }
        _ => Ok(()),
    }
}
