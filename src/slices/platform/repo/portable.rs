//! A tenant as it leaves for another installation and arrives there, under another slug if the operator wants one.

use super::TENANTS;
use crate::kernel::{
    access::TenantKind,
    portable::{Carrier, PortError, Portable},
};

pub(in super::super) fn tenant() -> Box<dyn Portable> {
    Carrier::turning(
        "tenant",
        &TENANTS,
        |_, id, tenant| Ok(Some((id, tenant))),
        |arrival, id, mut tenant| {
            if tenant.kind == TenantKind::Platform {
                return Err(PortError::Wrong("an installation has one platform tenant, its own".to_owned()));
            }
            if let Some(slug) = &arrival.slug {
                tenant.slug.clone_from(slug);
            }
            Ok((id, tenant))
        },
    )
}
