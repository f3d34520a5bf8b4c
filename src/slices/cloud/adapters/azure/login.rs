//! The token of a service principal: the client-credentials grant of Microsoft Entra ID. Nothing of Resource Manager is here.

use tenantd_base::secrets::Secret;

use super::super::{
    super::model::{Credential, Failure, FailureClass},
    Access, Answer,
    client::Reply,
    oauth::{self, ErrorResponse},
    tokens::{Issued, Token},
    wire::{segment, wrong_credential},
};
use super::API;

const LOGIN: &str = "https://login.microsoftonline.com";

/// The bearer token for Resource Manager.
#[derive(Debug)]
pub(super) struct AccessToken(pub(super) Secret);

impl Token for AccessToken {
    fn issue(access: &Access) -> Answer<'_, Issued<Self>> {
        Box::pin(async move {
            let Credential::ServicePrincipal { tenant_id, client_id, client_secret, .. } = &access.credential else {
                return Err(wrong_credential());
            };
            let login = access.config.auth_url.as_deref().unwrap_or(LOGIN).trim_end_matches('/');
            let url = format!("{login}/{}/oauth2/v2.0/token", segment(tenant_id));
            let scope = format!("{}/.default", access.endpoint(API));
            let form = [
                ("grant_type", "client_credentials"),
                ("client_id", client_id),
                ("client_secret", client_secret.expose()),
                ("scope", &scope),
            ];
            let (token, lifetime) = oauth::grant(access, url, &form, failure).await?;
            Ok(Issued { token: Self(token), lifetime })
        })
    }
}

fn failure(reply: &Reply) -> Failure {
    let ErrorResponse { error, error_description } = reply.json().unwrap_or_default();
    // The form of the request is always the same. So a refusal concerns the directory, the application or its secret.
    let class = match reply.class() {
        FailureClass::InvalidRequest | FailureClass::NotFound => FailureClass::InvalidCredentials,
        class => class,
    };
    // `AADSTS7000215: Invalid client secret provided. …`: the number is more precise than the name of the error.
    let number = error_description.split(':').next().filter(|word| word.starts_with("AADSTS"));
    reply.failure(class, number.unwrap_or(&error), error_description.lines().next().unwrap_or_default())
}
