//! Organizations, people and devices on the wire.

mod device;
mod examples;
mod ingest;
mod ingest_lines;
mod split;
mod vocabulary;
mod wire;

use serde_json::{Map, Value};

pub use device::{Agent, BackupState, Device, Hardware, Network, OperatingSystem, Patch, Security, Software, Warranty};
pub(super) use ingest::{AdminIngestApi, Ingest, IngestApi};
pub use wire::{OrganizationReference, PersonReference, UserView};

use tenantd_http::{
    openapi,
    problem::{Code, FieldError, Problem},
    shape::Shape,
};

use super::{error::DirectoryError, repo::portable::Shapes};

/// The bounds of what is sent here, for records that come with a whole tenant.
pub(super) fn shapes() -> Result<Shapes, String> {
    let organization = Shape::fields::<ingest_lines::OrganizationLine>(&["name", "external_id"])?;
    let user = Shape::fields::<ingest_lines::UserLine>(&["name", "email", "external_id"])?;
    let device = Shape::fields::<ingest_lines::DeviceLine>(&["name", "external_id", "site"])?;
    Ok(Shapes {
        organization: Box::new(move |record| organization.check(record)),
        user: Box::new(move |record| user.check(record)),
        device: Box::new(move |record| device.check(record)),
        details: device::check_details,
    })
}

/// The schemas of the records that events carry.
pub(super) fn record_schemas() -> Map<String, Value> {
    openapi::schemas::<wire::Organization>().into_iter().chain(openapi::schemas::<device::Device>()).collect()
}

impl From<DirectoryError> for Problem {
    fn from(error: DirectoryError) -> Self {
        let invalid = |pointer: &str, code: &str, message: &str| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        match error {
            DirectoryError::NotFound => Self::plain(Code::NotFound),
            DirectoryError::EmailTaken => Self::new(Code::AlreadyExists, "A user with this e-mail address exists already."),
            DirectoryError::ExternalIdTaken => Self::new(Code::AlreadyExists, "Another record has this external id."),
            DirectoryError::BadEmail(message) => invalid("/email", "wrong_form", message),
            DirectoryError::EmailMissing => invalid("/email", "required", "staff need an e-mail address to sign in with"),
            DirectoryError::UnknownOrganization => invalid("/organization_id", "unknown", "there is no such organization"),
            DirectoryError::UnknownExternalOrganization(external_id) => invalid(
                "/organization_external_id",
                "unknown",
                &format!("there is no organization with the external id {external_id}; send it before what belongs to it"),
            ),
            DirectoryError::UnknownExternalOwner(external_id) => {
                invalid("/owner_external_id", "unknown", &format!("there is no user with the external id {external_id}"))
            }
            DirectoryError::Incomplete { field } => {
                invalid(&format!("/{field}"), "required", &format!("{field} is required for a record that is not there yet"))
            }
            DirectoryError::IsStaff => {
                invalid("/external_id", "not_allowed", "this is a member of staff, who is changed through /api/admin/users only")
            }
            DirectoryError::OutOfReach => {
                Self::new(Code::InsufficientScope, "The record belongs to an organization that this key is not for, or to none.")
            }
            DirectoryError::UnknownOwner => invalid("/owner_id", "unknown", "there is no such user"),
            DirectoryError::RoleMismatch => {
                invalid("/role", "not_allowed", "an operator belongs to the platform tenant, and everyone else to another")
            }
            DirectoryError::StaffOrganization => {
                invalid("/organization_id", "not_allowed", "staff belong to the tenant and to no organization")
            }
            DirectoryError::ContactRole => invalid("/role", "not_allowed", "a contact has no role"),
            DirectoryError::LastAdmin => {
                Self::new(Code::InUse, "This is the last active administrator; make someone else one first.")
            }
            DirectoryError::OrganizationInUse { devices, contacts } => Self::new(
                Code::InUse,
                format!("The organization still has {devices} devices and {contacts} contacts; remove or move them first."),
            ),
            DirectoryError::Line { pointer, message } => invalid(pointer, "not_valid", &message),
            DirectoryError::Stale(stale) => stale.into(),
            DirectoryError::Event(error) => Self::internal(error),
            DirectoryError::Store(error) => error.into(),
        }
    }
}
