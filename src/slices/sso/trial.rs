//! Tests a provider without a browser: what it says of itself, whether it can be reached, its keys, and whether it knows our client. Nothing
//! is kept, and nothing comes from memory.

use http::StatusCode;

use tenantd_base::vocabulary::vocabulary;

use super::{
    discovery::{Metadata, read_keys, read_metadata, unreachable_provider},
    error::SsoError,
    exchange::{Refusal, Relation, provider_word},
    ticket::Ticket,
};

vocabulary! {
    /// What is tested: the discovery document with its issuer and addresses, the page where people sign in, the keys for ID tokens, and
    /// the client id with its secret.
    TrialName:
    Discovery "discovery", SignInPage "sign_in_page", Keys "keys", Client "client",
}

vocabulary! {
    /// `skipped` is a check that could not be made.
    TrialStatus:
    Passed "passed", Failed "failed", Skipped "skipped",
}

/// One check, and what was found.
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

/// Tests the provider. `ticket` is that of a sign-on that nobody takes up.
pub(super) async fn test(relation: &Relation<'_>, ticket: &Ticket) -> Vec<TrialCheck> {
    let found = read_metadata(&relation.transport, &relation.provider.issuer).await;
    let mut checks =
        vec![TrialCheck::of(TrialName::Discovery, &found, "the discovery document names this issuer and usable addresses")];
    let Ok(metadata) = found else {
        let skipped = |name| TrialCheck::new(name, TrialStatus::Skipped, "the discovery document cannot be used");
        checks.extend([TrialName::SignInPage, TrialName::Keys, TrialName::Client].map(skipped));
        return checks;
    };
    let page = relation.transport.get(&metadata.authorization_endpoint, None).await.map_err(unreachable_provider);
    checks.push(TrialCheck::of(TrialName::SignInPage, &page, "the server of the sign-in page answers"));
    let keys = read_keys(&relation.transport, &metadata).await;
    let keys = keys.and_then(|keys| if keys.is_empty() { Err(no_keys()) } else { Ok(()) });
    checks.push(TrialCheck::of(TrialName::Keys, &keys, "the provider has keys that ID tokens can be checked with"));
    checks.push(test_client(relation, &metadata, ticket).await);
    checks
}

fn no_keys() -> SsoError {
    SsoError::ProviderError("its key set has no key that an ID token can be checked with".to_owned())
}

/// A code that was never issued is refused with `invalid_grant` if the client is right, and with another word if it is not.
async fn test_client(relation: &Relation<'_>, metadata: &Metadata, ticket: &Ticket) -> TrialCheck {
    let (form, authorization) = relation.code_form(metadata, NO_CODE, ticket);
    let check = |status, message: &str| TrialCheck::new(TrialName::Client, status, message);
    let answer = match relation.transport.post(&metadata.token_endpoint, authorization.as_ref(), form).await {
        Ok(answer) => answer,
        Err(error) => return check(TrialStatus::Failed, &unreachable_provider(error).to_string()),
    };
    let word = serde_json::from_slice(&answer.body).map(|Refusal { error }| provider_word(&error)).unwrap_or_default();
    match word.as_str() {
        "invalid_grant" => check(TrialStatus::Passed, "the provider knows the client and its secret"),
        "invalid_client" | "unauthorized_client" => {
            check(TrialStatus::Failed, &format!("the provider refuses the client: {word}. Check client_id and client_secret."))
        }
        _ if answer.status == StatusCode::UNAUTHORIZED => {
            check(TrialStatus::Failed, "the provider refuses the client. Check client_id and client_secret.")
        }
        "" => check(TrialStatus::Skipped, &format!("the token endpoint answers {} without a reason", answer.status)),
        word => check(TrialStatus::Skipped, &format!("the token endpoint answers {word}, which says nothing about the client")),
    }
}
