//! Identity providers and their domains. Rules only: no store, no clock, no network.
//!
//! **Invariant:** a [`Domain`] is in its normal form. It works for a provider only after it was proven to belong to the tenant, and
//! then for no other provider.

mod rules;

use data_encoding::HEXLOWER;
use url::Host;

use tenantd_base::{
    access::{Role, StaffRole, TenantKind},
    clock::Timestamp,
    entropy::Entropy,
    id::{IdentityProviderId, TenantId},
    secrets::Sealed,
    vocabulary::vocabulary,
};
use tenantd_egress::{SecretTarget, TargetUrl, UrlProblem};

pub(super) use rules::{Enforcement, MAX_NAME, RoleMapping, Rules, RulesChange, Unmapped, password_access};

pub(super) const MAX_PROVIDERS: usize = 20;
/// The limit on the domains of one provider, as in the API.
pub(super) const MAX_DOMAINS: usize = 50;
const MAX_DOMAIN: usize = 253;
const MAX_LABEL: usize = 63;
/// The scopes that tenantd needs. Every OpenID provider supports them.
pub(super) const DEFAULT_SCOPES: [&str; 3] = ["openid", "email", "profile"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct IdentityProvider {
    pub(super) id: IdentityProviderId,
    pub(super) tenant_id: TenantId,
    pub(super) name: String,
    /// Exactly as the provider writes it, because issuers are compared as strings.
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Sealed,
    pub(super) domains: Vec<Claim>,
    pub(super) enabled: bool,
    /// The role of users that are created at their first sign-in.
    pub(super) default_role: Role,
    /// Whether a user is created for an unknown person who signs in.
    pub(super) auto_provision: bool,
    pub(super) scopes: Vec<String>,
    pub(super) rules: Rules,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: u64,
}

/// The target that a client secret is bound to. The server of the issuer chooses the endpoint that receives the secret.
pub(super) fn secret_target(issuer: &str) -> SecretTarget {
    SecretTarget::default().url("issuer", Some(issuer))
}

impl IdentityProvider {
    /// The claim to a domain.
    pub(super) fn claim(&self, domain: &Domain) -> Option<&Claim> {
        self.domains.iter().find(|claim| claim.domain == *domain)
    }

    pub(super) fn has_proven_domain(&self) -> bool {
        self.domains.iter().any(|claim| claim.proof.is_some())
    }

    /// Whether people with an address of the domain may sign in through the provider.
    pub(super) fn answers_for(&self, domain: &Domain) -> bool {
        self.claim(domain).is_some_and(|claim| claim.proof.is_some())
    }
}

/// A provider's claim to a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) domain: Domain,
    /// The token that the tenant publishes in DNS. It is random and unique to the claim.
    pub(super) token: String,
    pub(super) proof: Option<Proof>,
}

/// How and when the tenant proved a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Proof {
    pub(super) by: ProvenBy,
    pub(super) at: Timestamp,
}

vocabulary! {
    /// How a domain was proven: by the token in DNS, by the operator's approval, as a reserved domain in an evaluation tenant, or
    /// because it was in use before proofs were required. The store contains the position of a word in this list.
    ProvenBy:
    Dns "dns", Operator "operator", Reserved "reserved", Before "before",
}

/// The outcomes of the last sign-ons through a provider, for its administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct SignOnHistory {
    pub(super) last_success_at: Option<Timestamp>,
    pub(super) last_failure: Option<SignOnFailure>,
    pub(super) last_test: Option<TestSignIn>,
}

/// The reason why a sign-on failed. It contains no token and no secret.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct SignOnFailure {
    pub(super) at: Timestamp,
    /// The name of a `RefusalReason`.
    pub(super) reason: String,
    /// Details beyond the reason, such as the provider's error code.
    pub(super) cause: Option<String>,
}

impl SignOnFailure {
    const MAX_CAUSE: usize = 300;

