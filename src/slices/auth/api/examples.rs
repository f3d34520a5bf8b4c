//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    preferences::{Preferences, UpdatePreferences},
    views::{CreateView, SavedView},
    wire::{CreateUser, UpdateUser, UserWithToken},
};

examples! {
    CreateUser => "create_user.json",
    UpdateUser => "update_user.json",
    UserWithToken => "user_with_token.json",
    Preferences => "preferences.json",
    UpdatePreferences => "update_preferences.json",
    SavedView => "saved_view.json",
    CreateView => "create_view.json",
}
