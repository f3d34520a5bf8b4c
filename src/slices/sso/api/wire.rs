//! Identity providers as clients see and send them. The client secret goes in and never comes out.

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{access::Role, clock::Timestamp, fault::Fault, id::IdentityProviderId, secrets::Secret};
use tenantd_http::{shape::Shape, wire::word_type};
use tenantd_store::events::{Describe, Described};

use super::super::{
    error::{self, SsoError},
    model::{self, DEFAULT_SCOPES, Domain, ProvenBy, check_issuer, is_scope},
    service::{NewProvider, ProviderChange},
};

/// The protocol that the provider speaks: OpenID Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum ProviderType {
    Oidc,
}

word_type! {
    ProvenBy, "DomainProof", "How a domain was proven: by a record in DNS, by the operator, as a reserved domain of an evaluation tenant (such as `acme.example`), or\nbecause it was in use before domains had to be proven.";
}

/// A domain of an identity provider, and what proves that it is the tenant's.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct DomainClaim {
    /// The domain, such as `example.com`.
    pub(super) domain: String,
    /// Whether people with an address of the domain can sign in through the provider.
    pub(super) proven: bool,
    pub(super) proven_by: Option<ProvenBy>,
    /// When the tenant proved that the domain is its own.
    pub(super) proven_at: Option<Timestamp>,
    /// While it is not proven: the name of the TXT record to publish.
    pub(super) record_name: Option<String>,
    /// While it is not proven: the value of that record.
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

/// Why a sign-on failed.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SignOnFailure {
    pub(super) at: Timestamp,
    /// As in the event `auth.login_failed`, such as `code_refused`.
    pub(super) reason: String,
    /// What is known beyond the reason, such as the provider's own word for it. It never holds a token or a secret.
    pub(super) cause: Option<String>,
}

impl From<model::SignOnFailure> for SignOnFailure {
    fn from(failure: model::SignOnFailure) -> Self {
        Self { at: failure.at, reason: failure.reason, cause: failure.cause }
    }
}

/// A test sign-in.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct TestSignIn {
    pub(super) at: Timestamp,
    /// Whether the person would have been signed in.
    pub(super) succeeded: bool,
    /// Whom the provider vouched for.
    pub(super) email: Option<String>,
    /// Whether a user would have been created.
    pub(super) creates_user: bool,
    pub(super) failure: Option<SignOnFailure>,
}

/// What became of the last sign-ons through a provider.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
#[allow(clippy::struct_field_names, reason = "each is the last of its kind")]
pub(super) struct SignOnHistory {
    /// When somebody last signed in through the provider.
    pub(super) last_success_at: Option<Timestamp>,
    /// The last sign-on that was refused, also if later ones went well.
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
    /// A label for people.
    pub(super) name: String,
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    pub(super) kind: ProviderType,
    /// The provider's own address, which its discovery document is under.
    pub(super) issuer: String,
    /// What tenantd is called at the provider.
    pub(super) client_id: String,
    /// The domains of e-mail addresses that it is to answer for.
    pub(super) domains: Vec<String>,
    /// How far each domain is proven. Only proven domains count, and each for one provider on the installation.
    pub(super) domain_claims: Vec<DomainClaim>,
    /// Nobody signs in through a disabled one.
    pub(super) enabled: bool,
    /// What people may do who become users by signing in.
    pub(super) default_role: Role,
    /// Whether people who are not known yet become users by signing in.
    pub(super) auto_provision: bool,
    /// What is asked of the provider.
    pub(super) scopes: Vec<String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record.
    pub(super) version: u64,
    /// What became of the last sign-ons. Absent before the first, and in answers to changes and in events. It does not change `version`.
    pub(super) sign_on: Option<SignOnHistory>,
}

impl IdentityProvider {
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

/// The bounds of a provider's fields, for one that comes with a whole tenant.
pub(crate) fn provider_fields() -> Result<Shape, String> {
    Shape::fields::<CreateIdentityProvider>(&["name", "issuer", "client_id", "domains", "scopes"])
}

/// An identity provider to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateIdentityProvider {
    /// A label for people.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    /// `oidc` when absent.
    #[oai(rename = "type")]
    pub(super) kind: Option<ProviderType>,
    /// The provider's own address, exactly as its discovery document writes it. HTTPS, but for a provider on this machine.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) issuer: String,
    /// What tenantd is called at the provider.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) client_id: String,
    /// What tenantd proves itself with at the provider. It is kept encrypted and never shown.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) client_secret: String,
    /// The domains of e-mail addresses that it answers for, such as `acme.com`.
    #[oai(validator(min_items = 1, max_items = 50))]
    pub(super) domains: Vec<String>,
    /// `true` when absent.
    pub(super) enabled: Option<bool>,
    /// What people may do who become users by signing in. `viewer` when absent.
    pub(super) default_role: Option<Role>,
    /// Whether people who are not known yet become users by signing in. `false` when absent.
    pub(super) auto_provision: Option<bool>,
    /// What is asked of the provider: `openid`, `email` and `profile` when absent.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) scopes: Option<Vec<String>>,
}

/// A change of an identity provider. What is absent stays as it is.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateIdentityProvider {
    /// The provider, unless the path or the query names it.
    pub(super) id: Option<IdentityProviderId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    #[oai(rename = "type")]
    pub(super) kind: Option<ProviderType>,
    /// The URL of the issuer.
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub(super) issuer: Option<String>,
    /// The client id at the provider.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) client_id: Option<String>,
    /// Replaces the stored secret, which is kept when this is absent. Required when you change the scheme, host or port of `issuer`.
    #[oai(validator(min_length = 1, max_length = 1000))]
    pub(super) client_secret: Option<String>,
    /// The domains whose people sign in through the provider.
    #[oai(validator(min_items = 1, max_items = 50))]
    pub(super) domains: Option<Vec<String>>,
    pub(super) enabled: Option<bool>,
    pub(super) default_role: Option<Role>,
    /// Whether people get an account when they first sign in.
    pub(super) auto_provision: Option<bool>,
    /// The scopes to ask the provider for.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) scopes: Option<Vec<String>>,
}

/// The provider to delete.
#[derive(Debug, Object)]
pub(super) struct DeleteIdentityProvider {
    /// The provider, unless the query names it.
    pub(super) id: Option<IdentityProviderId>,
}

/// Collects all that is wrong with the input.
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

impl TryFrom<CreateIdentityProvider> for NewProvider {
    type Error = SsoError;

    fn try_from(body: CreateIdentityProvider) -> Result<Self, SsoError> {
        let mut faults = Faults::default();
        faults.issuer(&body.issuer);
        let domains = faults.domains(&body.domains);
        let scopes = body.scopes.unwrap_or_else(|| DEFAULT_SCOPES.map(str::to_owned).to_vec());
        faults.scopes(&scopes);
        faults.none()?;
        Ok(Self {
            name: body.name,
            issuer: body.issuer,
            client_id: body.client_id,
            client_secret: Secret::new(body.client_secret),
            domains,
            enabled: body.enabled.unwrap_or(true),
            default_role: body.default_role.unwrap_or(Role::Viewer),
            auto_provision: body.auto_provision.unwrap_or(false),
            scopes,
        })
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
        })
    }
}
