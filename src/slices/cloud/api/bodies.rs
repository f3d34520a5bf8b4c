//! What clients send about providers, and how it becomes what the service takes. All that is wrong is told at once.

use data_encoding::HEXLOWER_PERMISSIVE;
use poem_openapi::{Enum, Object, types::ToJSON};
use serde_json::{Map, Value};

use tenantd_base::{
    change::Change,
    fault::Fault,
    id::{CloudProviderId, OrganizationId},
};
use tenantd_egress::{TargetUrl, check_ca_pem};
use tenantd_http::wire::{Many, Word};

use super::{
    super::{
        error::CloudError,
        model::{self, Credential, ProviderKind, read_credential},
        service::{NewProvider, ProviderChange},
    },
    wire::ProviderConfig,
};

/// The secret that a provider is reached with. Which fields there are depends on the kind: aws `access_key_id` and `secret_access_key`,
/// perhaps `session_token`; azure `tenant_id`, `client_id`, `client_secret` and `subscription_id`; gcp `service_account_json`, perhaps
/// `project_id`; openstack `application_credential_id` and `application_credential_secret`, or `username`, `password` and `project_name`;
/// proxmox `token_id` and `token_secret`; hetzner and digitalocean `api_token`; simulated none. It is never shown again.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct CredentialInput {
    /// The form, where a kind has several. The fields tell it too.
    #[oai(rename = "type", validator(min_length = 1, max_length = 40))]
    pub(super) type_name: Option<String>,
    /// The id of the access key.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) access_key_id: Option<String>,
    /// The secret of the access key.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) secret_access_key: Option<String>,
    /// The token of a temporary access key.
    #[oai(validator(min_length = 1, max_length = 8192))]
    pub(super) session_token: Option<String>,
    /// The id of the directory.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) tenant_id: Option<String>,
    /// The client id of the application.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) client_id: Option<String>,
    /// The secret of the application.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) client_secret: Option<String>,
    /// The id of the subscription.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) subscription_id: Option<String>,
    /// The key file of a service account, as a text.
    #[oai(validator(min_length = 1, max_length = 16384))]
    pub(super) service_account_json: Option<String>,
    /// The id of the project.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) project_id: Option<String>,
    /// The id of the application credential.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) application_credential_id: Option<String>,
    /// The secret of the application credential.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) application_credential_secret: Option<String>,
    /// The user name.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) username: Option<String>,
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) password: Option<String>,
    /// The name of the project.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) project_name: Option<String>,
    /// The domain of the user.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) user_domain_name: Option<String>,
    /// The domain of the project.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) project_domain_name: Option<String>,
    /// Such as `automation@pve!tenantd`.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) token_id: Option<String>,
    /// The secret of the API token.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) token_secret: Option<String>,
    /// The API token.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) api_token: Option<String>,
}

/// A provider to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateCloudProvider {
    /// A label for people, unique in the tenant.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    pub(super) kind: Word<ProviderKind>,
    /// Whose VMs these are, where they are one organization's.
    pub(super) organization_id: Option<OrganizationId>,
    /// True when absent.
    pub(super) enabled: Option<bool>,
    pub(super) config: Option<ProviderConfig>,
    /// Only a simulated one can be without.
    pub(super) credential: Option<CredentialInput>,
    /// How often its VMs are looked at. The operator sets what it is when absent, 300 at first.
    #[oai(validator(minimum(value = "60"), maximum(value = "86400")))]
    pub(super) sync_interval_seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum ProviderAction {
    Verify,
}

/// A credential to try: that of a stored provider by its `id`, or one that is not stored, by `kind`, `config` and `credential`.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct VerifyCloudProvider {
    /// What to do.
    pub(super) action: ProviderAction,
    /// The stored provider, unless the query names it.
    pub(super) id: Option<CloudProviderId>,
    pub(super) kind: Option<Word<ProviderKind>>,
    pub(super) config: Option<ProviderConfig>,
    pub(super) credential: Option<CredentialInput>,
}

impl Many for VerifyCloudProvider {
    const MEMBER: &'static str = "action";
}

/// A change of a provider. What is absent stays as it is; `null` clears. Its kind cannot change.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateCloudProvider {
    /// The provider, unless the path or the query names it.
    pub(super) id: Option<CloudProviderId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    pub(super) organization_id: Change<OrganizationId>,
    pub(super) enabled: Option<bool>,
    /// In place of the whole configuration.
    pub(super) config: Option<ProviderConfig>,
    /// Replaces the stored one, which is kept when this is absent. Required when you change the scheme, host or port of
    /// `config.endpoint` or `config.auth_url`, `config.ca_certificate_pem` or `config.tls_fingerprint`: a stored credential is sent to
    /// the target that it was given for, and to no other.
    pub(super) credential: Option<CredentialInput>,
    /// How often the provider is synced, in seconds.
    #[oai(validator(minimum(value = "60"), maximum(value = "86400")))]
    pub(super) sync_interval_seconds: Option<u32>,
}

