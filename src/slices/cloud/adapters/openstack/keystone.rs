//! The token of Keystone, API v3, and the catalog that comes with it. Nothing of Nova is here.

use std::collections::BTreeMap;

use http::HeaderName;
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::{clock::Timestamp, secrets::Secret};

use super::super::{
    super::model::{Credential, Failure, FailureClass},
    Access, Answer,
    client::{Call, unusable},
    tokens::{Issued, Token},
    wire::wrong_credential,
};
use super::answers::failure;

const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
const DEFAULT_DOMAIN: &str = "Default";

/// The token for Nova, its user and project, and the endpoints of Nova.
#[derive(Debug)]
pub(super) struct KeystoneToken {
    pub(super) id: Secret,
    pub(super) user: String,
    pub(super) project: String,
    /// The public endpoints, by region.
    compute: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct TokenResponse {
    token: TokenDetail,
}

#[derive(Debug, Deserialize)]
struct TokenDetail {
    expires_at: String,
    user: Named,
    project: Option<Named>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region: Option<String>,
    url: String,
}

impl KeystoneToken {
    /// The configured regions, or else all regions with Nova.
    pub(super) fn regions(&self, access: &Access) -> Vec<String> {
        let configured = &access.config.regions;
        if configured.is_empty() { self.compute.keys().cloned().collect() } else { configured.clone() }
    }

    /// The endpoint of Nova in a region.
    pub(super) fn compute(&self, access: &Access, region: &str) -> Result<String, Failure> {
        let url = access.config.endpoint.as_deref().or(self.compute.get(region).map(String::as_str));
        let missing = || {
            let known: Vec<&str> = self.compute.keys().map(String::as_str).collect();
            let message =
                format!("the catalog has no compute service in the region {region}; regions with one: {}", known.join(", "));
            Failure::new(FailureClass::NotFound, "unknown_region", message)
        };
        Ok(url.ok_or_else(missing)?.trim_end_matches('/').to_owned())
    }
}

impl Token for KeystoneToken {
    fn issue(access: &Access) -> Answer<'_, Issued<Self>> {
        Box::pin(async move {
            let mut call = Call::post(tokens_url(access)?).json(&body_of(&access.credential)?)?;
            // An additional token does no harm.
            call.repeatable = true;
            let reply = access.client.send(call).await?;
            if !reply.is_success() {
                return Err(failure(&reply));
            }
            let id = reply.headers.get(SUBJECT_TOKEN).and_then(|value| value.to_str().ok());
            let id = Secret::new(id.ok_or_else(|| unusable("the response of Keystone contains no token"))?);
            let TokenResponse { token } = reply.json()?;
            let until = Timestamp::parse(&token.expires_at).ok_or_else(|| unusable("the token of Keystone has no valid expiry"))?;
            let project = token.project.map(|project| project.name);
            let project = project.ok_or_else(|| unusable("the token has no project scope"))?;
            let services = token.catalog.into_iter().filter(|service| service.kind == "compute");
            let endpoints = services.flat_map(|service| service.endpoints).filter(|endpoint| endpoint.interface == "public");
            let compute = endpoints.map(|endpoint| (endpoint.region.unwrap_or_default(), endpoint.url)).collect();
            let lifetime = until.since(access.client.now());
            Ok(Issued { token: Self { id, user: token.user.name, project, compute }, lifetime })
        })
    }
}

/// Accepts `auth_url` with and without the version.
fn tokens_url(access: &Access) -> Result<String, Failure> {
    let missing =
        || Failure::new(FailureClass::InvalidRequest, "no_auth_url", "config.auth_url is not set: set it to the URL of Keystone");
    let url = access.config.auth_url.as_deref().ok_or_else(missing)?.trim_end_matches('/');
    Ok(format!("{}/v3/auth/tokens", url.strip_suffix("/v3").unwrap_or(url)))
}

fn body_of(credential: &Credential) -> Result<Value, Failure> {
    match credential {
        Credential::ApplicationCredential { application_credential_id, application_credential_secret } => {
            Ok(json!({"auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": application_credential_id, "secret": application_credential_secret.expose()},
            }}}))
        }
        Credential::Password { username, password, project_name, user_domain_name, project_domain_name } => {
            let domain = |name: &Option<String>| json!({"name": name.as_deref().unwrap_or(DEFAULT_DOMAIN)});
            let user = json!({"name": username, "domain": domain(user_domain_name), "password": password.expose()});
            Ok(json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": {"name": project_name, "domain": domain(project_domain_name)}},
            }}))
        }
        _ => Err(wrong_credential()),
    }
}
