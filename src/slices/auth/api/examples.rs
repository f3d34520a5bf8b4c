//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::wire::{CreateUser, UpdateUser, UserWithToken};

examples! {
    CreateUser => "create_user.json",
    UpdateUser => "update_user.json",
    UserWithToken => "user_with_token.json",
}
