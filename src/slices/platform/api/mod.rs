//! The HTTP API of tenants and the event feed.

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
            TenantError::SlugTaken(slug) => {
                Self::new(Code::AlreadyExists, format!("The slug {slug} is already in use. Choose a different slug."))
            }
            TenantError::BadSlug(message) => Self::invalid(vec![FieldError::pointer("/slug", "wrong_form", message)]),
            TenantError::SlugNeeded => {
                let message = "required because the name contains no letter from a to z and no digit";
                Self::invalid(vec![FieldError::pointer("/slug", "required", message)])
            }
            TenantError::PlatformTenant => {
                Self::new(Code::InvalidTransition, "The platform tenant cannot be suspended or deleted.")
            }
            TenantError::InvalidSample(field, message) => {
                Self::invalid(vec![FieldError::pointer(format!("/sample/{field}"), "out_of_range", message)])
            }
            TenantError::NoSample => Self::new(Code::InvalidTransition, "Only an evaluation tenant with sample data can be reset."),
            TenantError::FillFailed(reason) => Self::internal(reason),
            TenantError::NotNow(reason) => Self::unavailable(reason, 1),
            TenantError::Busy(status) => Self::new(
                Code::InvalidTransition,
                format!("The tenant has the status {}, which does not allow this operation.", status.name()),
            ),
            TenantError::NotConfirmed { slug } => {
                let message = format!("must be the tenant's slug, {slug}: a deleted tenant cannot be restored");
                Self::invalid(vec![FieldError::new(Place::Parameter("confirm".to_owned()), "wrong_value", message)])
            }
            TenantError::Stale(stale) => stale.into(),
            TenantError::SharedClock(reason) => {
                Self::new(Code::InvalidTransition, format!("The tenant's clock cannot be advanced: {reason}."))
            }
            TenantError::ClockLimit(most) => {
                let days = most.as_secs() / 86_400;
                Self::new(Code::LimitReached, format!("A tenant's clock can be at most {days} days ahead. Advance it by less."))
            }
            TenantError::Event(error) => Self::internal(error),
            TenantError::Store(error) => error.into(),
        }
    }
}
