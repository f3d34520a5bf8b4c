//! The examples in the OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    sign_on::{BeginSignOn, SignOnBegun},
    wire::{CreateIdentityProvider, IdentityProvider, UpdateIdentityProvider},
};

examples! {
    IdentityProvider => "identity_provider.json",
    CreateIdentityProvider => "create_identity_provider.json",
    UpdateIdentityProvider => "update_identity_provider.json",
    BeginSignOn => "begin_sign_on.json",
    SignOnBegun => "sign_on_begun.json",
}