/// How a provider is reached, as it was sent.
pub(super) type Way = (model::ProviderConfig, Option<Credential>);

/// Reads configuration and credential for a kind. A credential that is absent counts as one without fields when one is needed.
pub(super) fn read_way(
    kind: ProviderKind,
    config: Option<ProviderConfig>,
    credential: Option<CredentialInput>,
    needed: bool,
) -> Result<Way, CloudError> {
    let mut faults = Vec::new();
    let config = read_config(kind, config.unwrap_or_default(), &mut faults);
    let fields = credential.map(|input| match input.to_json() {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    });
    let fields = fields.or_else(|| needed.then(Map::new));
    let credential = fields.and_then(|fields| match read_credential(kind, fields) {
        Ok(credential) => Some(credential),
        Err(problems) => {
            faults.extend(problems);
            None
        }
    });
    if faults.is_empty() { Ok((config, credential)) } else { Err(CloudError::Invalid(faults)) }
}

fn read_config(kind: ProviderKind, wire: ProviderConfig, faults: &mut Vec<Fault>) -> model::ProviderConfig {
    let at = |field: &str| format!("/config/{field}");
    for (field, url) in [("endpoint", &wire.endpoint), ("auth_url", &wire.auth_url)] {
        if let Some(Err(problem)) = url.as_deref().map(TargetUrl::parse) {
            faults.push(Fault::new(at(field), "wrong_form", format!("the URL {problem}")));
        }
    }
    if let Some(Err(problem)) = wire.ca_certificate_pem.as_deref().map(check_ca_pem) {
        faults.push(Fault::new(at("ca_certificate_pem"), "wrong_form", format!("the certificate {problem}")));
    }
    let pin = wire.tls_fingerprint.as_deref().map(|text| {
        let digits = HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes()).ok();
        digits.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
    });
    if pin == Some(None) {
        faults.push(Fault::new(at("tls_fingerprint"), "wrong_form", "must be a SHA-256 in hexadecimal"));
    }
    if let Some(place) = wire.regions.iter().flatten().position(|region| !is_region(region)) {
        faults.push(Fault::new(
            format!("/config/regions/{place}"),
            "wrong_form",
            "must be the name of a region, such as eu-west-1",
        ));
    }
    let config = model::ProviderConfig {
        endpoint: wire.endpoint,
        regions: wire.regions.unwrap_or_default(),
        ca_certificate_pem: wire.ca_certificate_pem,
        tls_fingerprint: pin.flatten(),
        auth_url: wire.auth_url,
        resource_group: wire.resource_group,
        seed: wire.seed,
        latency_ms: wire.latency_ms,
        fail: wire.fail.map(Into::into),
        vm_count: wire.vm_count,
        quota: wire.quota,
    };
    let (strange, missing) = config.misfits(kind);
    let kind = kind.name();
    let strange = strange.into_iter().map(|field| {
        Fault::new(at(field.name()), "unknown_field", format!("a provider of the kind {kind} has no {}", field.name()))
    });
    let missing = missing
        .into_iter()
        .map(|field| Fault::new(at(field.name()), "required", format!("a provider of the kind {kind} needs {}", field.name())));
    faults.extend(strange.chain(missing));
    config
}

/// Regions become parts of host names and paths: nothing else may be in them.
pub(super) fn is_region(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=64).contains(&text.len()) && text.chars().all(allowed)
}

impl CreateCloudProvider {
    pub(super) fn read(self, default_interval: u32) -> Result<NewProvider, CloudError> {
        let kind = self.kind.into();
        let (config, credential) = read_way(kind, self.config, self.credential, true)?;
        Ok(NewProvider {
            name: self.name,
            kind,
            organization_id: self.organization_id,
            enabled: self.enabled.unwrap_or(true),
            config,
            credential: credential.unwrap_or(Credential::None {}),
            interval_seconds: self.sync_interval_seconds.unwrap_or(default_interval),
        })
    }
}

impl UpdateCloudProvider {
    pub(super) fn read(self, kind: ProviderKind) -> Result<ProviderChange, CloudError> {
        let has_config = self.config.is_some();
        let (config, credential) = match (has_config, self.credential) {
            (true, credential) => read_way(kind, self.config, credential, false)?,
            (false, None) => (model::ProviderConfig::default(), None),
            // The configuration that stays was checked when it came.
            (false, Some(credential)) => {
                let Some(Value::Object(fields)) = credential.to_json() else {
                    return Err(CloudError::Invalid(vec![Fault::new("/credential", "not_valid", "is no credential")]));
                };
                let read = read_credential(kind, fields).map_err(CloudError::Invalid)?;
                (model::ProviderConfig::default(), Some(read))
            }
        };
        Ok(ProviderChange {
            name: self.name,
            organization_id: self.organization_id,
            enabled: self.enabled,
            config: has_config.then_some(config),
            credential,
            interval_seconds: self.sync_interval_seconds,
        })
    }
}
