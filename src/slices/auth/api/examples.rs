//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::wire::{CreateUser, UpdateUser, UserWithToken};

examples! {
    CreateUser => "create_user.json",
    UpdateUser => "update_user.json",
    UserWithToken => "user_with_token.json",
}