    pub(super) fn new(at: Timestamp, reason: &str, cause: Option<&str>) -> Self {
        let cause = cause.map(|cause| cause.chars().take(Self::MAX_CAUSE).collect());
        Self { at, reason: reason.to_owned(), cause }
    }
}

/// A test sign-in, which signs nobody in.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct TestSignIn {
    pub(super) at: Timestamp,
    /// Absent if the person would have been signed in.
    pub(super) failure: Option<SignOnFailure>,
    /// The address that the provider verified.
    pub(super) email: Option<String>,
    /// Whether a user would have been created.
    pub(super) creates_user: bool,
    /// The role that the person would have had. `None` if the test failed, and for tests of older releases.
    #[serde(default)]
    pub(super) role: Option<StaffRole>,
}

/// The label of the TXT record below the domain, and the prefix of its value.
const RECORD_LABEL: &str = "_tenantd";
const RECORD_PREFIX: &str = "tenantd-domain-verification=";
const TOKEN_BYTES: usize = 16;
/// Reserved top-level domains, which nobody owns (RFC 6761).
const RESERVED_DOMAINS: [&str; 4] = [".example", ".test", ".invalid", ".localhost"];

impl Claim {
    /// An unproven claim.
    pub(super) fn open(domain: Domain, entropy: &mut Entropy) -> Self {
        Self { domain, token: HEXLOWER.encode(&entropy.bytes::<TOKEN_BYTES>()), proof: None }
    }

    /// A new claim of a tenant. In an evaluation tenant, reserved domains need no proof.
    pub(super) fn new(domain: Domain, kind: TenantKind, now: Timestamp, entropy: &mut Entropy) -> Self {
        let is_reserved = RESERVED_DOMAINS.iter().any(|ending| domain.as_str().ends_with(ending));
        let is_trial = kind == TenantKind::Evaluation && is_reserved;
        Self { proof: is_trial.then_some(Proof { by: ProvenBy::Reserved, at: now }), ..Self::open(domain, entropy) }
    }

    /// The name of the TXT record.
    pub(super) fn record_name(&self) -> String {
        format!("{RECORD_LABEL}.{}", self.domain.as_str())
    }

    pub(super) fn record_value(&self) -> String {
        format!("{RECORD_PREFIX}{}", self.token)
    }

    /// Whether these TXT records prove the claim.
    pub(super) fn is_proven_by(&self, texts: &[String]) -> bool {
        !self.token.is_empty() && texts.iter().any(|text| text.trim() == self.record_value())
    }
}

/// A domain of e-mail addresses: ASCII, in lower case, without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) struct Domain(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainProblem {
    #[error("must be a domain without the part before the @")]
    Address {
        /// The domain that was probably meant.
        domain: String,
    },
    #[error("must be a valid domain, such as example.com")]
    NoDomain,
}

