//! The request bodies for providers, and their conversion to service input. An error response lists all faults at once.

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

/// The credential that tenantd uses to call the cloud. It is write-only: responses contain only a summary. The fields depend on the
/// kind: aws takes `access_key_id`, `secret_access_key` and optionally `session_token`; azure takes `tenant_id`, `client_id`,
/// `client_secret` and `subscription_id`; gcp takes `service_account_json` and optionally `project_id`; openstack takes
/// `application_credential_id` and `application_credential_secret`, or `username`, `password` and `project_name`; proxmox takes
/// `token_id` and `token_secret`; hetzner and digitalocean take `api_token`; simulated takes no fields.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct CredentialInput {
    /// The type of the credential, such as `access_key`. Needed only for a kind that accepts several types. When absent, tenantd
    /// derives it from the other fields.
    #[oai(rename = "type", validator(min_length = 1, max_length = 40))]
    pub(super) type_name: Option<String>,
    /// aws: the id of the access key.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) access_key_id: Option<String>,
    /// aws: the secret of the access key.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) secret_access_key: Option<String>,
    /// aws: the session token of a temporary access key. Absent for a permanent key.
    #[oai(validator(min_length = 1, max_length = 8192))]
    pub(super) session_token: Option<String>,
    /// azure: the id of the Microsoft Entra tenant (directory).
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) tenant_id: Option<String>,
    /// azure: the client id of the application.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) client_id: Option<String>,
    /// azure: the client secret of the application.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) client_secret: Option<String>,
    /// azure: the id of the subscription that contains the VMs.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) subscription_id: Option<String>,
    /// gcp: the content of the service account's JSON key file, as a string.
    #[oai(validator(min_length = 1, max_length = 16384))]
    pub(super) service_account_json: Option<String>,
    /// gcp: the id of the project that contains the VMs. When absent, the project of the service account.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) project_id: Option<String>,
    /// openstack: the id of the application credential.
    #[oai(validator(min_length = 1, max_length = 128))]
    pub(super) application_credential_id: Option<String>,
    /// openstack: the secret of the application credential.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) application_credential_secret: Option<String>,
    /// openstack: the user name, for sign-in with a password.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) username: Option<String>,
    /// openstack: the password of the user.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) password: Option<String>,
    /// openstack: the name of the project that contains the VMs.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) project_name: Option<String>,
    /// openstack: the domain of the user. When absent, `Default`.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) user_domain_name: Option<String>,
    /// openstack: the domain of the project. When absent, `Default`.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) project_domain_name: Option<String>,
    /// proxmox: the id of the API token, such as `automation@pve!tenantd`.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) token_id: Option<String>,
    /// proxmox: the secret of the API token.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) token_secret: Option<String>,
    /// hetzner and digitalocean: the API token.
    #[oai(validator(min_length = 1, max_length = 512))]
    pub(super) api_token: Option<String>,
}

/// The cloud provider to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateCloudProvider {
    /// The display name. It must be unique in the tenant, ignoring case.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    pub(super) kind: Word<ProviderKind>,
    /// The organization that the VMs belong to. Absent for a provider that several organizations share.
    pub(super) organization_id: Option<OrganizationId>,
    /// Whether tenantd syncs the provider and accepts orders for it. Defaults to `true`.
    pub(super) enabled: Option<bool>,
    pub(super) config: Option<ProviderConfig>,
    /// Required for every kind except `simulated`.
    pub(super) credential: Option<CredentialInput>,
    /// The interval between two syncs, in seconds. When absent, the default of the installation, initially 300.
    #[oai(validator(minimum(value = "60"), maximum(value = "86400")))]
    pub(super) sync_interval_seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum ProviderAction {
    Verify,
}

/// The credential to verify: the credential of a stored provider, named by `id`, or an unsaved one in `kind`, `config` and
/// `credential`.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct VerifyCloudProvider {
    /// The action to perform.
    pub(super) action: ProviderAction,
    /// The id of the stored provider. Not needed if the query names it.
    pub(super) id: Option<CloudProviderId>,
    pub(super) kind: Option<Word<ProviderKind>>,
    pub(super) config: Option<ProviderConfig>,
    pub(super) credential: Option<CredentialInput>,
}

impl Many for VerifyCloudProvider {
    const MEMBER: &'static str = "action";
}

