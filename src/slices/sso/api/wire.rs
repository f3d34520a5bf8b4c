//! The wire types for identity providers. Responses never contain the client secret.

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Role, StaffRole},
    clock::Timestamp,
    fault::Fault,
    id::{IdentityProviderId, TenantId},
    secrets::Secret,
};
use tenantd_http::{context::BaseUrl, shape::Shape, wire::word_type};
use tenantd_store::events::{Describe, Described};

use super::{
    super::{
        error::{self, SsoError},
        model::{self, DEFAULT_SCOPES, Domain, ProvenBy, check_issuer, is_scope},
        service::{NewProvider, ProviderChange},
    },
    addresses,
    rules::{ChangeIdentityProviderRules, IdentityProviderRules},
};

/// The protocol of the provider. `oidc`: OpenID Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum ProviderType {
    Oidc,
}

word_type! {
    ProvenBy, "DomainProof", "How a domain was proven. `dns`: by a DNS record. `operator`: approved by the operator. `reserved`: a reserved domain of an evaluation\ntenant, such as `acme.example`. `before`: in use before domains had to be proven.";
}

/// A domain of an identity provider, and the proof that the tenant owns it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct DomainClaim {
    /// The domain, such as `example.com`.
    pub(super) domain: String,
    /// Whether people with an address of the domain can sign in through the provider.
    pub(super) proven: bool,
    pub(super) proven_by: Option<ProvenBy>,
    /// When the domain was proven. Absent while it is not proven.
    pub(super) proven_at: Option<Timestamp>,
    /// The name of the TXT record to publish. Absent when the domain is proven.
    pub(super) record_name: Option<String>,
    /// The value of the TXT record to publish. Absent when the domain is proven.
    pub(super) record_value: Option<String>,
}

impl DomainClaim {
    fn new(claim: &model::Claim) -> Self {
        let is_open = claim.proof.is_none();
        Self {
            domain: claim.domain.as_str().to_owned(),
            proven: !is_open,
            proven_by: claim.proof.map(|proof| proof.by),
            proven_at: claim.proof.map(|proof| proof.at),
            record_name: is_open.then(|| claim.record_name()),
            record_value: is_open.then(|| claim.record_value()),
        }
    }
}

/// The reason why a sign-on failed.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SignOnFailure {
    pub(super) at: Timestamp,
    /// The reason as in the event `auth.login_failed`, such as `code_refused`.
    pub(super) reason: String,
    /// Details beyond the reason, such as the provider's error code. Absent when there are none. It never contains a token or a
    /// secret.
    pub(super) cause: Option<String>,
}

impl From<model::SignOnFailure> for SignOnFailure {
    fn from(failure: model::SignOnFailure) -> Self {
        Self { at: failure.at, reason: failure.reason, cause: failure.cause }
    }
}

/// The outcome of a test sign-in.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TestSignIn {
    pub(super) at: Timestamp,
    /// Whether the person would have been signed in.
    pub(super) succeeded: bool,
    /// The e-mail address that the provider verified. Absent when the test failed.
    pub(super) email: Option<String>,
    /// Whether a sign-in would have created a user.
    pub(super) creates_user: bool,
    /// The role that the person would have had. Absent when the test failed.
    pub(super) role: Option<StaffRole>,
    pub(super) failure: Option<SignOnFailure>,
}

/// The outcomes of the last sign-ons through a provider.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
#[allow(clippy::struct_field_names, reason = "each is the last of its kind")]
pub(super) struct SignOnHistory {
    /// When a user last signed in through the provider. Absent before the first sign-in.
    pub(super) last_success_at: Option<Timestamp>,
    /// The last refused sign-on, even if later ones succeeded. Absent if none was refused.
    pub(super) last_failure: Option<SignOnFailure>,
    pub(super) last_test: Option<TestSignIn>,
}

impl From<model::SignOnHistory> for SignOnHistory {
    fn from(history: model::SignOnHistory) -> Self {
        let test = |test: model::TestSignIn| TestSignIn {
            at: test.at,
            succeeded: test.failure.is_none(),
            email: test.email,
            creates_user: test.creates_user,
            role: test.role,
            failure: test.failure.map(Into::into),
        };
        Self {
            last_success_at: history.last_success_at,
            last_failure: history.last_failure.map(Into::into),
            last_test: history.last_test.map(test),
        }
    }
}