impl Domain {
    pub(super) fn parse(text: &str) -> Result<Self, DomainProblem> {
        if let Some((_, domain)) = text.rsplit_once('@') {
            return Err(DomainProblem::Address { domain: domain.to_owned() });
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        // `Host::parse` would decode percent signs, which are not allowed in a domain.
        if text.contains('%') {
            return Err(DomainProblem::NoDomain);
        }
        let Ok(Host::Domain(ascii)) = Host::parse(text) else { return Err(DomainProblem::NoDomain) };
        let is_label = |label: &str| {
            let plain = label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            plain && (1..=MAX_LABEL).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
        };
        let is_domain = ascii.contains('.') && ascii.len() <= MAX_DOMAIN && ascii.split('.').all(is_label);
        if is_domain { Ok(Self(ascii)) } else { Err(DomainProblem::NoDomain) }
    }

    /// The domain of an e-mail address.
    pub(super) fn of_email(email: &str) -> Option<Self> {
        email.rsplit_once('@').and_then(|(_, domain)| Self::parse(domain).ok())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerProblem {
    #[error("{0}")]
    Url(#[from] UrlProblem),
    #[error("must start with https://; http:// is allowed only for a provider on this machine")]
    Plain,
    #[error("must not have a query")]
    Query,
}

/// Parses the URL of a provider, or a URL that the provider names. Tokens and secrets are sent there, so HTTPS is required, except
/// for loopback addresses.
pub(super) fn provider_url(text: &str) -> Result<TargetUrl, IssuerProblem> {
    let target = TargetUrl::parse(text)?;
    let on_this_machine = target.host() == "localhost"
        || target.host().trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if target.is_https() || on_this_machine { Ok(target) } else { Err(IssuerProblem::Plain) }
}

pub(super) fn check_issuer(text: &str) -> Result<TargetUrl, IssuerProblem> {
    if text.contains('?') {
        return Err(IssuerProblem::Query);
    }
    provider_url(text)
}

/// Whether the text is a scope according to RFC 6749.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.len() <= 100 && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Whether the text is a valid login hint. It is passed to the provider unchanged.
pub(super) fn is_login_hint(text: &str) -> bool {
    !text.is_empty() && text.len() <= 254 && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_normalized_and_addresses_are_refused() {
        for (given, form) in [
            ("acme.com", "acme.com"),
            ("ACME.Com.", "acme.com"),
            ("münchen.example", "xn--mnchen-3ya.example"),
            ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
            ("ａｃｍｅ.com", "acme.com"),
        ] {
            assert_eq!(Domain::parse(given).unwrap().as_str(), form, "{given}");
        }
        for bad in [
            "",
            ".",
            "acme",
            "127.0.0.1",
            "[::1]",
            "a b.com",
            "a..com",
            "acme.com..",
            "-a.com",
            "a%2ecom",
            "a.com/x",
            "a_b.com",
            "1.2",
        ] {
            assert_eq!(Domain::parse(bad), Err(DomainProblem::NoDomain), "{bad}");
        }
        assert_eq!(Domain::parse("ada@acme.com"), Err(DomainProblem::Address { domain: "acme.com".to_owned() }));
        assert_eq!(Domain::of_email("ada@Acme.COM").unwrap().as_str(), "acme.com");
    }

    #[test]
    fn only_its_own_record_proves_a_claim() {
        let (mut entropy, at) = (Entropy::from_seed(1), Timestamp::from_millis(0));
        let domain = || Domain::parse("acme.com").unwrap();
        let claim = Claim::new(domain(), TenantKind::Evaluation, at, &mut entropy);
        let other = Claim::new(domain(), TenantKind::Standard, at, &mut entropy);
        assert_eq!((claim.proof, claim.record_name().as_str()), (None, "_tenantd.acme.com"));
        assert!(claim.is_proven_by(&["v=spf1 -all".to_owned(), claim.record_value()]));
        assert!(!claim.is_proven_by(&[other.record_value(), "tenantd-domain-verification=".to_owned()]));
        let before = Claim { token: String::new(), ..claim };
        assert!(!before.is_proven_by(&["tenantd-domain-verification=".to_owned()]));
    }

    #[test]
    fn reserved_domains_need_no_proof_in_evaluation_tenants() {
        let proven = |domain: &str, kind: TenantKind| {
            let claim = Claim::new(Domain::parse(domain).unwrap(), kind, Timestamp::from_millis(0), &mut Entropy::from_seed(1));
            claim.proof.is_some()
        };
        assert!(proven("acme.example", TenantKind::Evaluation) && proven("a.b.test", TenantKind::Evaluation));
        assert!(!proven("acme.example", TenantKind::Standard) && !proven("example.com", TenantKind::Evaluation));
    }

    #[test]
    fn an_issuer_is_secure_or_on_this_machine() {
        for good in [
            "https://id.example.com",
            "https://id.example.com/tenant/v2.0",
            "http://127.0.0.1:4000",
            "http://[::1]:4000",
            "http://localhost:1",
        ] {
            assert!(check_issuer(good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example.com",
            "http://127.0.0.1.evil.example",
            "https://id.example.com?a=b",
            "ftp://x.example",
            "https://a@b.example",
            "id.example.com",
        ] {
            assert!(check_issuer(bad).is_err(), "{bad}");
        }
    }
}
