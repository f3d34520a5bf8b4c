//! The credentials of providers.
//!
//! **Invariant:** every secret part is a [`Secret`]. Only [`Credential::sealable`] returns it as text, for sealing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use tenantd_base::{fault::Fault, secrets::Secret, vocabulary::nearest};

use super::kind::ProviderKind;

/// Replaces secrets in a text.
const MASK: &str = "[hidden]";
/// Shorter values are not replaced: they are not secrets and would match everywhere.
const MIN_SECRET_LENGTH: usize = 4;

/// The credential of a provider of any kind, in one of the forms that the kind accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(clippy::enum_variant_names, reason = "the name is the one that OpenStack uses")]
pub(crate) enum Credential {
    /// AWS.
    AccessKey {
        access_key_id: String,
        #[serde(with = "plaintext")]
        secret_access_key: Secret,
        #[serde(default, with = "optional_plaintext", skip_serializing_if = "Option::is_none")]
        session_token: Option<Secret>,
    },
    /// Azure.
    ServicePrincipal {
        tenant_id: String,
        client_id: String,
        #[serde(with = "plaintext")]
        client_secret: Secret,
        subscription_id: String,
    },
    /// Google Cloud. Without `project_id`, the project of the account.
    ServiceAccount {
        #[serde(with = "plaintext")]
        service_account_json: Secret,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project_id: Option<String>,
    },
    /// `OpenStack`, like `Password`.
    ApplicationCredential {
        application_credential_id: String,
        #[serde(with = "plaintext")]
        application_credential_secret: Secret,
    },
    Password {
        username: String,
        #[serde(with = "plaintext")]
        password: Secret,
        project_name: String,
        /// `Default` when absent. The same holds for `project_domain_name`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_domain_name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project_domain_name: Option<String>,
    },
    /// Proxmox VE: `user@realm!name` and the token's secret.
    ApiToken {
        token_id: String,
        #[serde(with = "plaintext")]
        token_secret: Secret,
    },
    /// Hetzner Cloud and `DigitalOcean`.
    BearerToken {
        #[serde(with = "plaintext")]
        api_token: Secret,
    },
    /// A simulated cloud needs no credential.
    None {},
}

/// One form of a credential: its name and its fields.
#[derive(Debug)]
struct Form {
    name: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

const ACCESS_KEY: Form =
    Form { name: "access_key", required: &["access_key_id", "secret_access_key"], optional: &["session_token"] };
const SERVICE_PRINCIPAL: Form =
    Form { name: "service_principal", required: &["tenant_id", "client_id", "client_secret", "subscription_id"], optional: &[] };
const SERVICE_ACCOUNT: Form = Form { name: "service_account", required: &["service_account_json"], optional: &["project_id"] };
const APPLICATION_CREDENTIAL: Form = Form {
    name: "application_credential",
    required: &["application_credential_id", "application_credential_secret"],
    optional: &[],
};
const PASSWORD: Form = Form {
    name: "password",
    required: &["username", "password", "project_name"],
    optional: &["user_domain_name", "project_domain_name"],
};
const API_TOKEN: Form = Form { name: "api_token", required: &["token_id", "token_secret"], optional: &[] };
const BEARER_TOKEN: Form = Form { name: "bearer_token", required: &["api_token"], optional: &[] };
const NONE: Form = Form { name: "none", required: &[], optional: &[] };

const fn forms(kind: ProviderKind) -> &'static [Form] {
    match kind {
        ProviderKind::Aws => &[ACCESS_KEY],
        ProviderKind::Azure => &[SERVICE_PRINCIPAL],
        ProviderKind::Gcp => &[SERVICE_ACCOUNT],
        ProviderKind::Openstack => &[APPLICATION_CREDENTIAL, PASSWORD],
        ProviderKind::Proxmox => &[API_TOKEN],
        ProviderKind::Hetzner | ProviderKind::Digitalocean => &[BEARER_TOKEN],
        ProviderKind::Simulated => &[NONE],
    }
}

/// Reads the fields of a credential for a provider of this kind. An error contains all faults.
pub(crate) fn read_credential(kind: ProviderKind, mut fields: Map<String, Value>) -> Result<Credential, Vec<Fault>> {
    let forms = forms(kind);
    let wanted = fields.remove("type");
    let form = match wanted.as_ref().and_then(Value::as_str) {
        Some(name) => forms.iter().find(|form| form.name == name),
        // The form that has the most of these fields. On a tie, the first form.
        None => forms.iter().rev().max_by_key(|form| fields.keys().filter(|field| form.has(field)).count()),
    };
    let kind = kind.name();
    let unknown_type =
        || Fault::new("/credential/type", "not_allowed", format!("{kind} does not accept a credential of this type"));
    let form = form.ok_or_else(|| vec![unknown_type().with_allowed(forms.iter().map(|form| form.name))])?;
    let missing =
        form.required.iter().filter(|field| !fields.contains_key(**field)).map(|field| {
            Fault::new(format!("/credential/{field}"), "required", format!("a credential of {kind} requires {field}"))
        });
    let strange = fields.keys().filter(|field| !form.has(field)).map(|field| {
        let message = format!("this credential of {kind} does not accept {field}");
        let fault = Fault::new(format!("/credential/{field}"), "unknown_field", message);
        fault.with_allowed(form.fields()).with_suggestion(nearest(field, form.fields()))
    });
    let faults: Vec<Fault> = missing.chain(strange).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    fields.insert("type".to_owned(), form.name.into());
    serde_json::from_value(Value::Object(fields)).map_err(|_| vec![unknown_type().with_allowed([form.name])])
}

