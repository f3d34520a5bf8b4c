//! The settings of a tenant that its administrators change: identity providers, service levels, and the audit.

mod audit;
mod identity_providers;
mod service_levels;

use super::routes::Route;

/// The overview of the settings.
const SETTINGS: &str = "/settings";

pub(super) const ROUTES: &[Route] = &[
    Route::shows("/settings/identity-providers", "list_identity_providers", |visitor| Box::pin(identity_providers::list(visitor))),
    Route::both(
        "/settings/identity-providers/new",
        "create_identity_provider",
        |visitor| Box::pin(identity_providers::new(visitor)),
        |visitor| Box::pin(identity_providers::create(visitor)),
    ),
    Route::shows("/settings/identity-providers/{id}", "read_identity_provider", |visitor| {
        Box::pin(identity_providers::show(visitor))
    }),
    Route::both(
        "/settings/identity-providers/{id}/edit",
        "update_identity_provider_by_id",
        |visitor| Box::pin(identity_providers::edit(visitor)),
        |visitor| Box::pin(identity_providers::change(visitor)),
    ),
    Route::acts("/settings/identity-providers/{id}/status", "update_identity_provider_by_id", |visitor| {
        Box::pin(identity_providers::change_status(visitor))
    }),
    Route::acts("/settings/identity-providers/{id}/test", "test_identity_provider", |visitor| {
        Box::pin(identity_providers::test(visitor))
    }),
    Route::acts("/settings/identity-providers/{id}/domains/{domain}/verify", "verify_identity_provider_domain", |visitor| {
        Box::pin(identity_providers::verify(visitor))
    }),
    Route::both(
        "/settings/identity-providers/{id}/delete",
        "delete_identity_provider_by_id",
        |visitor| Box::pin(identity_providers::show_deletion(visitor)),
        |visitor| Box::pin(identity_providers::delete(visitor)),
    ),
    Route::shows("/settings/service-levels", "read_sla", |visitor| Box::pin(service_levels::show(visitor))),
    Route::both(
        "/settings/service-levels/edit",
        "replace_sla",
        |visitor| Box::pin(service_levels::edit(visitor)),
        |visitor| Box::pin(service_levels::change(visitor)),
    ),
    Route::shows("/settings/audit", "list_audit_records", |visitor| Box::pin(audit::list(visitor))),
    Route::shows("/settings/audit/checkpoint", "read_audit_checkpoint", |visitor| Box::pin(audit::checkpoint(visitor))),
];
