//! What is known of a request once the edge has let it through: who, when, which operation, and its checked input. Handlers
//! get it through the extractors of this folder and pass on only the parts that a service needs.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
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

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Address(IpAddr),
    /// The admin socket.
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

/// Where clients reach this server. Written out on demand: most requests never need it.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    public_url: Option<Arc<str>>,
    secure: bool,
    host: Option<Authority>,
}

impl BaseUrl {
    /// `public_url` comes before what the request says.
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
    /// All clocks when the request came.
    pub clocks: Reading,
    /// The time of the caller's tenant; without a caller the installation's.
    pub now: Timestamp,
    pub method: Method,
    pub uri: Uri,
    pub query: Value,
    /// Whether the client wants no answer that was rendered before (`Cache-Control: no-cache`).
    pub anew: bool,
    pub base_url: BaseUrl,
    /// Whether a browser sent it with somebody's session from another site.
    pub(super) foreign: bool,
    /// The checked body; the handler's extractor takes it.
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

    /// The path and query as the client sent them.
    pub fn target(&self) -> &str {
        self.uri.path_and_query().map_or_else(|| self.uri.path(), PathAndQuery::as_str)
    }

    /// Refuses a request that a browser sent with somebody's session from another site. Unsafe methods never come this far then; a GET that
    /// has an effect asks here before it has it.
    pub fn ensure_own_site(&self) -> Result<(), Problem> {
        if self.foreign { Err(Problem::plain(Code::CsrfFailed)) } else { Ok(()) }
    }

    pub(super) fn take_body(&self) -> Option<Value> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the caller is about to do.
    pub fn intent(&self, principal: &Principal) -> Intent {
        self.within_quotas(Intent::of(principal, self.now))
    }

    /// A request that creates keeps to the limits of the tenant's quotas, and one that changes to the reserve behind them.
    fn within_quotas(&self, mut intent: Intent) -> Intent {
        intent.allowance = intent.allowance.max(match self.method {
            Method::POST => Allowance::Quota,
            Method::PUT | Method::PATCH => Allowance::Reserve,
            _ => Allowance::Unlimited,
        });
        intent
    }

    /// What the caller is about to do in a tenant that need not be the caller's own.
    pub fn intent_in(&self, principal: &Principal, tenant_id: TenantId) -> Intent {
        let mut intent = Intent::of(principal, self.clocks.of(tenant_id));
        intent.tenant_id = tenant_id;
        self.within_quotas(intent)
    }

    /// What the caller is about to do with what guards people. It may use the reserve of the tenant's quotas.
    pub fn guarding_intent(&self, principal: &Principal) -> Intent {
        let intent = Intent::of(principal, self.clocks.installation()).guarding(self.clocks.ahead(principal.tenant_id));
        let mut intent = self.within_quotas(intent);
        intent.allowance = intent.allowance.max(Allowance::Reserve);
        intent
    }

    /// A time of what guards people, as the people of a tenant see it.
    pub fn guard_time_in(&self, tenant: TenantId, at: Timestamp) -> Timestamp {
        at + self.clocks.ahead(tenant)
    }

    /// Tells this request from others with the same idempotency key.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut input = self.target().as_bytes().to_vec();
        input.push(0);
        input.extend_from_slice(&self.body_digest.unwrap_or_default());
        digest(&input)
    }
}

/// The value of a header that is text.
pub fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