/// An identity provider, without its client secret.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct IdentityProvider {
    pub(super) id: IdentityProviderId,
    /// The display name.
    pub(super) name: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: ProviderType,
    /// The issuer URL of the provider. The discovery document is below it.
    pub(super) issuer: String,
    /// The client id of tenantd at the provider.
    pub(super) client_id: String,
    /// The domains of e-mail addresses that sign in through the provider.
    pub(super) domains: Vec<String>,
    /// The proof of each domain. Sign-in works only for proven domains. Only one provider of the installation can prove a domain.
    pub(super) domain_claims: Vec<DomainClaim>,
    /// Whether users can sign in through the provider.
    pub(super) enabled: bool,
    /// The role of users that are created at their first sign-in.
    pub(super) default_role: Role,
    /// Whether tenantd creates a user for an unknown person who signs in.
    pub(super) auto_provision: bool,
    /// The scopes that tenantd requests from the provider.
    pub(super) scopes: Vec<String>,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) rules: IdentityProviderRules,
    /// The redirect URI to register at the provider. Absent in events.
    pub(super) redirect_uri: Option<String>,
    /// The address for logout tokens of the provider (OpenID Connect Back-Channel Logout). Absent in events.
    pub(super) backchannel_logout_uri: Option<String>,
    /// The page that the provider shows in a frame when a session ends (OpenID Connect Front-Channel Logout). Absent in events.
    pub(super) frontchannel_logout_uri: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// The version of this record. Every change increments it.
    pub(super) version: u64,
    /// The outcomes of the last sign-ons. Absent before the first sign-on, in responses to changes, and in events. Sign-ons do not
    /// change `version`.
    pub(super) sign_on: Option<SignOnHistory>,
}

impl IdentityProvider {
    /// Adds the addresses of this installation that the provider calls or sends people to.
    pub(super) fn at(mut self, base_url: &BaseUrl, tenant: TenantId) -> Self {
        self.redirect_uri = Some(addresses::redirect(base_url, self.id, self.rules.own_redirect_uri).uri);
        self.backchannel_logout_uri = Some(addresses::backchannel_logout(base_url, tenant, self.id));
        self.frontchannel_logout_uri = Some(addresses::frontchannel_logout(base_url, tenant, self.id));
        self
    }

    pub(super) fn with_history(mut self, history: Option<model::SignOnHistory>) -> Self {
        self.sign_on = history.map(Into::into);
        self
    }
}

impl From<model::IdentityProvider> for IdentityProvider {
    fn from(provider: model::IdentityProvider) -> Self {
        Self {
            id: provider.id,
            name: provider.name,
            kind: ProviderType::Oidc,
            issuer: provider.issuer,
            client_id: provider.client_id,
            domains: provider.domains.iter().map(|claim| claim.domain.as_str().to_owned()).collect(),
            domain_claims: provider.domains.iter().map(DomainClaim::new).collect(),
            enabled: provider.enabled,
            default_role: provider.default_role,
            auto_provision: provider.auto_provision,
            scopes: provider.scopes,
            rules: provider.rules.into(),
            redirect_uri: None,
            backchannel_logout_uri: None,
            frontchannel_logout_uri: None,
            created_at: provider.created_at,
            updated_at: provider.updated_at,
            version: provider.version,
            sign_on: None,
        }
    }
}

impl Describe for model::IdentityProvider {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&IdentityProvider::from(self.clone()))
    }
}

/// The limits on a provider's fields, for a provider that arrives with the import of a tenant.
pub(crate) fn provider_fields() -> Result<Shape, String> {
    Shape::fields::<CreateIdentityProvider>(&["name", "issuer", "client_id", "domains", "scopes"])
}

/// The identity provider to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateIdentityProvider {
    /// The display name.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    /// The protocol. Defaults to `oidc`.
    #[oai(rename = "type")]
    pub(super) kind: Option<ProviderType>,
    /// The issuer URL, exactly as in the provider's discovery document. Must use HTTPS, except for a provider on this machine.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) issuer: String,
    /// The client id of tenantd at the provider.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) client_id: String,
    /// The client secret of tenantd at the provider. tenantd encrypts it and never returns it.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) client_secret: String,
    /// The domains of e-mail addresses that sign in through the provider, such as `acme.com`.
    #[oai(validator(min_items = 1, max_items = 50))]
    pub(super) domains: Vec<String>,
    /// Whether users can sign in through the provider. Defaults to `true`.
    pub(super) enabled: Option<bool>,
    /// The role of users that are created at their first sign-in. Defaults to `viewer`.
    pub(super) default_role: Option<Role>,
    /// Whether tenantd creates a user for an unknown person who signs in. Defaults to `false`.
    pub(super) auto_provision: Option<bool>,
    /// The scopes that tenantd requests from the provider. Must contain `openid`. Defaults to `openid`, `email` and `profile`.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) scopes: Option<Vec<String>>,
    #[oai(flatten)]
    pub(super) rules: ChangeIdentityProviderRules,
}

