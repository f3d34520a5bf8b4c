//! Settings: users, API keys, secrets and quotas, and the overview that leads to all areas of the settings.

mod keys;
mod overview;
mod parts;
mod portal;
mod provisioning;
mod quotas;
mod rights;
mod roles;
pub(super) mod scopes;
mod secrets;
mod sign_in;
mod users;

use super::routes::Route;

pub(super) use keys::shown_once;
pub(super) use quotas::{Standings, table as quotas_table};

const PATH: &str = "/settings";

/// The pages of the settings.
pub(super) const ROUTES: &[Route] = &[
    Route::shows(PATH, "read_preferences", |visitor| Box::pin(overview::show(visitor))),
    Route::shows("/settings/quotas", "read_quotas", |visitor| Box::pin(quotas::show(visitor))),
    Route::shows("/settings/users", "list_users", |visitor| Box::pin(users::list(visitor))),
    Route::both(
        "/settings/users/new",
        "create_user",
        |visitor| Box::pin(users::new(visitor)),
        |visitor| Box::pin(users::create(visitor)),
    ),
    Route::shows("/settings/users/{id}", "read_user", |visitor| Box::pin(users::show(visitor))),
    Route::both(
        "/settings/users/{id}/edit",
        "update_user_by_id",
        |visitor| Box::pin(users::edit(visitor)),
        |visitor| Box::pin(users::change(visitor)),
    ),
    Route::acts("/settings/users/{id}/password", "issue_password_token", |visitor| Box::pin(users::issue_password_link(visitor))),
    Route::acts("/settings/users/{id}/sessions/{session_id}/end", "delete_user_session", |visitor| {
        Box::pin(users::end_session(visitor))
    }),
    Route::acts("/settings/users/{id}/sessions", "delete_user_sessions", |visitor| Box::pin(users::end_sessions(visitor))),
    Route::acts("/settings/users/{id}/factors", "delete_user_factors", |visitor| Box::pin(users::reset_factors(visitor))),
    Route::acts("/settings/users/{id}/sso", "unlink_user", |visitor| Box::pin(users::unlink(visitor))),
    Route::both(
        "/settings/users/{id}/delete",
        "delete_user_by_id",
        |visitor| Box::pin(users::show_deletion(visitor)),
        |visitor| Box::pin(users::delete(visitor)),
    ),
    Route::shows("/settings/rights", "list_rights_holders", |visitor| Box::pin(rights::show(visitor))),
    Route::shows("/settings/roles", "list_roles", |visitor| Box::pin(roles::list(visitor))),
    Route::both(
        "/settings/roles/new",
        "create_role",
        |visitor| Box::pin(roles::new(visitor)),
        |visitor| Box::pin(roles::create(visitor)),
    ),
    Route::shows("/settings/roles/{id}", "read_role", |visitor| Box::pin(roles::show(visitor))),
    Route::both(
        "/settings/roles/{id}/edit",
        "update_role",
        |visitor| Box::pin(roles::edit(visitor)),
        |visitor| Box::pin(roles::change(visitor)),
    ),
    Route::both(
        "/settings/roles/{id}/delete",
        "delete_role",
        |visitor| Box::pin(roles::show_deletion(visitor)),
        |visitor| Box::pin(roles::delete(visitor)),
    ),
    Route::shows("/settings/keys", "list_api_keys", |visitor| Box::pin(keys::list(visitor))),
    Route::both(
        "/settings/keys/new",
        "create_api_key",
        |visitor| Box::pin(keys::new(visitor)),
        |visitor| Box::pin(keys::create(visitor)),
    ),
    Route::shows("/settings/keys/{id}", "read_api_key", |visitor| Box::pin(keys::show(visitor))),
    Route::both(
        "/settings/keys/{id}/edit",
        "update_api_key_by_id",
        |visitor| Box::pin(keys::edit(visitor)),
        |visitor| Box::pin(keys::change(visitor)),
    ),
    Route::both(
        "/settings/keys/{id}/rotate",
        "rotate_api_key",
        |visitor| Box::pin(keys::show_rotation(visitor)),
        |visitor| Box::pin(keys::rotate(visitor)),
    ),
    Route::acts("/settings/keys/{id}/status", "update_api_key_by_id", |visitor| Box::pin(keys::change_status(visitor))),
    Route::acts("/settings/keys/{id}/take-over", "take_over_api_key", |visitor| Box::pin(keys::take_over(visitor))),
    Route::both(
        "/settings/keys/{id}/revoke",
        "delete_api_key_by_id",
        |visitor| Box::pin(keys::show_revocation(visitor)),
        |visitor| Box::pin(keys::revoke(visitor)),
    ),
    Route::both(
        "/settings/sign-in",
        "read_sign_in_policy",
        |visitor| Box::pin(sign_in::show(visitor)),
        |visitor| Box::pin(sign_in::change(visitor)),
    ),
    Route::both(
        "/settings/portal",
        "read_portal_settings",
        |visitor| Box::pin(portal::show(visitor)),
        |visitor| Box::pin(portal::change(visitor)),
    ),
    Route::both(
        "/settings/provisioning",
        "read_role_rules",
        |visitor| Box::pin(provisioning::show(visitor)),
        |visitor| Box::pin(provisioning::change(visitor)),
    ),
    Route::shows("/settings/secrets", "list_secrets", |visitor| Box::pin(secrets::list(visitor))),
    Route::both(
        "/settings/secrets/new",
        "create_secret",
        |visitor| Box::pin(secrets::new(visitor)),
        |visitor| Box::pin(secrets::create(visitor)),
    ),
    Route::shows("/settings/secrets/{id}", "read_secret", |visitor| Box::pin(secrets::show(visitor))),
    Route::both(
        "/settings/secrets/{id}/edit",
        "update_secret_by_id",
        |visitor| Box::pin(secrets::edit(visitor)),
        |visitor| Box::pin(secrets::change(visitor)),
    ),
    Route::both(
        "/settings/secrets/{id}/rotate",
        "rotate_secret",
        |visitor| Box::pin(secrets::show_rotation(visitor)),
        |visitor| Box::pin(secrets::rotate(visitor)),
    ),
    Route::both(
        "/settings/secrets/{id}/delete",
        "delete_secret_by_id",
        |visitor| Box::pin(secrets::show_deletion(visitor)),
        |visitor| Box::pin(secrets::delete(visitor)),
    ),
];
