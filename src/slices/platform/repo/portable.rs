//! A tenant as it leaves for another installation and arrives there, under another slug if the operator wants one.

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

/// As long as the API lets a tenant live.
const LONGEST_LIFE_DAYS: u32 = 365;

pub(crate) fn activity() -> Box<dyn Portable> {
    Carrier::plain("tenant_activity", &ACTIVITY, |arrival, _, activity| {
        // An evaluation tenant has room for so many events, and these are some of them.
        let is_less = arrival.tenant_kind == TenantKind::Evaluation && activity.events < arrival.landing.next() - 1;
        if is_less { Err(PortError::wrong("it counts fewer events than the file has")) } else { Ok(()) }
    })
    .boxed()
}

/// `fields` are the bounds of the API.
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
        if *id == arrival.tenant { Ok(()) } else { Err(PortError::Wrong(format!("this is the record of {id}"))) }
    })
    .boxed()
}

/// What the use cases ask of a tenant.
fn check(arrival: &Arrival, tenant: &Tenant) -> Result<(), PortError> {
    let wrong = |reason: &str| Err(PortError::wrong(reason));
    match tenant.kind {
        TenantKind::Platform => return wrong("an installation has one platform tenant, its own"),
        kind if kind != arrival.tenant_kind => return wrong("kind: the first line of the file names another"),
        TenantKind::Standard if tenant.id.has_own_clock() => return wrong("kind: its id is that of an evaluation tenant"),
        TenantKind::Standard | TenantKind::Evaluation => {}
    }
    let named = NewTenant { name: tenant.name.clone(), slug: Some(tenant.slug.clone()), kind: tenant.kind, expires_days: None };
    named.slug().map_err(PortError::wrong)?;
    if !matches!(tenant.status, TenantStatus::Active | TenantStatus::Suspended) {
        return wrong("status: the tenant was being filled or removed when it was exported");
    }
    if tenant.clock_ahead > MAX_AHEAD || (!tenant.clock_ahead.is_zero() && !tenant.id.has_own_clock()) {
        return wrong("clock_ahead_seconds: its clock is too far ahead, or is the installation's");
    }
    match tenant.expires_at {
        Some(_) if tenant.kind == TenantKind::Standard => wrong("expires_at: only an evaluation tenant has an end"),
        Some(end) if end > arrival.now.plus_days(LONGEST_LIFE_DAYS) => {
            Err(PortError::Wrong(format!("expires_at: an evaluation tenant ends within {LONGEST_LIFE_DAYS} days")))
        }
        _ => Ok(()),
    }
}
