//! The kinds of clouds, and what of a provider's configuration each of them takes.

use serde::{Deserialize, Serialize};

use tenantd_egress::SecretTarget;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ProviderKind {
    Aws,
    Azure,
    Gcp,
    Openstack,
    Proxmox,
    Hetzner,
    Digitalocean,
    Simulated,
}

impl ProviderKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::Openstack => "openstack",
            Self::Proxmox => "proxmox",
            Self::Hetzner => "hetzner",
            Self::Digitalocean => "digitalocean",
            Self::Simulated => "simulated",
        }
    }

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

/// The fields of a [`ProviderConfig`] by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigField {
    Endpoint,
    Regions,
    CaCertificatePem,
    TlsFingerprint,
    AuthUrl,
    ResourceGroup,
    Seed,
    LatencyMs,
    Fail,
    VmCount,
    Quota,
}

impl ConfigField {
    const ALL: [Self; 11] = [
        Self::Endpoint,
        Self::Regions,
        Self::CaCertificatePem,
        Self::TlsFingerprint,
        Self::AuthUrl,
        Self::ResourceGroup,
        Self::Seed,
        Self::LatencyMs,
        Self::Fail,
        Self::VmCount,
        Self::Quota,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Regions => "regions",
            Self::CaCertificatePem => "ca_certificate_pem",
            Self::TlsFingerprint => "tls_fingerprint",
            Self::AuthUrl => "auth_url",
            Self::ResourceGroup => "resource_group",
            Self::Seed => "seed",
            Self::LatencyMs => "latency_ms",
            Self::Fail => "fail",
            Self::VmCount => "vm_count",
            Self::Quota => "quota",
        }
    }
}

/// What a simulated cloud is told to answer in place of doing what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SimulatedFailure {
    InvalidCredentials,
    InsufficientPermissions,
    Unreachable,
    TlsError,
    ClockSkew,
    RateLimited,
    ProviderError,
    Timeout,
    /// Reading goes well, creating does not.
    ReadOnly,
    /// Creating fails for want of room.
    QuotaExceeded,
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
        (ConfigField::ALL.into_iter().filter(strange).collect(), kind.required().iter().copied().filter(missing).collect())
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
