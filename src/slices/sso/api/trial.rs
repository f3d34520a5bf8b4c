//! `/api/admin/identity-providers/{id}/test`: the test of a provider.

use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;

use tenantd_auth::Manager;
use tenantd_base::{clock::Timestamp, id::IdentityProviderId};
use tenantd_http::{
    need::{Allowed, UsersWrite},
    problem::Problem,
    reply::Answer,
    wire::word_type,
};

use super::{
    super::{
        error::SsoError,
        repo,
        ticket::Purpose,
        trial::{self, TrialCheck, TrialName, TrialStatus},
    },
    Area,
    addresses::redirect,
    record::ApiState,
    sign_on::test_path,
};

word_type! {
    TrialName, "IdentityProviderCheckName", "`discovery`: the discovery document, its issuer and its URLs. `sign_in_page`: the server of the sign-in page. `keys`: the keys for ID\ntokens. `client`: `client_id` and `client_secret`.";
    TrialStatus, "IdentityProviderCheckStatus", "The result of a check. `skipped`: the check could not be run.";
}

/// One check of a test.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct IdentityProviderCheck {
    pub(super) name: TrialName,
    pub(super) status: TrialStatus,
    /// The result in words.
    pub(super) message: String,
}

impl From<TrialCheck> for IdentityProviderCheck {
    fn from(check: TrialCheck) -> Self {
        Self { name: check.name, status: check.status, message: check.message }
    }
}

/// The result of a test of an identity provider.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct IdentityProviderTest {
    /// Whether no check failed.
    pub(super) passed: bool,
    pub(super) checks: Vec<IdentityProviderCheck>,
    /// The redirect URI that you must register for the client at the provider.
    pub(super) redirect_uri: String,
    /// The URL of a test sign-in, to open in a browser. It signs nobody in. It shows the outcome and stores it in
    /// `sign_on.last_test` of the provider.
    pub(super) sign_in_url: String,
    /// When `sign_in_url` expires.
    pub(super) expires_at: Timestamp,
}

pub(crate) struct TrialApi(pub(crate) ApiState);

#[OpenApi(prefix_path = "/api/admin/identity-providers", tag = "Area::IdentityProviders")]
impl TrialApi {
    /// Test an identity provider
    ///
    /// Reads the provider's discovery document and keys, requests its sign-in page, and sends an invalid code to its token
    /// endpoint. The error shows whether the provider knows the client and its secret. The provider may be disabled. The test
    /// changes nothing.
    ///
    /// Open `sign_in_url` in a browser to test the rest: the redirect URI, the claims, and which user would be signed in. Your
    /// credential must have all scopes of an administrator, from any network. A tenant can test one provider at a time.
    #[oai(path = "/:id/test", method = "post", operation_id = "test_identity_provider")]
    async fn test_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        id: Path<IdentityProviderId>,
    ) -> Result<Answer<IdentityProviderTest>, Problem> {
        Manager::of(&auth.principal).check_every_account().map_err(SsoError::from)?;
        let key = (auth.principal.tenant_id, id.0);
        let state = &self.0;
        let provider = state.store.read(|tx| repo::get(tx, key)?.ok_or(SsoError::NotFound))?;
        let _lookup = state.lookups.begin(key.0).ok_or(SsoError::LookupsBusy)?;
        let now = state.clock.now();
        let redirect = redirect(&auth.context.base_url, key.1, provider.rules.own_redirect_uri);
        let redirect_uri = redirect.uri.clone();
        let issued = state.sign_on.tickets.issue(key, redirect, Purpose::Test, now)?;
        let checks = trial::test(&state.sign_on.client(&provider, now)?, &issued.ticket).await;
        let (link, expires_at) = state.sign_on.tickets.issue_test(key, now)?;
        Ok(Answer::new(&IdentityProviderTest {
            passed: checks.iter().all(|check| check.status != TrialStatus::Failed),
            checks: checks.into_iter().map(Into::into).collect(),
            redirect_uri,
            sign_in_url: format!("{}{}", auth.context.base_url, test_path(&link)),
            expires_at,
        }))
    }
}
