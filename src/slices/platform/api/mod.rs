//! Tenants and the event feed on the wire.

mod evaluations;
mod events;
mod key_rotation;
mod maintenance;
mod support;
mod tenants;

pub(super) use evaluations::EvaluationsApi;
pub(super) use events::{ENVELOPE, EventsApi, data_schema, event_schemas};
pub(super) use key_rotation::KeyRotationApi;
pub(super) use maintenance::MaintenanceApi;
pub(super) use support::SupportApi;
pub(super) use tenants::{TenantsApi, tenant_fields};

use tenantd_http::problem::{Code, FieldError, Place, Problem};

use super::error::TenantError;

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
            TenantError::PlatformTenant => {
                Self::new(Code::InvalidTransition, "The platform's own tenant cannot be suspended or deleted.")
            }
            TenantError::BadStory(field, message) => {
                Self::invalid(vec![FieldError::pointer(format!("/sample/{field}"), "out_of_range", message)])
            }
            TenantError::NoStory => Self::new(Code::InvalidTransition, "Only an evaluation tenant with a sample can be reset."),
            TenantError::Filling(reason) => Self::internal(reason),
            TenantError::Busy(status) => Self::new(Code::InvalidTransition, format!("The tenant is {}.", status.name())),
            TenantError::NotConfirmed { slug } => {
                let message = format!("deleting is for good: repeat the tenant's slug, {slug}");
                Self::invalid(vec![FieldError::new(Place::Parameter("confirm".to_owned()), "wrong_value", message)])
            }
            TenantError::Stale(stale) => stale.into(),
            TenantError::SharedClock(reason) => {
                Self::new(Code::InvalidTransition, format!("The tenant's clock cannot be advanced: {reason}."))
            }
            TenantError::ClockLimit(most) => {
                let days = most.as_secs() / 86_400;
                Self::new(Code::LimitReached, format!("The tenant's clock would be more than {days} days ahead."))
            }
            TenantError::Event(error) => Self::internal(error),
            TenantError::Store(error) => error.into(),
        }
    }
}
