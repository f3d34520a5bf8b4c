//! Tests a provider without a browser: its discovery document, its sign-in page, its keys, and whether it knows our client. The
//! test stores nothing and uses no cache.

use http::StatusCode;

use tenantd_base::vocabulary::vocabulary;

use super::{
    discovery::{Metadata, read_keys, read_metadata, unreachable_provider},
    error::SsoError,
    exchange::{ErrorResponse, ProviderClient, short_error},
    ticket::Ticket,
};

vocabulary! {
    /// The checks of a test: the discovery document with its issuer and URLs, the sign-in page, the keys for ID tokens, and the
    /// client id with its secret.
    TrialName:
    Discovery "discovery", SignInPage "sign_in_page", Keys "keys", Client "client",
}

vocabulary! {
    /// `skipped` is a check that could not be run.
    TrialStatus:
    Passed "passed", Failed "failed", Skipped "skipped",
}

/// One check with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrialCheck {
    pub(super) name: TrialName,
    pub(super) status: TrialStatus,
    pub(super) message: String,
}

const MAX_MESSAGE: usize = 300;
/// A code that no provider has issued.
const NO_CODE: &str = "tenantd-test";

impl TrialCheck {
    fn new(name: TrialName, status: TrialStatus, message: &str) -> Self {
        Self { name, status, message: message.chars().take(MAX_MESSAGE).collect() }
    }

    fn of<T>(name: TrialName, outcome: &Result<T, SsoError>, passed: &str) -> Self {
        match outcome {
            Ok(_) => Self::new(name, TrialStatus::Passed, passed),
            Err(error) => Self::new(name, TrialStatus::Failed, &error.to_string()),
        }
    }
}

/// Tests the provider. `ticket` belongs to a sign-on that is never continued.
pub(super) async fn test(client: &ProviderClient<'_>, ticket: &Ticket) -> Vec<TrialCheck> {
    let found = read_metadata(&client.transport, &client.provider.issuer).await;
    let mut checks = vec![TrialCheck::of(TrialName::Discovery, &found, "the discovery document has this issuer and valid URLs")];
    let Ok(metadata) = found else {
        let skipped =
            |name| TrialCheck::new(name, TrialStatus::Skipped, "not checked, because the discovery document cannot be used");
        checks.extend([TrialName::SignInPage, TrialName::Keys, TrialName::Client].map(skipped));
        return checks;
    };
    let page = client.transport.get(&metadata.authorization_endpoint, None).await.map_err(unreachable_provider);
    checks.push(TrialCheck::of(TrialName::SignInPage, &page, "the server of the sign-in page responds"));
    let keys = read_keys(&client.transport, &metadata).await;
    let keys = keys.and_then(|keys| if keys.is_empty() { Err(no_keys()) } else { Ok(()) });
    checks.push(TrialCheck::of(TrialName::Keys, &keys, "the provider has keys that can verify ID tokens"));
    checks.push(test_client(client, &metadata, ticket).await);
    checks
}

fn no_keys() -> SsoError {
    SsoError::ProviderError("the key set contains no key that can verify ID tokens".to_owned())
}

/// For an unknown code, the provider returns `invalid_grant` if the client is valid, and a different error if it is not.
async fn test_client(client: &ProviderClient<'_>, metadata: &Metadata, ticket: &Ticket) -> TrialCheck {
    let (form, authorization) = client.code_form(metadata, NO_CODE, ticket);
    let check = |status, message: &str| TrialCheck::new(TrialName::Client, status, message);
    let answer = match client.transport.post(&metadata.token_endpoint, authorization.as_ref(), form).await {
        Ok(answer) => answer,
        Err(error) => return check(TrialStatus::Failed, &unreachable_provider(error).to_string()),
    };
    let word = serde_json::from_slice(&answer.body).map(|ErrorResponse { error }| short_error(&error)).unwrap_or_default();
    match word.as_str() {
        "invalid_grant" => check(TrialStatus::Passed, "the provider knows the client and its secret"),
        "invalid_client" | "unauthorized_client" => {
            check(TrialStatus::Failed, &format!("the provider refuses the client: {word}. Check client_id and client_secret."))
        }
        _ if answer.status == StatusCode::UNAUTHORIZED => {
            check(TrialStatus::Failed, "the provider refuses the client. Check client_id and client_secret.")
        }
        "" => check(TrialStatus::Skipped, &format!("the token endpoint returned {} without an error code", answer.status)),
        word => check(
            TrialStatus::Skipped,
            &format!("the token endpoint returned {word}, which does not show whether the client is valid"),
        ),
    }
}
