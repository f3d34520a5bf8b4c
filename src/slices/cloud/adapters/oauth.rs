//! The token endpoint of OAuth 2.0, for the kinds that have one: a grant goes out as a form, and a token or a reason comes back.

use std::time::Duration;

use serde::Deserialize;

use tenantd_base::secrets::Secret;

use super::{
    super::model::Failure,
    Access,
    client::{Call, Reply},
};

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: u64,
}

/// Why there is no token.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Refused {
    #[serde(default)]
    pub(super) error: String,
    #[serde(default)]
    pub(super) error_description: String,
}

/// Asks for a token; it comes with the time for which it counts.
pub(super) async fn grant(
    access: &Access,
    url: String,
    form: &[(&str, &str)],
    failure: fn(&Reply) -> Failure,
) -> Result<(Secret, Duration), Failure> {
    let mut call = Call::post(url).form(form);
    // A token more than was needed does no harm.
    call.repeatable = true;
    let reply = access.client.send(call).await?;
    if !reply.is_success() {
        return Err(failure(&reply));
    }
    let Granted { access_token, expires_in } = reply.json()?;
    Ok((Secret::new(access_token), Duration::from_secs(expires_in)))
}
