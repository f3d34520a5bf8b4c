//! The public keys that verify the signatures of this installation. As JSON they are a JSON Web Key Set.

use data_encoding::BASE64URL_NOPAD;
use maud::html;
use serde_json::{Value, json};

use tenantd_base::secrets::PublicKey;

use super::{Content, contents};
use crate::components::{code, table};

pub(super) const PATH: &str = "/documentation/keys/";

pub(super) fn content(keys: &[(&'static str, PublicKey)]) -> Content {
    let rows: Vec<_> =
        keys.iter().map(|(purpose, key)| vec![html! { (purpose) }, code(&key.key_id()), code(&key.to_string())]).collect();
    Content::new(
        "Signing keys",
        html! {
            h1 { "Signing keys" }
            p.lead { "Verify what this installation has signed with the public key of its purpose. The keys are Ed25519, in hexadecimal digits." }
            p { "Request this page with " code { "Accept: application/json" } " to get the keys as a JSON Web Key Set." }
            (table("Signing keys", &["purpose", "key id", "public key"], &rows))
        },
    )
    .below(contents::PATH, "Documentation")
}

pub(super) fn json(keys: &[(&'static str, PublicKey)]) -> Value {
    let keys: Vec<Value> = keys
        .iter()
        .map(|(purpose, key)| {
            json!({
                "kty": "OKP",
                "crv": "Ed25519",
                "x": BASE64URL_NOPAD.encode(key.as_bytes()),
                "kid": key.key_id(),
                "use": "sig",
                "alg": "EdDSA",
                "purpose": purpose,
            })
        })
        .collect();
    json!({"keys": keys})
}
