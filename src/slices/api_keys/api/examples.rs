//! Examples for the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::wire::{ApiKey, ApiKeyWithSecret, CreateApiKey, CreateOwnKey, RotateApiKey, UpdateApiKey};

examples! {
    ApiKey => "api_key.json",
    ApiKeyWithSecret => "api_key_with_secret.json",
    CreateApiKey => "create_api_key.json",
    CreateOwnKey => "create_own_key.json",
    UpdateApiKey => "update_api_key.json",
    RotateApiKey => "rotate_api_key.json",
}
