//! Identity providers, the domains that they answer for, and where somebody goes after signing in. Rules only: no store, no clock, no network.
//!
//! **Invariant:** a [`Domain`] is in the one form in which domains are compared, and a [`ReturnPath`] leads nowhere but to this site.
//! **Invariant:** a domain counts for a provider only once it is proven to be the tenant's, and then for no other provider.

use data_encoding::HEXLOWER;
use url::{Host, Url};

use tenantd_base::{
    access::{Role, TenantKind},
    clock::Timestamp,
    entropy::Entropy,
    id::{IdentityProviderId, TenantId},
    secrets::Sealed,
    vocabulary::vocabulary,
};
use tenantd_egress::{SecretTarget, TargetUrl, UrlProblem};

pub(super) const MAX_PROVIDERS: usize = 20;
/// Of a provider, as the API takes them.
pub(super) const MAX_DOMAINS: usize = 50;
const MAX_RETURN_PATH: usize = 1000;
const MAX_DOMAIN: usize = 253;
const MAX_LABEL: usize = 63;
/// What every OpenID provider knows, and what we need of it.
pub(super) const DEFAULT_SCOPES: [&str; 3] = ["openid", "email", "profile"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct IdentityProvider {
    pub(super) id: IdentityProviderId,
    pub(super) tenant_id: TenantId,
    pub(super) name: String,
    /// As the provider writes it: issuers are compared letter by letter.
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Sealed,
    pub(super) domains: Vec<Claim>,
    pub(super) enabled: bool,
    /// Of people who come through it for the first time.
    pub(super) default_role: Role,
    /// Whether people who are not known yet become users.
    pub(super) auto_provision: bool,
    pub(super) scopes: Vec<String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) version: u64,
}

/// The target that a client secret belongs to. Whoever serves the issuer names the endpoint that the secret is sent to.
pub(super) fn secret_target(issuer: &str) -> SecretTarget {
    SecretTarget::default().url("issuer", Some(issuer))
}

impl IdentityProvider {
    /// The claim to a domain.
    pub(super) fn claim(&self, domain: &Domain) -> Option<&Claim> {
        self.domains.iter().find(|claim| claim.domain == *domain)
    }

    /// Whether it may speak for addresses of a domain.
    pub(super) fn answers_for(&self, domain: &Domain) -> bool {
        self.claim(domain).is_some_and(|claim| claim.proof.is_some())
    }
}

/// A domain that a provider is to answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) domain: Domain,
    /// What the tenant publishes in DNS. Each claim has its own, which nobody can guess.
    pub(super) token: String,
    pub(super) proof: Option<Proof>,
}

/// How and when a domain was proven to be the tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Proof {
    pub(super) by: ProvenBy,
    pub(super) at: Timestamp,
}

vocabulary! {
    /// How a domain was proven: by the token in DNS, by the operator's word, as a domain for trying things out (which is nobody's) in an
    /// evaluation tenant, or because it was there before domains had to be proven. The place of a word is what is stored.
    ProvenBy:
    Dns "dns", Operator "operator", Reserved "reserved", Before "before",
}

/// What became of the last sign-ons through a provider, for its administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct SignOnHistory {
    pub(super) last_success_at: Option<Timestamp>,
    pub(super) last_failure: Option<SignOnFailure>,
    pub(super) last_test: Option<TestSignIn>,
}

/// Why a sign-on failed. It holds no token and no secret.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct SignOnFailure {
    pub(super) at: Timestamp,
    /// The name of a `RefusalReason`.
    pub(super) reason: String,
    /// What is known beyond the reason, such as the provider's own word.
    pub(super) cause: Option<String>,
}

impl SignOnFailure {
    const MAX_CAUSE: usize = 300;

    pub(super) fn new(at: Timestamp, reason: &str, cause: Option<&str>) -> Self {
        let cause = cause.map(|cause| cause.chars().take(Self::MAX_CAUSE).collect());
        Self { at, reason: reason.to_owned(), cause }
    }
}

/// A sign-in that tests a provider and signs nobody in.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct TestSignIn {
    pub(super) at: Timestamp,
    /// Absent when the person would have been signed in.
    pub(super) failure: Option<SignOnFailure>,
    /// The address that the provider vouched for.
    pub(super) email: Option<String>,
    /// Whether a user would have been created.
    pub(super) creates_user: bool,
}

/// Where the token is published, below the domain, and what stands in front of it.
const RECORD_LABEL: &str = "_tenantd";
const RECORD_FRONT: &str = "tenantd-domain-verification=";
const TOKEN_BYTES: usize = 16;
/// Top-level domains that are nobody's (RFC 6761).
const RESERVED_DOMAINS: [&str; 4] = [".example", ".test", ".invalid", ".localhost"];

