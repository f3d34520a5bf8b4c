//! The examples in the OpenAPI document. Each file holds the example of one schema.

use tenantd_http::examples;

use super::wire::{CreateSecret, NamedSecret, RotateSecret, UpdateSecret};

examples! {
    NamedSecret => "named_secret.json",
    CreateSecret => "create_secret.json",
    UpdateSecret => "update_secret.json",
    RotateSecret => "rotate_secret.json",
}
