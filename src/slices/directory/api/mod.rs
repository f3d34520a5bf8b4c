//! Organizations, people and devices on the wire.

mod device;
mod examples;
mod wire;

use std::collections::HashMap;

use http::Method;
use poem::endpoint::BoxEndpoint;
use poem_openapi::{
    OpenApi,
    registry::{MetaApi, Registry},
    types::Type,
};

pub use wire::{OrganizationReference, PersonReference, Role, UserStatus, UserView};

use super::{error::DirectoryError, service::Describe};
use crate::kernel::http::problem::{Code, FieldError, Problem};

pub(super) const DESCRIBE: Describe =
    Describe { organization: wire::describe_organization, user: wire::describe_user, device: device::describe };

/// No operations: the schemas of the records that events carry, for the published document.
pub(super) struct RecordSchemas;

impl OpenApi for RecordSchemas {
    fn meta() -> Vec<MetaApi> {
        Vec::new()
    }

    fn register(registry: &mut Registry) {
        wire::Organization::register(registry);
        device::Device::register(registry);
    }

    fn add_routes(self, _routes: &mut HashMap<String, HashMap<Method, BoxEndpoint<'static>>>) {}
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
            DirectoryError::Stale(stale) => stale.into(),
            DirectoryError::Event(error) => Self::internal(error),
            DirectoryError::Store(error) => error.into(),
        }
    }
}
