//! The directory's records as they leave for another installation and arrive there. A device is written with its details taken apart.
//! How much belongs to an organization is counted again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    id::{OrganizationId, TenantId, UserId},
};
use tenantd_store::{
    WriteTx, codec,
    portable::{Carrier, Check, PortError, Portable},
};

use super::{
    super::model::{Details, DeviceClass, Health, Lifecycle, Members, Standing, User, normalize_email},
    devices::{DEVICES, DeviceRecord},
    organizations::{self, MEMBERS, ORGANIZATIONS},
    users::{self, USERS},
};

/// The longest name that an identity provider has for somebody, and for itself.
const MAX_SUBJECT: usize = 255;
const MAX_ISSUER: usize = 2048;

/// The bounds of the API, for records that do not come through it.
pub(crate) struct Shapes {
    pub(crate) organization: Check<Value>,
    pub(crate) user: Check<Value>,
    pub(crate) device: Check<Value>,
    pub(crate) details: fn(&Details, Option<&str>) -> Result<(), String>,
}

/// A device as it is written in a line.
#[derive(Debug, Serialize, Deserialize)]
struct DeviceForm {
    name: String,
    external_id: Option<String>,
    class: DeviceClass,
    lifecycle: Lifecycle,
    organization_id: OrganizationId,
    site: Option<String>,
    owner_id: Option<UserId>,
    agent_version: Option<String>,
    last_seen_at: Option<Timestamp>,
    health: Health,
    collected_at: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
    details: Details,
}

impl DeviceForm {
    fn new(record: DeviceRecord) -> Result<Self, PortError> {
        Ok(Self {
            details: codec::decode_fields(&record.details).map_err(PortError::Wrong)?,
            name: record.name,
            external_id: record.external_id,
            class: record.class,
            lifecycle: record.lifecycle,
            organization_id: record.organization_id,
            site: record.site,
            owner_id: record.owner_id,
            agent_version: record.agent_version,
            last_seen_at: record.last_seen_at,
            health: record.health,
            collected_at: record.collected_at,
            created_at: record.created_at,
            updated_at: record.updated_at,
            version: record.version,
        })
    }

    fn record(self) -> Result<DeviceRecord, PortError> {
        Ok(DeviceRecord {
            details: codec::encode_fields(&self.details).map_err(PortError::Wrong)?,
            name: self.name,
            external_id: self.external_id,
            class: self.class,
            lifecycle: self.lifecycle,
            organization_id: self.organization_id,
            site: self.site,
            owner_id: self.owner_id,
            agent_version: self.agent_version,
            last_seen_at: self.last_seen_at,
            health: self.health,
            collected_at: self.collected_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
            version: self.version,
        })
    }
}

/// What the use cases ask of a user, as far as it can be told from the record alone.
fn check_user(user: &User) -> Result<(), PortError> {
    let wrong = |reason: &str| Err(PortError::wrong(reason));
    if user.role() == Some(Role::Operator) {
        return wrong("an operator belongs to the platform tenant, which is never imported");
    }
    if user.role().is_some() && user.email.is_none() {
        return wrong("staff need an e-mail address to sign in with");
    }
    if let Some(email) = &user.email
        && !normalize_email(email).is_ok_and(|normal| normal == *email)
    {
        return wrong("its email is not an e-mail address in the form in which they are stored");
    }
    match &user.sso {
        Some(_) if user.role().is_none() => wrong("only staff sign in through an identity provider"),
        Some(sso) if sso.subject.is_empty() || sso.subject.len() > MAX_SUBJECT || sso.issuer.len() > MAX_ISSUER => {
            wrong("who it is at an identity provider is too long, or empty")
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
        // Users and devices are counted as they arrive.
        Carrier::derived("organization_members", &MEMBERS, |tx, key, _| {
            check_organization(tx, key.0, key.1)?;
            Ok(MEMBERS.put(tx, key, &Members::default())?)
        })
        .boxed(),
        Carrier::turning(
            "user",
            &USERS,
            |_, key, record| Ok(Some((key, record))),
            |_, key, record| {
                let user = users::to_model(key, record);
                check_user(&user)?;
                Ok(Some((key, users::to_record(&user))))
            },
        )
        .within(user)
        .kept_by(|tx, key, record| {
            if let Standing::Contact { organization_id: Some(id) } = record.standing {
                check_organization(tx, key.0, id)?;
                organizations::move_member(tx, key.0, None, Some(id), |members| &mut members.contacts)?;
            }
            Ok(USERS.put(tx, key, record)?)
        })
        .boxed(),
        Carrier::turning(
            "device",
            &DEVICES,
            |_, key, record| Ok(Some((key, DeviceForm::new(record)?))),
            |_, key, form: DeviceForm| Ok(Some((key, form.record()?))),
        )
        .within(device)
        .examined(move |_, _, record| {
            let found: Details = codec::decode_fields(&record.details).map_err(PortError::Wrong)?;
            details(&found, record.agent_version.as_deref()).map_err(PortError::Wrong)
        })
        .kept_by(|tx, key, record| {
            check_organization(tx, key.0, record.organization_id)?;
            organizations::move_member(tx, key.0, None, Some(record.organization_id), |members| &mut members.devices)?;
            Ok(DEVICES.put(tx, key, record)?)
        })
        .boxed(),
    ]
}
