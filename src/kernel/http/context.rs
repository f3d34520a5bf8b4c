//! What is known about a request once the edge has accepted it: caller, time, operation and checked input. Handlers get it through
//! the extractors of this folder and pass on only the parts that a service needs.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{
    HeaderMap, Method, Uri,
    header::AsHeaderName,
    uri::{Authority, PathAndQuery},
};
use poem::Request;
use serde_json::Value;

use tenantd_base::{
    access::Principal,
    clock::Timestamp,
    clocks::Reading,
    id::{RequestId, TenantId},
    quotas::Allowance,
    secrets::digest,
};
use tenantd_store::events::Intent;

use super::problem::{Code, Problem};

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Address(IpAddr),
    /// The caller uses the admin socket.
    Local,
}

impl Client {
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Local => None,
        }
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Local => f.write_str("local"),
        }
    }
}

/// The URL at which clients reach this server. It is rendered on demand, because most requests never need it.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    public_url: Option<Arc<str>>,
    secure: bool,
    host: Option<Authority>,
}

impl BaseUrl {
    /// `public_url` takes precedence over the host of the request.
    pub fn new(host: Option<Authority>, secure: bool, public_url: Option<Arc<str>>) -> Self {
        Self { public_url, secure, host }
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(url) = &self.public_url {
            return f.write_str(url);
        }
        let host = self.host.as_ref().map_or("localhost", Authority::as_str);
        write!(f, "{}://{host}", if self.secure { "https" } else { "http" })
    }
}

#[derive(Debug)]
pub struct RequestContext {
    pub request_id: RequestId,
    pub operation_id: Arc<str>,
    pub principal: Option<Arc<Principal>>,
    pub client: Client,
    /// Whether the connection is TLS.
    pub secure: bool,
    /// All clocks at the time the request arrived.
    pub clocks: Reading,
    /// How long a proof of identity counts as recent.
    pub recent_within: Duration,
    /// The time of the caller's tenant. Without a caller it is the time of the installation.
    pub now: Timestamp,
    pub method: Method,
    pub uri: Uri,
    pub query: Value,
    /// Whether the client refuses cached answers (`Cache-Control: no-cache`).
    pub no_cache: bool,
    pub base_url: BaseUrl,
    /// Whether a browser sent it from another site with somebody's session.
    pub(super) foreign: bool,
    /// The checked body. The handler's extractor takes it.
    pub(super) body: Mutex<Option<Value>>,
    pub(super) body_digest: Option<[u8; 32]>,
}

impl RequestContext {
    pub fn of(request: &Request) -> Result<Arc<Self>, Problem> {
        let context = request.extensions().get::<Arc<Self>>().cloned();
        context.ok_or_else(|| Problem::internal("a handler was reached without passing the edge"))
    }

    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The path and the query as the client sent them.
    pub fn target(&self) -> &str {
        self.uri.path_and_query().map_or_else(|| self.uri.path(), PathAndQuery::as_str)
    }

    /// Refuses a request that a browser sent from another site with somebody's session. The edge refuses unsafe methods before this
    /// point. A GET that has an effect must call this first.
    pub fn ensure_own_site(&self) -> Result<(), Problem> {
        if self.foreign { Err(Problem::plain(Code::CsrfFailed)) } else { Ok(()) }
    }

    pub(super) fn take_body(&self) -> Option<Value> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The intent of the caller.
    pub fn intent(&self, principal: &Principal) -> Intent {
        self.within_quotas(Intent::of(principal, self.now))
    }

    /// Requests that create records keep to the quotas of the tenant. Requests that change records may also use the reserve.
    fn within_quotas(&self, mut intent: Intent) -> Intent {
        intent.allowance = intent.allowance.max(match self.method {
            Method::POST => Allowance::Quota,
            Method::PUT | Method::PATCH => Allowance::Reserve,
            _ => Allowance::Unlimited,
        });
        intent
    }

    /// The intent of the caller in a tenant that need not be the caller's own.
    pub fn intent_in(&self, principal: &Principal, tenant_id: TenantId) -> Intent {
        let mut intent = Intent::of(principal, self.clocks.of(tenant_id));
        intent.tenant_id = tenant_id;
        self.within_quotas(intent)
    }

    /// The intent of the caller for a change to credentials and sessions. It uses the clock of the installation, and may use the
    /// reserve of the tenant's quotas.
    pub fn guarding_intent(&self, principal: &Principal) -> Intent {
        let intent = Intent::of(principal, self.clocks.installation()).guarding(self.clocks.ahead(principal.tenant_id));
        let mut intent = self.within_quotas(intent);
        intent.allowance = intent.allowance.max(Allowance::Reserve);
        intent
    }

    /// Converts a time of the installation's clock to the time that people of the tenant see.
    pub fn guard_time_in(&self, tenant: TenantId, at: Timestamp) -> Timestamp {
        at + self.clocks.ahead(tenant)
    }

    /// Distinguishes this request from others with the same idempotency key.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut input = self.target().as_bytes().to_vec();
        input.push(0);
        input.extend_from_slice(&self.body_digest.unwrap_or_default());
        digest(&input)
    }
}

/// The value of a header, if it is text.
pub fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
