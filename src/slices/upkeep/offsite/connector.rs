//! The HTTP client for `object_store`. It uses the egress module with its limits on time and size. The operator chose the
//! target, so private networks and loopback are allowed. Link-local addresses and metadata services stay blocked.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use http::Method;
use http_body_util::BodyExt;
use object_store::{
    ClientOptions,
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService},
};

use tenantd_base::{
    config::{self, PRIVATE_NETWORKS},
    secrets::Concealer,
};
use tenantd_egress::{Audience, Egress, EgressError, Request, TargetUrl};

use super::{credentials::Credentials, transfer::PIECE_BYTES};

/// The time limit of a request without a body. Each 64 KiB adds a second.
const LEAST_TIME: Duration = Duration::from_mins(1);
const BYTES_A_SECOND: u64 = 64 << 10;

/// Responses are parts of objects, and lists.
const MAX_ANSWER_BYTES: u64 = PIECE_BYTES + (1 << 20);

#[derive(Clone, Debug)]
pub(super) struct Connector {
    egress: Egress,
    /// Redacts the access key in errors, because a server may repeat it in an answer that is then logged.
    concealer: Arc<Concealer>,
}

impl Connector {
    pub(super) fn new(settings: &config::Egress, credentials: &Credentials) -> Result<Self, String> {
        let mut allowed_addresses = settings.allowed_addresses.clone();
        allowed_addresses.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
        let allowed_networks = PRIVATE_NETWORKS.to_vec();
        // The list is for targets of tenants.
        let settings = config::Egress { allowed_networks, allowed_addresses, only_targets: Vec::new(), ..settings.clone() };
        let Credentials { access_key_id, secret_access_key, session_token } = credentials;
        let secrets = [Some(access_key_id), Some(secret_access_key), session_token.as_ref()];
        let concealer = Arc::new(Concealer::new(secrets.into_iter().flatten()));
        Ok(Self { egress: Egress::new(&settings, &[])?, concealer })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the response is longer than {MAX_ANSWER_BYTES} bytes")]
struct TooLong;

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let url = TargetUrl::parse(&head.uri.to_string()).map_err(|problem| HttpError::new(HttpErrorKind::Unknown, problem))?;
        let moved = (body.len() as u64).max(if head.method == Method::GET { PIECE_BYTES } else { 0 });
        let request = Request {
            repeatable: head.method != Method::POST,
            method: head.method,
            url,
            headers: head.headers,
            body,
            timeout: LEAST_TIME + Duration::from_secs(moved / BYTES_A_SECOND),
            audience: Audience::default(),
            ca_pem: None,
            pinned_certificate: None,
            max_body_bytes: usize::try_from(MAX_ANSWER_BYTES).unwrap_or(usize::MAX),
        };
        let answer = self.egress.send(request).await.outcome.map_err(|error| HttpError::new(kind(&error), error))?;
        if answer.truncated {
            return Err(HttpError::new(HttpErrorKind::Decode, TooLong));
        }
        let body = if answer.status.is_success() { answer.body } else { self.concealer.conceal(&answer.body, false).into() };
        let mut response = HttpResponse::new(HttpResponseBody::from(body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

/// Tells `object_store` what it may retry.
fn kind(error: &EgressError) -> HttpErrorKind {
    match error {
        EgressError::Dns(_) | EgressError::Connect(_) => HttpErrorKind::Connect,
        EgressError::Timeout => HttpErrorKind::Timeout,
        EgressError::Reset => HttpErrorKind::Interrupted,
        EgressError::Blocked(_) | EgressError::Tls(_) | EgressError::Protocol(_) => HttpErrorKind::Unknown,
    }
}