/// The changes to an identity provider. An absent field keeps its value.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateIdentityProvider {
    /// The id of the provider. Not needed if the path or the query names it.
    pub(super) id: Option<IdentityProviderId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    #[oai(rename = "type")]
    pub(super) kind: Option<ProviderType>,
    /// The issuer URL, exactly as in the provider's discovery document.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) issuer: Option<String>,
    /// The client id of tenantd at the provider.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) client_id: Option<String>,
    /// Replaces the stored client secret. When absent, the stored secret is kept. Required when you change the scheme, host or port
    /// of `issuer`.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) client_secret: Option<String>,
    /// The domains of e-mail addresses that sign in through the provider. Replaces the whole list.
    #[oai(validator(min_items = 1, max_items = 50))]
    pub(super) domains: Option<Vec<String>>,
    pub(super) enabled: Option<bool>,
    pub(super) default_role: Option<Role>,
    /// Whether tenantd creates a user for an unknown person who signs in.
    pub(super) auto_provision: Option<bool>,
    /// The scopes that tenantd requests from the provider. Must contain `openid`.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) scopes: Option<Vec<String>>,
    #[oai(flatten)]
    pub(super) rules: ChangeIdentityProviderRules,
}

impl UpdateIdentityProvider {
    /// Whether the request disables the provider and changes nothing else.
    pub(super) fn only_disables(&self) -> bool {
        let Self {
            id: _,
            name,
            kind,
            issuer,
            client_id,
            client_secret,
            domains,
            enabled,
            default_role,
            auto_provision,
            scopes,
            rules,
        } = self;
        let keeps_texts = name.is_none() && issuer.is_none() && client_id.is_none() && client_secret.is_none();
        let keeps_rules = kind.is_none() && domains.is_none() && default_role.is_none() && auto_provision.is_none();
        *enabled == Some(false) && keeps_texts && keeps_rules && scopes.is_none() && rules.is_empty()
    }
}

/// The identity provider to delete.
#[derive(Debug, Object)]
pub(super) struct DeleteIdentityProvider {
    /// The id of the provider. Not needed if the query names it.
    pub(super) id: Option<IdentityProviderId>,
}

/// Collects all faults of the input.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn issuer(&mut self, issuer: &str) {
        self.0.extend(check_issuer(issuer).err().map(error::bad_issuer));
    }

    fn domains(&mut self, texts: &[String]) -> Vec<Domain> {
        let mut domains = Vec::new();
        for (place, text) in texts.iter().enumerate() {
            match Domain::parse(text) {
                Ok(domain) if domains.contains(&domain) => {}
                Ok(domain) => domains.push(domain),
                Err(problem) => self.0.push(error::bad_domain(Some(place), problem)),
            }
        }
        domains
    }

    fn scopes(&mut self, scopes: &[String]) {
        let odd = scopes.iter().enumerate().filter(|(_, scope)| !is_scope(scope));
        self.0.extend(odd.map(|(place, _)| error::bad_scope(place)));
        if !scopes.iter().any(|scope| scope == "openid") {
            self.0.push(error::no_openid_scope());
        }
    }

    fn none(self) -> Result<(), SsoError> {
        if self.0.is_empty() { Ok(()) } else { Err(SsoError::Invalid(self.0)) }
    }
}

impl From<CreateIdentityProvider> for NewProvider {
    fn from(body: CreateIdentityProvider) -> Self {
        let mut faults = Faults::default();
        faults.issuer(&body.issuer);
        let domains = faults.domains(&body.domains);
        let scopes = body.scopes.unwrap_or_else(|| DEFAULT_SCOPES.map(str::to_owned).to_vec());
        faults.scopes(&scopes);
        Self {
            name: body.name,
            issuer: body.issuer,
            client_id: body.client_id,
            client_secret: Secret::new(body.client_secret),
            domains,
            enabled: body.enabled.unwrap_or(true),
            default_role: body.default_role.unwrap_or(Role::Viewer),
            auto_provision: body.auto_provision.unwrap_or(false),
            scopes,
            rules: body.rules.into(),
            faults: faults.0,
        }
    }
}

impl TryFrom<UpdateIdentityProvider> for ProviderChange {
    type Error = SsoError;

    fn try_from(body: UpdateIdentityProvider) -> Result<Self, SsoError> {
        let mut faults = Faults::default();
        body.issuer.iter().for_each(|issuer| faults.issuer(issuer));
        let domains = body.domains.as_deref().map(|domains| faults.domains(domains));
        body.scopes.iter().for_each(|scopes| faults.scopes(scopes));
        faults.none()?;
        Ok(Self {
            name: body.name,
            issuer: body.issuer,
            client_id: body.client_id,
            client_secret: body.client_secret.map(Secret::new),
            domains,
            enabled: body.enabled,
            default_role: body.default_role,
            auto_provision: body.auto_provision,
            scopes: body.scopes,
            rules: body.rules.into(),
        })
    }
}
