//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::wire::{CreateSecret, NamedSecret, RotateSecret, UpdateSecret};

examples! {
    NamedSecret => "named_secret.json",
    CreateSecret => "create_secret.json",
    UpdateSecret => "update_secret.json",
    RotateSecret => "rotate_secret.json",
}
