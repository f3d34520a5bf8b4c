//! `/api/admin/identity-providers/{id}/test`: tests a provider before people rely on it.

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
    record::Desk,
    sign_on::{redirect_uri, test_path},
};

word_type! {
    TrialName, "IdentityProviderCheckName", "`discovery`: the discovery document, its issuer and its addresses. `sign_in_page`: the server where people sign in. `keys`: the keys for ID\ntokens. `client`: `client_id` and `client_secret`.";
    TrialStatus, "IdentityProviderCheckStatus", "`skipped` is a check that could not be made.";
}

/// One check of a test.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct IdentityProviderCheck {
    pub(super) name: TrialName,
    pub(super) status: TrialStatus,
    /// What was found.
    pub(super) message: String,
}

impl From<TrialCheck> for IdentityProviderCheck {
    fn from(check: TrialCheck) -> Self {
        Self { name: check.name, status: check.status, message: check.message }
    }
}

/// What a test of an identity provider has found.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct IdentityProviderTest {
    /// Whether no check has failed.
    pub(super) passed: bool,
    pub(super) checks: Vec<IdentityProviderCheck>,
    /// What the provider must allow as the redirect URI of the client.
    pub(super) redirect_uri: String,
    /// Open this in a browser for a test sign-in. It signs nobody in, shows the outcome, and leaves it in `sign_on.last_test` of the provider.
    pub(super) sign_in_url: String,
    /// When the link stops working.
    pub(super) expires_at: Timestamp,
}

pub(crate) struct TrialApi(pub(crate) Desk);

#[OpenApi(prefix_path = "/api/admin/identity-providers", tag = "Area::IdentityProviders")]
impl TrialApi {
    /// Test an identity provider
    ///
    /// Reads the provider's discovery document and keys, reaches its sign-in page, and sends a code that does not exist to its token endpoint:
    /// the answer says whether the provider knows the client and its secret. The provider need not be enabled. Nothing is changed.
    ///
    /// `sign_in_url` begins a test sign-in in a browser, which shows the rest: the redirect URI, the claims, and which user would be signed in.
    /// Your credential must have all scopes of an administrator, from any network. A tenant tests one provider at a time.
    #[oai(path = "/:id/test", method = "post", operation_id = "test_identity_provider")]
    async fn test_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        id: Path<IdentityProviderId>,
    ) -> Result<Answer<IdentityProviderTest>, Problem> {
        Manager::of(&auth.principal).check_every_account().map_err(SsoError::from)?;
        let key = (auth.principal.tenant_id, id.0);
        let desk = &self.0;
        let provider = desk.store.read(|tx| repo::get(tx, key)?.ok_or(SsoError::NotFound))?;
        let _under_way = desk.lookups.begin(key.0).ok_or(SsoError::LookupsBusy)?;
        let now = desk.clock.now();
        let redirect_uri = redirect_uri(&auth.context);
        let issued = desk.sign_on.tickets.issue(key, redirect_uri.clone(), Purpose::Test, now)?;
        let checks = trial::test(&desk.sign_on.relation(&provider, now)?, &issued.ticket).await;
        let (link, expires_at) = desk.sign_on.tickets.issue_test(key, now)?;
        Ok(Answer::new(&IdentityProviderTest {
            passed: checks.iter().all(|check| check.status != TrialStatus::Failed),
            checks: checks.into_iter().map(Into::into).collect(),
            redirect_uri,
            sign_in_url: format!("{}{}", auth.context.base_url, test_path(&link)),
            expires_at,
        }))
    }
}
