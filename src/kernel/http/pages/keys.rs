//! `/documentation/keys/`: the public keys that signatures of this installation are checked with. As JSON it is a JSON Web Key Set.

use data_encoding::BASE64URL_NOPAD;
use http::StatusCode;
use poem::Response;
use serde_json::{Value, json};

use tenantd_base::secrets::PublicKey;

use super::{html, json_response, layout::Html};

fn web_key(purpose: &str, key: &PublicKey) -> Value {
    json!({
        "kty": "OKP",
        "crv": "Ed25519",
        "x": BASE64URL_NOPAD.encode(key.as_bytes()),
        "kid": key.key_id(),
        "use": "sig",
        "alg": "EdDSA",
        "purpose": purpose,
    })
}

pub(super) fn page(keys: &[(&'static str, PublicKey)], as_json: bool) -> Response {
    if as_json {
        let keys: Vec<Value> = keys.iter().map(|(purpose, key)| web_key(purpose, key)).collect();
        return json_response(StatusCode::OK, &json!({"keys": keys}));
    }
    let mut page = Html::new("Signing keys");
    page.paragraph("What this installation signs can be checked by anybody with the public key for its purpose: Ed25519, here in hexadecimal digits. Ask for this page with Accept: application/json to have the keys as a JSON Web Key Set.");
    page.table(
        &["for", "key id", "public key"],
        keys.iter().map(|(purpose, key)| vec![(*purpose).to_owned(), key.key_id(), key.to_string()]),
    );
    html(page.finish())
}
