//! Tenants and the event feed on the wire.

mod events;
mod key_rotation;
mod maintenance;
mod support;
mod tenants;

pub(super) use events::{EventsApi, event_schemas};
pub(super) use key_rotation::KeyRotationApi;
pub(super) use maintenance::MaintenanceApi;
pub(super) use support::SupportApi;
pub(super) use tenants::{TenantsApi, describe};

use super::error::TenantError;
use crate::kernel::http::problem::{Code, FieldError, Problem};

impl From<TenantError> for Problem {
    fn from(error: TenantError) -> Self {
        match error {
            TenantError::NotFound => Self::plain(Code::NotFound),
            TenantError::SlugTaken(slug) => Self::new(Code::AlreadyExists, format!("The slug {slug} is taken; choose another.")),
            TenantError::BadSlug(message) => Self::invalid(vec![FieldError::pointer("/slug", "wrong_form", message)]),
            TenantError::SlugNeeded => {
                let message = "the name has no letter from a to z and no digit to make a slug from: give a slug";
                Self::invalid(vec![FieldError::pointer("/slug", "required", message)])
            }
            TenantError::PlatformTenant => Self::new(Code::InvalidTransition, "The platform's own tenant cannot be suspended."),
            TenantError::Event(error) => Self::internal(error),
            TenantError::Store(error) => error.into(),
        }
    }
}
