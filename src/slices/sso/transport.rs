//! HTTP requests to providers, through the kernel's egress. Every URL that a provider names is vetted like a target of the tenant.

use std::time::Duration;

use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};

use tenantd_base::secrets::Secret;
use tenantd_egress::{Audience, Egress, EgressError, Request, Response};

use super::model::{IssuerProblem, provider_url};

/// The time limit of one exchange. A sign-on has up to four, which together fit into the time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(6);
/// The maximum size of a response. The documents of providers are far smaller.
const MAX_ANSWER_BYTES: usize = 512 << 10;

/// A transport failure. It contains no part of a request or a response.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    #[error("a URL of the provider {0}")]
    Address(IssuerProblem),
    #[error(transparent)]
    Egress(EgressError),
    /// A server error says nothing about a token, so it is not a refusal.
    #[error("the provider returned {0}")]
    Failing(http::StatusCode),
    #[error("the response is too large")]
    TooLong,
    #[error("the request could not be built: {0}")]
    Unusable(#[from] http::Error),
}

/// The HTTP client for the providers of one tenant.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    pub(super) egress: Egress,
    pub(super) audience: Audience,
}

impl Transport {
    pub(super) async fn get(&self, url: &str, authorization: Option<&Secret>) -> Result<Response, TransportError> {
        self.exchange(Method::GET, url, authorization, None).await
    }

    pub(super) async fn post(&self, url: &str, authorization: Option<&Secret>, form: Secret) -> Result<Response, TransportError> {
        self.exchange(Method::POST, url, authorization, Some(form)).await
    }

    async fn exchange(
        &self,
        method: Method,
        url: &str,
        authorization: Option<&Secret>,
        form: Option<Secret>,
    ) -> Result<Response, TransportError> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, HeaderValue::try_from(authorization.expose()).map_err(http::Error::from)?);
        }
        if form.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        let request = Request {
            repeatable: method == Method::GET,
            method,
            url: provider_url(url).map_err(TransportError::Address)?,
            headers,
            body: form.map(|form| form.expose().to_owned()).unwrap_or_default().into(),
            timeout: TIMEOUT,
            audience: self.audience,
            ca_pem: None,
            pinned_certificate: None,
            max_body_bytes: MAX_ANSWER_BYTES,
        };
        let answer = self.egress.send(request).await.outcome.map_err(TransportError::Egress)?;
        if answer.status.is_server_error() {
            return Err(TransportError::Failing(answer.status));
        }
        if answer.truncated {
            return Err(TransportError::TooLong);
        }
        Ok(answer)
    }
}
