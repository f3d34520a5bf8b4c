//! Exports and imports the directory's records. A device is exported with decoded details. The members of organizations are counted
//! again at import.

use serde_json::Value;

use tenantd_base::{
    access::Role,
    id::{OrganizationId, TenantId},
};
use tenantd_store::{
    WriteTx,
    portable::{Carrier, Check, PortError, Portable},
};

use super::{
    super::model::{Details, Device, Members, User, normalize_email},
    devices::{DEVICES, FoldedDevice},
    organizations::{self, MEMBERS, ORGANIZATIONS},
    users::USERS,
};

/// The maximum lengths of a subject and an issuer of an identity provider.
const MAX_SUBJECT: usize = 255;
const MAX_ISSUER: usize = 2048;

/// The limits of the API, for records that do not come through it.
pub(crate) struct Shapes {
    pub(crate) organization: Check<Value>,
    pub(crate) user: Check<Value>,
    pub(crate) device: Check<Value>,
    pub(crate) details: fn(&Details, Option<&str>) -> Result<(), String>,
}

/// Applies the checks of the API that need only the record itself.
fn check_user(user: &User) -> Result<(), PortError> {
    let wrong = |reason: &str| Err(PortError::wrong(reason));
    if user.role() == Some(Role::Operator) {
        return wrong("role: operator is allowed in the platform tenant only, which cannot be imported");
    }
    if user.role().is_some() && user.email.is_none() {
        return wrong("email: required for staff, who sign in with it");
    }
    if let Some(email) = &user.email
        && !normalize_email(email).is_ok_and(|normal| normal == *email)
    {
        return wrong("email: not a normalized email address");
    }
    match &user.sso {
        Some(_) if user.role().is_none() => wrong("sso: only staff can sign in through an identity provider"),
        Some(sso) if sso.subject.is_empty() || sso.subject.len() > MAX_SUBJECT || sso.issuer.len() > MAX_ISSUER => {
            wrong("sso: the subject is empty, or the subject or the issuer is too long")
        }
        _ => Ok(()),
    }
}

fn check_organization(tx: &WriteTx, tenant: TenantId, id: OrganizationId) -> Result<(), PortError> {
    let found = organizations::get(tx, tenant, id)?;
    found.map(drop).ok_or_else(|| PortError::Wrong(format!("it refers to {id}, which is not in the file")))
}

pub(crate) fn portable(shapes: Shapes) -> Vec<Box<dyn Portable>> {
    let Shapes { organization, user, device, details } = shapes;
    vec![
        Carrier::plain("organization", &ORGANIZATIONS, |_, _, _| Ok(())).within(organization).boxed(),
        // Members are counted as users and devices arrive.
        Carrier::derived("organization_members", &MEMBERS, |tx, key, _| {
            check_organization(tx, key.0, key.1)?;
            Ok(MEMBERS.put(tx, key, &Members::default())?)
        })
        .boxed(),
        Carrier::turning(
            "user",
            &USERS,
            |_, key, user| Ok(Some((key, user))),
            |_, key, user: User| {
                check_user(&user)?;
                Ok(Some((key, user)))
            },
        )
        .within(user)
        .kept_by(|tx, key, user| {
            if let Some(id) = user.organization_id() {
                check_organization(tx, key.0, id)?;
                organizations::move_member(tx, key.0, None, Some(id), |members| &mut members.contacts)?;
            }
            Ok(USERS.put(tx, key, user)?)
        })
        .boxed(),
        Carrier::turning(
            "device",
            &DEVICES,
            |_, key, folded| Ok(Some((key, folded.unfold()?))),
            |_, key, device: Device| Ok(Some((key, FoldedDevice::fold(&device)?))),
        )
        .within(device)
        .examined(move |_, _, folded| {
            let device = folded.unfold()?;
            details(&device.details, device.agent_version.as_deref()).map_err(PortError::Wrong)
        })
        .kept_by(|tx, key, device| {
            check_organization(tx, key.0, device.organization_id)?;
            organizations::move_member(tx, key.0, None, Some(device.organization_id), |members| &mut members.devices)?;
            Ok(DEVICES.put(tx, key, device)?)
        })
        .boxed(),
    ]
}
