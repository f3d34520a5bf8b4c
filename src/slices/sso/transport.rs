//! HTTP for the OpenID crate, by the only way out that there is: every address that a provider names is judged as a tenant's target.

use std::{future::Future, pin::Pin, time::Duration};

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

use tenantd_egress::{Audience, Egress, EgressError, Request};

use super::model::{IssuerProblem, provider_url};

/// For one exchange. A sign-on has up to four, which together fit into the time of a request.
const TIMEOUT: Duration = Duration::from_secs(6);
/// The documents of providers are far below.
const MAX_ANSWER_BYTES: usize = 512 << 10;

/// What went wrong on the way. No part of a request or an answer is in it.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    #[error("an address of the provider {0}")]
    Address(IssuerProblem),
    #[error(transparent)]
    Egress(EgressError),
    /// What a server in trouble says of a token is not its word on the token.
    #[error("the provider answers with {0}")]
    Failing(http::StatusCode),
    #[error("the answer is too long")]
    TooLong,
    #[error("the answer cannot be taken up: {0}")]
    Unusable(#[from] http::Error),
}

/// The way to the providers of one tenant.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    pub(super) egress: Egress,
    pub(super) audience: Audience,
}

impl Transport {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let (parts, body) = request.into_parts();
        let url = provider_url(&parts.uri.to_string()).map_err(TransportError::Address)?;
        let repeatable = parts.method == http::Method::GET;
        let request = Request {
            method: parts.method,
            url,
            headers: parts.headers,
            body: body.into(),
            timeout: TIMEOUT,
            audience: self.audience,
            ca_pem: None,
            pinned_certificate: None,
            max_body_bytes: MAX_ANSWER_BYTES,
            repeatable,
        };
        let answer = self.egress.send(request).await.outcome.map_err(TransportError::Egress)?;
        if answer.status.is_server_error() {
            return Err(TransportError::Failing(answer.status));
        }
        if answer.truncated {
            return Err(TransportError::TooLong);
        }
        let mut response = http::Response::builder().status(answer.status).body(answer.body.to_vec())?;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for Transport {
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.exchange(request))
    }
}