impl Claim {
    /// A claim that is still to be proven.
    pub(super) fn open(domain: Domain, entropy: &mut Entropy) -> Self {
        Self { domain, token: HEXLOWER.encode(&entropy.bytes::<TOKEN_BYTES>()), proof: None }
    }

    /// A new claim of a tenant. In an evaluation tenant, domains that belong to nobody need no proof.
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
        format!("{RECORD_FRONT}{}", self.token)
    }

    /// Whether these texts of DNS prove it.
    pub(super) fn is_proven_by(&self, texts: &[String]) -> bool {
        !self.token.is_empty() && texts.iter().any(|text| text.trim() == self.record_value())
    }
}

/// A domain of e-mail addresses: ASCII in lower case, without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) struct Domain(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainProblem {
    #[error("give the domain alone, without the part before the @")]
    Address {
        /// What was probably meant.
        domain: String,
    },
    #[error("this is not a domain such as example.com")]
    NoDomain,
}

impl Domain {
    pub(super) fn parse(text: &str) -> Result<Self, DomainProblem> {
        if let Some((_, domain)) = text.rsplit_once('@') {
            return Err(DomainProblem::Address { domain: domain.to_owned() });
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        // The reader of hosts would decode percent signs, which nobody has in a domain.
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
    #[error("must start with https://; http:// is for a provider on this machine alone")]
    Plain,
    #[error("must not have a query")]
    Query,
}

/// Reads the address of a provider, or one that the provider names. Tokens and secrets go over it, so it is HTTPS; only what does not leave
/// this machine may go without.
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

/// A scope as RFC 6749 allows it.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.len() <= 100 && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// A path of this site, with its query and fragment, in the form in which a browser is sent there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct ReturnPath(String);

impl ReturnPath {
    /// Browsers read `//host`, `/\host` and what becomes either when dots are taken out as other hosts.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let odd = |letter: char| letter == '\\' || letter.is_control() || letter.is_whitespace();
        if !text.starts_with('/') || text.starts_with("//") || text.len() > MAX_RETURN_PATH || text.chars().any(odd) {
            return None;
        }
        let here = Url::parse("https://here.invalid").ok()?;
        let read = here.join(text).ok()?;
        if read.origin() != here.origin() || read.path().starts_with("//") {
            return None;
        }
        read.as_str().strip_prefix("https://here.invalid").filter(|path| path.starts_with('/')).map(|path| Self(path.to_owned()))
    }

    /// Where somebody goes who did not come from anywhere.
    pub(super) fn home() -> Self {
        Self("/documentation/".to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whom the provider is to expect: shown to it as it is.
pub(super) fn is_login_hint(text: &str) -> bool {
    !text.is_empty() && text.len() <= 254 && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_have_one_form_and_addresses_are_told_apart() {
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
    fn a_claim_is_proven_by_its_own_record_alone() {
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
    fn a_domain_that_is_nobodys_needs_no_proof_in_an_evaluation_tenant() {
        let proven = |domain: &str, kind: TenantKind| {
            let claim = Claim::new(Domain::parse(domain).unwrap(), kind, Timestamp::from_millis(0), &mut Entropy::from_seed(1));
            claim.proof.is_some()
        };
        assert!(proven("acme.example", TenantKind::Evaluation) && proven("a.b.test", TenantKind::Evaluation));
        assert!(!proven("acme.example", TenantKind::Standard) && !proven("example.com", TenantKind::Evaluation));
    }

    #[test]
    fn a_return_path_stays_on_this_site() {
        for (given, path) in [
            ("/", "/"),
            ("/a/b?c=d&e=%2F#f", "/a/b?c=d&e=%2F#f"),
            ("/a/../b", "/b"),
            ("/tickets?next=//evil.example", "/tickets?next=//evil.example"),
            ("/ä", "/%C3%A4"),
        ] {
            assert_eq!(ReturnPath::parse(given).unwrap().as_str(), path, "{given}");
        }
        for bad in [
            "",
            "a",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/..//evil.example",
            "/.//evil.example",
            "/%2e//evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "/a\nLocation: //evil.example",
            "/\t/evil.example",
            "/a b",
            "/a\u{7f}",
        ] {
            assert_eq!(ReturnPath::parse(bad), None, "{bad:?}");
        }
        assert_eq!(ReturnPath::parse(&format!("/{}", "a".repeat(1000))), None);
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
