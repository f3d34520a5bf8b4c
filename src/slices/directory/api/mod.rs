//! The HTTP API of organizations, people and devices.

mod bodies;
mod contacts;
mod custom_fields;
mod device;
mod device_filters;
mod devices;
mod examples;
mod ingest;
mod ingest_lines;
mod lists;
mod mirror;
mod organizations;
mod resource;
mod roles;
mod split;
mod vocabulary;
mod wire;

use poem_openapi::Tags;
use serde_json::{Map, Value};

pub(super) use contacts::{ContactApi, ContactsApi};
pub use device::{Agent, BackupState, Device, Hardware, Network, OperatingSystem, Patch, Security, Software, Warranty};
pub use device_filters::{DeviceFilters, QueryContext};
pub(super) use devices::{DeviceApi, DevicesApi};
pub(super) use ingest::{AdminIngestApi, Ingest, IngestApi};
pub(super) use organizations::{OrganizationApi, OrganizationsApi};
pub(super) use resource::RecordService;
pub use wire::{OrganizationReference, PersonReference, RoleView, UserView};

use tenantd_base::access::Scope;
use tenantd_http::{
    openapi,
    problem::{Code, FieldError, Problem},
    shape::Shape,
};

use super::{error::DirectoryError, repo::portable::Shapes};

#[derive(Tags)]
enum Area {
    /// Organizations, their contacts, and devices.
    Directory,
}

/// Rejects `reassign_to` for a bulk deletion.
fn refuse_reassignment(given: bool) -> Result<(), Problem> {
    if !given {
        return Ok(());
    }
    let message = "reassign_to works for one record only: delete the records one by one";
    Err(Problem::invalid(vec![FieldError::parameter("reassign_to", "not_allowed", message)]))
}

/// The limits of the API, applied to the records of an imported tenant.
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

/// The schemas of the records in events.
pub(super) fn record_schemas() -> Map<String, Value> {
    openapi::schemas::<wire::Organization>().into_iter().chain(openapi::schemas::<device::Device>()).collect()
}

impl From<DirectoryError> for Problem {
    fn from(error: DirectoryError) -> Self {
        let invalid = |pointer: &str, code: &str, message: &str| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        match error {
            DirectoryError::NotFound => Self::plain(Code::NotFound),
            DirectoryError::EmailTaken => Self::new(Code::AlreadyExists, "A user with this email address already exists."),
            DirectoryError::ExternalIdTaken => Self::new(Code::AlreadyExists, "Another record already has this external_id."),
            DirectoryError::BadEmail(message) => invalid("/email", "wrong_form", message),
            DirectoryError::EmailMissing => invalid("/email", "required", "required for staff, who sign in with it"),
            DirectoryError::UnknownOrganization => invalid("/organization_id", "unknown", "organization not found"),
            DirectoryError::UnknownExternalOrganization(external_id) => invalid(
                "/organization_external_id",
                "unknown",
                &format!("no organization has the external ID {external_id}: send the organization before its records"),
            ),
            DirectoryError::UnknownExternalOwner(external_id) => {
                invalid("/owner_external_id", "unknown", &format!("no user has the external ID {external_id}"))
            }
            DirectoryError::Incomplete { field } => {
                invalid(&format!("/{field}"), "required", &format!("{field} is required for a new record"))
            }
            DirectoryError::IsStaff => {
                invalid("/external_id", "not_allowed", "this user is a member of staff: change staff with /api/admin/users")
            }
            DirectoryError::OutOfReach => Self::new(
                Code::InsufficientScope,
                "This key cannot access the organization of the record, or the record has no organization.",
            ),
            DirectoryError::UnknownOwner => invalid("/owner_id", "unknown", "user not found"),
            DirectoryError::RoleMismatch => invalid(
                "/role",
                "not_allowed",
                "operator is allowed in the platform tenant only, and the platform tenant allows no other role",
            ),
            DirectoryError::StaffOrganization => {
                invalid("/organization_id", "not_allowed", "not allowed for staff: only contacts belong to an organization")
            }
            DirectoryError::Role(error) => error.into(),
            DirectoryError::ContactRole => invalid("/role", "not_allowed", "not allowed for a contact: only staff have a role"),
            DirectoryError::LastAdmin => Self::new(
                Code::InUse,
                "This is the last active administrator who can sign in. Make another user an administrator first. They count once they \
                     have set a password, added a passkey or signed in through an identity provider.",
            ),
            DirectoryError::InUse { found, unseen } => in_use(&found, unseen),
            DirectoryError::TooManyDependents(count) => Self::new(
                Code::InUse,
                format!("{count} records refer to this one. A request can move up to 10,000. Move some of them first."),
            ),
            DirectoryError::MissingScopes(scopes) => {
                let names: Vec<&str> = scopes.iter().map(Scope::name).collect();
                let detail = format!("Moving the records that refer to this one also requires {}.", names.join(", "));
                Self::new(Code::InsufficientScope, detail).with("required_scopes", names)
            }
            DirectoryError::CannotMove(what) => Self::new(Code::InUse, format!("A record cannot be moved to the target: {what}.")),
            DirectoryError::UnknownTarget => {
                let message = "must be the ID of another existing record of the same kind";
                Self::invalid(vec![FieldError::parameter("reassign_to", "unknown", message)])
            }
            DirectoryError::InvalidChange(change) => invalid(&change.pointer, change.code, &change.message),
            DirectoryError::OrganizationsOnly => {
                Self::new(Code::InsufficientScope, "A caller restricted to organizations cannot create organizations.")
            }
            DirectoryError::Line { pointer, message } => invalid(pointer, "not_valid", &message),
            DirectoryError::Both(first, second) => {
                let (mut first, second) = (Self::from(*first), Self::from(*second));
                if first.code != Code::ValidationFailed {
                    return first;
                }
                if second.code != Code::ValidationFailed {
                    return second;
                }
                first.errors.extend_from_slice(&second.errors);
                Self::invalid(std::mem::take(&mut first.errors))
            }
            DirectoryError::Stale(stale) => stale.into(),
            DirectoryError::Event(error) => Self::internal(error),
            DirectoryError::Store(error) => error.into(),
        }
    }
}

/// Lists the records that refer to a record.
fn in_use(found: &[(&'static str, u64)], unseen: bool) -> Problem {
    let mut named: Vec<String> =
        found.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    if unseen {
        named.push("records that you cannot read".to_owned());
    }
    let what = if named.is_empty() { "other records".to_owned() } else { named.join(", ") };
    let dependents: Map<String, Value> = found.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
    Problem::new(Code::InUse, format!("The record is in use by {what}. Delete or move these first, or send `reassign_to`."))
        .with("dependents", dependents)
}
