//! The kinds of clouds, and what of a provider's configuration each of them takes.

use serde::{Deserialize, Serialize};

use tenantd_base::vocabulary::vocabulary;
use tenantd_egress::SecretTarget;

vocabulary! {
    ProviderKind as variants:
    Aws "aws", Azure "azure", Gcp "gcp", Openstack "openstack", Proxmox "proxmox", Hetzner "hetzner", Digitalocean "digitalocean",
    Simulated "simulated",
}

impl ProviderKind {
    /// The fields of a configuration that mean something to this kind, beside `endpoint` and `ca_certificate_pem`, which all have
    /// that call out.
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
    /// What a simulated cloud is told to answer in place of doing what is asked.
    SimulatedFailure as variants:
    InvalidCredentials "invalid_credentials", InsufficientPermissions "insufficient_permissions", Unreachable "unreachable",
    TlsError "tls_error", ClockSkew "clock_skew", RateLimited "rate_limited", ProviderError "provider_error", Timeout "timeout",
    /// Reading goes well, creating does not.
    ReadOnly "read_only",
    /// Creating fails for want of room.
    QuotaExceeded "quota_exceeded",
}

/// How a provider is reached. Nothing here is secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProviderConfig {
    /// In place of the kind's own API.
    pub(crate) endpoint: Option<String>,
    /// Empty: all that the kind knows of, or its default.
    pub(crate) regions: Vec<String>,
    pub(crate) ca_certificate_pem: Option<String>,
    /// The SHA-256 of the server's certificate, which is then believed without an authority.
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

    /// Fields that the kind does not have, and fields that it cannot be without.
    pub(crate) fn misfits(&self, kind: ProviderKind) -> (Vec<ConfigField>, Vec<ConfigField>) {
        let strange = |field: &ConfigField| self.has(*field) && !kind.fields().contains(field);
        let missing = |field: &ConfigField| !self.has(*field);
        (ConfigField::ALL.iter().copied().filter(strange).collect(), kind.required().iter().copied().filter(missing).collect())
    }

    /// The target that a credential belongs to: everything here that decides which servers get it, or what they give for it. Regions are
    /// not among it. They choose between the servers of one provider, whose domain is the adapter's.
    pub(crate) fn target(&self) -> SecretTarget {
        SecretTarget::default()
            .url(ConfigField::Endpoint.name(), self.endpoint.as_deref())
            .url(ConfigField::AuthUrl.name(), self.auth_url.as_deref())
            .authorities(ConfigField::CaCertificatePem.name(), self.ca_certificate_pem.as_deref())
            .certificate(ConfigField::TlsFingerprint.name(), self.tls_fingerprint.as_ref())
    }

    /// The addresses that calls may go to, by the names of their fields.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (ConfigField, &str)> {
        let endpoint = self.endpoint.as_deref().map(|url| (ConfigField::Endpoint, url));
        let auth_url = self.auth_url.as_deref().map(|url| (ConfigField::AuthUrl, url));
        endpoint.into_iter().chain(auth_url)
    }
}