/// The changes to a provider. An absent field keeps its value; `null` clears it. The kind cannot change.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateCloudProvider {
    /// The id of the provider. Not needed if the path or the query names it.
    pub(super) id: Option<CloudProviderId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    pub(super) organization_id: Change<OrganizationId>,
    pub(super) enabled: Option<bool>,
    /// Replaces the whole configuration.
    pub(super) config: Option<ProviderConfig>,
    /// Replaces the stored credential. When absent, the stored credential is kept. Required when you change the scheme, host or
    /// port of `config.endpoint` or `config.auth_url`, or when you change `config.ca_certificate_pem` or `config.tls_fingerprint`:
    /// tenantd sends a stored credential only to the target that it was given for.
    pub(super) credential: Option<CredentialInput>,
    /// The interval between two syncs, in seconds.
    #[oai(validator(minimum(value = "60"), maximum(value = "86400")))]
    pub(super) sync_interval_seconds: Option<u32>,
}

impl UpdateCloudProvider {
    /// Whether the request disables the provider and changes nothing else.
    pub(super) fn only_disables(&self) -> bool {
        let Self { id: _, name, organization_id, enabled, config, credential, sync_interval_seconds } = self;
        let keeps = name.is_none() && *organization_id == Change::Keep && sync_interval_seconds.is_none();
        *enabled == Some(false) && keeps && config.is_none() && credential.is_none()
    }
}

/// The configuration and the credential that a client sent.
pub(super) type Connection = (model::ProviderConfig, Option<Credential>);

/// Reads the configuration and the credential for a kind. If a credential is needed and absent, it is read as one without fields.
pub(super) fn read_connection(
    kind: ProviderKind,
    config: Option<ProviderConfig>,
    credential: Option<CredentialInput>,
    needed: bool,
    faults: &mut Vec<Fault>,
) -> Connection {
    let config = read_config(kind, config.unwrap_or_default(), faults);
    let fields = credential.map(|input| match input.to_json() {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    });
    let fields = fields.or_else(|| needed.then(Map::new));
    let credential = fields.and_then(|fields| match read_credential(kind, fields) {
        Ok(credential) => Some(credential),
        Err(problems) => {
            faults.extend(problems.into_iter().map(|fault| fault.depending_on(&["kind"])));
            None
        }
    });
    (config, credential)
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
        faults.push(Fault::new(at("tls_fingerprint"), "wrong_form", "must be a SHA-256 fingerprint in hexadecimal"));
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
    let (strange, missing) = config.invalid_fields(kind);
    let kind = kind.name();
    let strange = strange.into_iter().map(|field| {
        Fault::new(at(field.name()), "unknown_field", format!("a provider of the kind {kind} does not accept {}", field.name()))
    });
    let missing = missing
        .into_iter()
        .map(|field| Fault::new(at(field.name()), "required", format!("a provider of the kind {kind} requires {}", field.name())));
    faults.extend(strange.chain(missing).map(|fault| fault.depending_on(&["kind"])));
    config
}

/// Regions become parts of host names and paths, so only these characters are allowed.
pub(super) fn is_region(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=64).contains(&text.len()) && text.chars().all(allowed)
}

impl CreateCloudProvider {
    pub(super) fn read(self, default_interval: u32) -> NewProvider {
        let (kind, mut faults) = (self.kind.into(), Vec::new());
        let (config, credential) = read_connection(kind, self.config, self.credential, true, &mut faults);
        NewProvider {
            name: self.name,
            kind,
            organization_id: self.organization_id,
            enabled: self.enabled.unwrap_or(true),
            config,
            credential: credential.unwrap_or(Credential::None {}),
            interval_seconds: self.sync_interval_seconds.unwrap_or(default_interval),
            faults,
        }
    }
}

impl UpdateCloudProvider {
    pub(super) fn read(self, kind: ProviderKind) -> Result<ProviderChange, CloudError> {
        let has_config = self.config.is_some();
        let (config, credential) = match (has_config, self.credential) {
            (true, credential) => {
                let mut faults = Vec::new();
                let read = read_connection(kind, self.config, credential, false, &mut faults);
                CloudError::ensure_none(faults)?;
                read
            }
            (false, None) => (model::ProviderConfig::default(), None),
            // The stored configuration was checked when it was set.
            (false, Some(credential)) => {
                let Some(Value::Object(fields)) = credential.to_json() else {
                    return Err(CloudError::Invalid(vec![Fault::new("/credential", "not_valid", "must be a credential object")]));
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
