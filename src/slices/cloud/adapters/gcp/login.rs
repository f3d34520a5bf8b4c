//! The token of a service account: a JWT signed with the account's key, exchanged at the account's token endpoint. Nothing of
//! Compute Engine is here.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use rustls::{
    SignatureScheme,
    crypto::ring::sign::any_supported_type,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use serde::Deserialize;
use serde_json::json;

use tenantd_base::{clock::Timestamp, secrets::Secret};

use super::super::{
    super::model::{Credential, Failure, FailureClass},
    Access, Answer,
    client::Reply,
    oauth::{self, ErrorResponse},
    tokens::{Issued, Token},
    wire::wrong_credential,
};

const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The longest lifetime that Google accepts.
const ASSERTION_SECONDS: i64 = 3600;
/// Google refuses assertions whose time differs by more than this.
const MAX_SKEW: Duration = Duration::from_mins(5);

/// The bearer token for Compute Engine.
#[derive(Debug)]
pub(super) struct AccessToken(pub(super) Secret);

/// The key file of a service account.
#[derive(Deserialize)]
pub(super) struct ServiceAccount {
    pub(super) client_email: String,
    project_id: Option<String>,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

impl ServiceAccount {
    pub(super) fn read(credential: &Credential) -> Result<Self, Failure> {
        let Credential::ServiceAccount { service_account_json, .. } = credential else { return Err(wrong_credential()) };
        serde_json::from_str(service_account_json.expose()).map_err(|error| unusable_account(&format!("at line {}", error.line())))
    }

    fn token_uri(&self) -> &str {
        self.token_uri.as_deref().unwrap_or(TOKEN_URI)
    }

    /// The signed assertion for this account.
    fn assertion(&self, now: Timestamp) -> Result<String, Failure> {
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.private_key_id});
        let issued = now.as_seconds();
        let claims = json!({
            "iss": self.client_email,
            "scope": SCOPE,
            "aud": self.token_uri(),
            "iat": issued,
            "exp": issued + ASSERTION_SECONDS,
        });
        let [header, claims] = [header, claims].map(|part| BASE64URL_NOPAD.encode(part.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        let signature =
            self.sign(message.as_bytes()).ok_or_else(|| unusable_account("private_key is not an RSA key in PEM format"))?;
        Ok(format!("{message}.{}", BASE64URL_NOPAD.encode(&signature)))
    }

    /// Signs with RS256, which is RSA PKCS #1 with SHA-256 in TLS. So the TLS library of the process signs this too.
    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let key = PrivateKeyDer::from_pem_slice(self.private_key.as_bytes()).ok()?;
        let signer = any_supported_type(&key).ok()?.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])?;
        signer.sign(message).ok()
    }
}

/// The project whose machines are managed.
pub(super) fn project(access: &Access) -> Result<String, Failure> {
    let Credential::ServiceAccount { project_id, .. } = &access.credential else { return Err(wrong_credential()) };
    let named = project_id.clone();
    let project = named
        .map_or_else(|| Ok::<_, Failure>(ServiceAccount::read(&access.credential)?.project_id), |project| Ok(Some(project)))?;
    project.ok_or_else(|| unusable_account("project_id is missing in it and in the credential"))
}

fn unusable_account(problem: &str) -> Failure {
    let message = format!("service_account_json is not a valid service account key file: {problem}");
    Failure::new(FailureClass::InvalidCredentials, "bad_service_account", message)
}

impl Token for AccessToken {
    fn issue(access: &Access) -> Answer<'_, Issued<Self>> {
        Box::pin(async move {
            let account = ServiceAccount::read(&access.credential)?;
            let assertion = account.assertion(access.client.now())?;
            let (url, form) = (account.token_uri().to_owned(), [("grant_type", GRANT), ("assertion", assertion.as_str())]);
            let (token, lifetime) = oauth::grant(access, url, &form, failure).await?;
            Ok(Issued { token: Self(token), lifetime })
        })
    }
}

fn failure(reply: &Reply) -> Failure {
    let ErrorResponse { error, error_description } = reply.json().unwrap_or_default();
    let skewed = error_description.contains("reasonable timeframe") || reply.clock_skew().is_some_and(|skew| skew > MAX_SKEW);
    let class = match reply.class() {
        FailureClass::InvalidRequest | FailureClass::InvalidCredentials if skewed => FailureClass::ClockSkew,
        // The form of the request is always the same. So a refusal concerns the account or its key.
        FailureClass::InvalidRequest | FailureClass::NotFound => FailureClass::InvalidCredentials,
        class => class,
    };
    reply.failure(class, &error, &error_description)
}
