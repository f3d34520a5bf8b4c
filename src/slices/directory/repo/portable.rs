//! Exports and imports the directory's records. A device is exported with decoded details. The members of organizations are counted
//! again at import.

use serde_json::Value;

use tenantd_base::{
    access::{self, Role, StaffRole},
    id::{OrganizationId, TenantId},
};
use tenantd_store::{
    WriteTx,
    portable::{Carrier, Check, PortError, Portable},
};

use super::{
    super::model::{CustomRole, Details, Device, MAX_ROLES, Members, Standing, User, normalize_email},
    devices::{DEVICES, FoldedDevice},
    organizations::{self, MEMBERS, ORGANIZATIONS},
    roles::{self, ROLES},
    users::USERS,
};

/// The maximum lengths of a subject and an issuer of an identity provider.
const MAX_SUBJECT: usize = 255;
const MAX_ISSUER: usize = 2048;
/// The most organizations that a member of staff is limited to.
const MAX_LIMITS: usize = 100;

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
    if user.role().is_some_and(|role| role.is(Role::Operator)) {
        return wrong("role: operator is allowed in the platform tenant only, which cannot be imported");
    }
    if let Standing::Staff { organization_ids: Some(ids), .. } = &user.standing
        && (ids.len() > MAX_LIMITS || !ids.is_sorted_by(|one, next| one < next))
    {
        return wrong("organization_ids: at most 100 ids, in order and without repetition");
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

/// The limits of the API for a role.
const MAX_SCOPES: usize = 64;
const MAX_ROLE_NAME: usize = 100;
const MAX_ROLE_DESCRIPTION: usize = 1000;

fn check_custom_role(role: &CustomRole) -> Result<(), PortError> {
    let is_long = |text: &str, most: usize| text.chars().count() > most;
    if role.name.trim().is_empty() || is_long(&role.name, MAX_ROLE_NAME) {
        return Err(PortError::wrong("name: 1 to 100 characters are allowed"));
    }
    if role.description.as_deref().is_some_and(|text| is_long(text, MAX_ROLE_DESCRIPTION)) {
        return Err(PortError::wrong("description: at most 1000 characters are allowed"));
    }
    match role.scopes.iter().find(|scope| access::expand(scope).is_none()) {
        Some(scope) => Err(PortError::Wrong(format!("scopes: the scope {scope} does not exist"))),
        None if role.scopes.is_empty() || role.scopes.len() > MAX_SCOPES => Err(PortError::wrong("scopes: 1 to 64 are allowed")),
        None if role.generation > access::Generation::CURRENT => Err(PortError::wrong("generation: this release does not know it")),
        None => Ok(()),
    }
}

fn check_custom_role_exists(tx: &WriteTx, tenant: TenantId, role: StaffRole) -> Result<(), PortError> {
    let Some(id) = role.custom() else { return Ok(()) };
    roles::get(tx, tenant, id)?.map(drop).ok_or_else(|| PortError::Wrong(format!("role: {id} is not in the file")))
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
            "role",
            &ROLES,
            |_, key, role| Ok(Some((key, role))),
            |_, key, role: CustomRole| {
                check_custom_role(&role)?;
                Ok(Some((key, role)))
            },
        )
        .at_most(MAX_ROLES as u64)
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
            if let Some(role) = user.role() {
                check_custom_role_exists(tx, key.0, role)?;
            }
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
