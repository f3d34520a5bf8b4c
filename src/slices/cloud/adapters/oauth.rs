//! The OAuth 2.0 token endpoint: sends a grant as a form and returns a token or an error.

use std::time::Duration;

use serde::Deserialize;

use tenantd_base::secrets::Secret;

use super::{
    super::model::Failure,
    Access,
    client::{Call, Reply},
};

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: u64,
}

/// The error response of a token endpoint.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorResponse {
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) error_description: String,
}

/// Requests a token. Returns it with its lifetime.
pub(super) async fn grant(
    access: &Access,
    url: String,
    form: &[(&str, &str)],
    failure: fn(&Reply) -> Failure,
) -> Result<(Secret, Duration), Failure> {
    let mut call = Call::post(url).form(form);
    // An additional token does no harm.
    call.repeatable = true;
    let reply = access.client.send(call).await?;
    if !reply.is_success() {
        return Err(failure(&reply));
    }
    let TokenResponse { access_token, expires_in } = reply.json()?;
    Ok((Secret::new(access_token), Duration::from_secs(expires_in)))
}
