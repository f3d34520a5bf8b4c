//! The kinds of clouds, and the configuration fields that each kind accepts.

use serde::{Deserialize, Serialize};

use tenantd_base::vocabulary::vocabulary;
use tenantd_egress::SecretTarget;

vocabulary! {
    ProviderKind as variants:
    Aws "aws", Azure "azure", Gcp "gcp", Openstack "openstack", Proxmox "proxmox", Hetzner "hetzner", Digitalocean "digitalocean",
    Simulated "simulated",
}

impl ProviderKind {
    /// The configuration fields that this kind accepts.
    const fn fields(self) -> &'static [ConfigField] {
        use ConfigField::{
            AuthUrl, CaCertificatePem, Endpoint, Fail, LatencyMs, Quota, Regions, ResourceGroup, Seed, TlsFingerprint, VmCount,
        };
        match self {
            Self::Aws | Self::Gcp | Self::Hetzner | Self::Digitalocean => &[Endpoint, CaCertificatePem, Regions],
            Self::Azure => &[Endpoint, CaCertificatePem, Regions, ResourceGroup, AuthUrl],
            Self::Openstack => &[Endpoint, CaCertificatePem, Regions, AuthUrl],
            Self::Proxmox => &[Endpoint, CaCertificatePem, TlsFingerprint],
            Self::Simulated => &[Regions, Seed, LatencyMs, Fail, VmCount, Quota],
        }
    }

    const fn required(self) -> &'static [ConfigField] {
        match self {
            Self::Openstack => &[ConfigField::AuthUrl],
            Self::Proxmox => &[ConfigField::Endpoint],
            _ => &[],
        }
    }
}

vocabulary! {
    /// The fields of a [`ProviderConfig`] by name.
    ConfigField:
    Endpoint "endpoint", Regions "regions", CaCertificatePem "ca_certificate_pem", TlsFingerprint "tls_fingerprint",
    AuthUrl "auth_url", ResourceGroup "resource_group", Seed "seed", LatencyMs "latency_ms", Fail "fail", VmCount "vm_count",
    Quota "quota",
}

vocabulary! {
    /// The error that a simulated cloud returns instead of handling a request.
    SimulatedFailure as variants:
    InvalidCredentials "invalid_credentials", InsufficientPermissions "insufficient_permissions", Unreachable "unreachable",
    TlsError "tls_error", ClockSkew "clock_skew", RateLimited "rate_limited", ProviderError "provider_error", Timeout "timeout",
    /// Listing succeeds, creating fails.
    ReadOnly "read_only",
    /// Creating fails because the quota is used up.
    QuotaExceeded "quota_exceeded",
}

/// The configuration of a provider. It contains no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProviderConfig {
    /// Replaces the kind's own API.
    pub(crate) endpoint: Option<String>,
    /// If empty: all regions that the kind knows, or its default region.
    pub(crate) regions: Vec<String>,
    pub(crate) ca_certificate_pem: Option<String>,
    /// The SHA-256 of the server's certificate, which is then trusted without an authority.
    pub(crate) tls_fingerprint: Option<[u8; 32]>,
    pub(crate) auth_url: Option<String>,
    pub(crate) resource_group: Option<String>,
    pub(crate) seed: Option<u64>,
    pub(crate) latency_ms: Option<u32>,
    pub(crate) fail: Option<SimulatedFailure>,
    pub(crate) vm_count: Option<u32>,
    pub(crate) quota: Option<u32>,
}

impl ProviderConfig {
    fn has(&self, field: ConfigField) -> bool {
        match field {
            ConfigField::Endpoint => self.endpoint.is_some(),
            ConfigField::Regions => !self.regions.is_empty(),
            ConfigField::CaCertificatePem => self.ca_certificate_pem.is_some(),
            ConfigField::TlsFingerprint => self.tls_fingerprint.is_some(),
            ConfigField::AuthUrl => self.auth_url.is_some(),
            ConfigField::ResourceGroup => self.resource_group.is_some(),
            ConfigField::Seed => self.seed.is_some(),
            ConfigField::LatencyMs => self.latency_ms.is_some(),
            ConfigField::Fail => self.fail.is_some(),
            ConfigField::VmCount => self.vm_count.is_some(),
            ConfigField::Quota => self.quota.is_some(),
        }
    }

    /// The fields that the kind does not accept, and the required fields that are missing.
    pub(crate) fn invalid_fields(&self, kind: ProviderKind) -> (Vec<ConfigField>, Vec<ConfigField>) {
        let strange = |field: &ConfigField| self.has(*field) && !kind.fields().contains(field);
        let missing = |field: &ConfigField| !self.has(*field);
        (ConfigField::ALL.iter().copied().filter(strange).collect(), kind.required().iter().copied().filter(missing).collect())
    }

    /// The target that a credential is bound to: every field that determines which servers receive the credential, or what they
    /// return for it. Regions are not part of it: they select servers of one provider, in a domain that the adapter defines.
    pub(crate) fn target(&self) -> SecretTarget {
        SecretTarget::default()
            .url(ConfigField::Endpoint.name(), self.endpoint.as_deref())
            .url(ConfigField::AuthUrl.name(), self.auth_url.as_deref())
            .authorities(ConfigField::CaCertificatePem.name(), self.ca_certificate_pem.as_deref())
            .certificate(ConfigField::TlsFingerprint.name(), self.tls_fingerprint.as_ref())
    }

    /// The URLs that calls may go to, with the names of their fields.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (ConfigField, &str)> {
        let endpoint = self.endpoint.as_deref().map(|url| (ConfigField::Endpoint, url));
        let auth_url = self.auth_url.as_deref().map(|url| (ConfigField::AuthUrl, url));
        endpoint.into_iter().chain(auth_url)
    }
}
