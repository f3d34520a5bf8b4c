//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    factor_wire::{Factor, Factors, UpdateFactor},
    policy::{ReplaceSignInPolicy, SignInPolicy},
    portal::{PortalAccess, PortalSettings, ReplacePortalSettings},
    preferences::{Preferences, UpdatePreferences},
    rights::{Rights, RightsHolder},
    roles::{CreateRole, UpdateRole},
    views::{CreateView, SavedView},
    wire::{CreateUser, UpdateUser, UserWithToken},
};

examples! {
    CreateUser => "create_user.json",
    UpdateUser => "update_user.json",
    CreateRole => "create_role.json",
    UpdateRole => "update_role.json",
    UserWithToken => "user_with_token.json",
    Preferences => "preferences.json",
    UpdatePreferences => "update_preferences.json",
    SavedView => "saved_view.json",
    Factor => "factor.json",
    Factors => "factors.json",
    UpdateFactor => "update_factor.json",
    SignInPolicy => "sign_in_policy.json",
    ReplaceSignInPolicy => "replace_sign_in_policy.json",
    Rights => "rights.json",
    RightsHolder => "rights_holder.json",
    PortalSettings => "portal_settings.json",
    ReplacePortalSettings => "replace_portal_settings.json",
    PortalAccess => "portal_access.json",
    CreateView => "create_view.json",
}