impl Form {
    fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }

    fn has(&self, field: &str) -> bool {
        self.fields().any(|known| known == field)
    }
}

impl Credential {
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::AccessKey { .. } => ACCESS_KEY.name,
            Self::ServicePrincipal { .. } => SERVICE_PRINCIPAL.name,
            Self::ServiceAccount { .. } => SERVICE_ACCOUNT.name,
            Self::ApplicationCredential { .. } => APPLICATION_CREDENTIAL.name,
            Self::Password { .. } => PASSWORD.name,
            Self::ApiToken { .. } => API_TOKEN.name,
            Self::BearerToken { .. } => BEARER_TOKEN.name,
            Self::None {} => NONE.name,
        }
    }

    /// A hint by which people recognize the credential: a non-secret part, or the end of the secret.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::AccessKey { access_key_id, .. } => Some(shortened(access_key_id)),
            Self::ServicePrincipal { client_id, .. } => Some(client_id.clone()),
            Self::ServiceAccount { service_account_json, .. } => {
                let account: Option<Value> = serde_json::from_str(service_account_json.expose()).ok();
                account?.get("client_email")?.as_str().map(str::to_owned)
            }
            Self::ApplicationCredential { application_credential_id, .. } => Some(shortened(application_credential_id)),
            Self::Password { username, project_name, .. } => Some(format!("{username}@{project_name}")),
            Self::ApiToken { token_id, .. } => Some(token_id.clone()),
            Self::BearerToken { api_token } => Some(ending(api_token.expose())),
            Self::None {} => None,
        }
    }

    fn secrets(&self) -> Vec<&Secret> {
        match self {
            Self::AccessKey { secret_access_key, session_token, .. } => {
                [Some(secret_access_key), session_token.as_ref()].into_iter().flatten().collect()
            }
            Self::ServicePrincipal { client_secret: secret, .. }
            | Self::ServiceAccount { service_account_json: secret, .. }
            | Self::ApplicationCredential { application_credential_secret: secret, .. }
            | Self::Password { password: secret, .. }
            | Self::ApiToken { token_secret: secret, .. }
            | Self::BearerToken { api_token: secret } => vec![secret],
            Self::None {} => Vec::new(),
        }
    }

    /// Removes the secrets of this credential from a text. A provider's message may repeat what it received.
    pub(crate) fn conceal(&self, text: &str) -> String {
        let secrets = self.secrets();
        let long = secrets.iter().map(|secret| secret.expose()).filter(|secret| secret.len() >= MIN_SECRET_LENGTH);
        long.fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }

    /// The credential as text, for sealing.
    pub(crate) fn sealable(&self) -> Result<Secret, serde_json::Error> {
        serde_json::to_string(self).map(Secret::new)
    }

    /// Parses the text that [`Self::sealable`] returned.
    pub(crate) fn from_sealed(text: &Secret) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text.expose())
    }
}

/// The first four and the last four characters.
fn shortened(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    match (letters.first_chunk::<4>(), letters.last_chunk::<4>()) {
        (Some(head), Some(tail)) if letters.len() > 8 => head.iter().chain(&['…']).chain(tail).collect(),
        _ => text.to_owned(),
    }
}

/// The last four characters of a secret, if it has at least 16.
fn ending(secret: &str) -> String {
    let letters: Vec<char> = secret.chars().collect();
    let shown = if letters.len() >= 16 { letters.last_chunk::<4>().map_or(&[][..], |tail| tail) } else { &[] };
    ['…'].iter().chain(shown).collect()
}

/// Serializes a secret as plaintext. For [`Credential::sealable`] only.
mod plaintext {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

mod optional_plaintext {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    #[allow(clippy::ref_option, reason = "serde requires this signature")]
    pub(super) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => serializer.serialize_some(secret.expose()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: ProviderKind, fields: Value) -> Result<Credential, Vec<Fault>> {
        read_credential(kind, fields.as_object().unwrap().clone())
    }

    #[test]
    fn the_fields_determine_the_form_of_a_credential() {
        let key = read(ProviderKind::Aws, json!({"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "wJalr"})).unwrap();
        assert_eq!((key.type_name(), key.hint().unwrap().as_str()), ("access_key", "AKIA…MPLE"));
        let named = json!({"username": "ada", "password": "s3cret", "project_name": "lab"});
        assert_eq!(read(ProviderKind::Openstack, named).unwrap().hint().unwrap(), "ada@lab");
        let faults = read(ProviderKind::Aws, json!({"access_key": "x", "secret_access_key": "y"})).unwrap_err();
        let found: Vec<(String, &str)> = faults.iter().map(|fault| (fault.place.to_string(), fault.code.as_str())).collect();
        let expected = [("/credential/access_key_id", "required"), ("/credential/access_key", "unknown_field")];
        assert_eq!(found, expected.map(|(place, code)| (place.to_owned(), code)));
        assert_eq!(read(ProviderKind::Hetzner, json!({"type": "password"})).unwrap_err()[0].allowed[..], ["bearer_token"]);
        assert!(read(ProviderKind::Simulated, json!({})).is_ok());
    }

    #[test]
    fn a_credential_is_not_printed_and_survives_sealing() {
        let token = read(ProviderKind::Hetzner, json!({"api_token": "canary-0123456789-abcd"})).unwrap();
        assert!(!format!("{token:?}").contains("canary"));
        assert_eq!(token.hint().unwrap(), "…abcd");
        assert_eq!(token.conceal("bad token canary-0123456789-abcd!"), "bad token [hidden]!");
        assert_eq!(Credential::from_sealed(&token.sealable().unwrap()).unwrap(), token);
    }
}
