//! The protocol for identity providers, and the JSON API for the roles that groups give.

mod discovery;
mod examples;
mod groups;
mod listing;
mod people;
mod projection;
mod protocol;
mod rules;
mod wire;

pub(super) use protocol::Scim;
pub(super) use rules::ProvisioningApi;
pub(super) use wire::{GroupMemberChange, group_fields};

use poem_openapi::Tags;

use tenantd_http::problem::{Code, Problem};

use super::error::{Reason, ScimError};

/// The member of a problem with the reason in the words of RFC 7644.
const SCIM_TYPE: &str = "scim_type";

#[derive(Tags)]
enum Area {
    /// The roles that groups of an identity provider give. The protocol for these groups is SCIM, at `/scim/v2`.
    Provisioning,
}

impl From<ScimError> for Problem {
    fn from(error: ScimError) -> Self {
        match error {
            ScimError::NotFound => Self::plain(Code::NotFound),
            ScimError::Refused { reason, detail } => {
                let code = if reason == Reason::Uniqueness { Code::AlreadyExists } else { Code::MalformedRequest };
                Self::new(code, detail).with(SCIM_TYPE, reason.name())
            }
            ScimError::NotAKey => Self::new(
                Code::InsufficientAuthority,
                "Only an API key of the tenant provisions. Send one with the scope provisioning:write as `Authorization: Bearer …`.",
            ),
            ScimError::NotManaged => Self::new(
                Code::InvalidTransition,
                "Provisioning did not create this account and has not changed it, so it does not remove it. Remove it in the console.",
            ),
            ScimError::TooManyGroups { most } => {
                Self::new(Code::LimitReached, format!("A tenant can have at most {most} groups. Remove a group first."))
            }
            ScimError::Invalid(faults) => faults.into(),
            ScimError::Stale(stale) => stale.into(),
            ScimError::Auth(error) => error.into(),
            ScimError::Event(error) => Self::internal(error),
            ScimError::Store(error) => error.into(),
        }
    }
}
