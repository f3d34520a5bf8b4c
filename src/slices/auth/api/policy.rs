//! `/api/admin/sign-in-policy`: who needs a second factor, and whether people may have personal API keys.

use poem_openapi::{Object, OpenApi};
use serde::Serialize;
use serde_json::value::to_raw_value;

use tenantd_base::access::StaffRole;
use tenantd_http::{
    input::Lenient,
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Found},
    wire::{Word, word_type},
};
use tenantd_store::{
    Store,
    events::{Describe, Described},
};

use super::{
    super::{
        accounts::Manager,
        factors::{NewPolicy, replace_policy},
        model::{self, PersonalKeys},
        repo::factors::policy_of,
    },
    Area,
};

word_type! {
    stored: PersonalKeys, "PersonalKeys", "Whether people may have personal API keys. `forbidden`: nobody creates one, and those that exist do not work.";
}

/// Who needs a second factor.
#[derive(Debug, Object, Serialize)]
struct SecondFactorPolicy {
    /// The roles whose people need a second factor to sign in.
    #[oai(validator(max_items = 20))]
    required_for: Vec<StaffRole>,
    /// Whether people who sign in through an identity provider need a second factor of tenantd as well. By default, the provider
    /// decides about further factors.
    #[oai(default)]
    with_sso: bool,
}

/// The sign-in policy of a tenant.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct SignInPolicy {
    /// Who needs a second factor.
    second_factor: SecondFactorPolicy,
    /// Whether people may have personal API keys.
    personal_keys: Word<PersonalKeys>,
    /// The version of the policy. It is 0 until somebody changes the policy, and every change increases it by one.
    version: u64,
}

impl From<model::SignInPolicy> for SignInPolicy {
    fn from(policy: model::SignInPolicy) -> Self {
        let model::SignInPolicy { required_for, with_sso, version, personal_keys } = policy;
        Self { second_factor: SecondFactorPolicy { required_for, with_sso }, personal_keys: personal_keys.into(), version }
    }
}

impl Describe for model::SignInPolicy {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&SignInPolicy::from(self.clone()))
    }
}

/// The sign-in policy to set.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ReplaceSignInPolicy {
    /// Who needs a second factor.
    second_factor: SecondFactorPolicy,
    /// Whether people may have personal API keys. Absent: it stays as it is.
    personal_keys: Option<Word<PersonalKeys>>,
}

pub(crate) struct PolicyApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin", tag = "Area::Users")]
impl PolicyApi {
    /// Read the sign-in policy
    ///
    /// Returns who needs a second factor to sign in, and whether people may have personal API keys. By default nobody needs a second
    /// factor, and everyone can add one. By default people may have personal keys.
    #[oai(path = "/sign-in-policy", method = "get", operation_id = "read_sign_in_policy")]
    async fn read_sign_in_policy(
        &self,
        auth: Allowed<UsersRead>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<SignInPolicy>, Problem> {
        let shown = SignInPolicy::from(self.store.read(|tx| policy_of(tx, auth.principal.tenant_id))?);
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Set the sign-in policy
    ///
    /// Sets who needs a second factor. The policy counts from the next request on. A session that lacks a second factor can then only
    /// add one or prove one, and is refused everything else with 403 `second_factor_missing`. Sessions that began with single sign-on
    /// need no further factor unless `with_sso` is true. API keys need none.
    ///
    /// With `personal_keys: forbidden`, nobody can create a personal API key, and requests with existing ones fail with 401
    /// `personal_keys_forbidden`. They work again once they are allowed. Your credential must cover the role of an administrator.
    #[oai(path = "/sign-in-policy", method = "put", operation_id = "replace_sign_in_policy")]
    async fn replace_sign_in_policy(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        if_match: IfMatch,
        body: Lenient<ReplaceSignInPolicy>,
    ) -> Result<Changed<SignInPolicy>, Problem> {
        let (manager, intent) = (Manager::of(&auth.principal), auth.context.guarding_intent(&auth.principal));
        let SecondFactorPolicy { required_for, with_sso } = body.0.second_factor;
        let new = NewPolicy { required_for, with_sso, personal_keys: body.0.personal_keys.map(Into::into) };
        let changed = self.store.write(move |tx| replace_policy(tx, &mut intent.begin(), &manager, &if_match, &new));
        let shown = SignInPolicy::from(changed.await?);
        Ok(Changed::new(&shown, shown.version))
    }
}
