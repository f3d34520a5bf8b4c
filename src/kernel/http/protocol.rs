//! A protocol that is not part of the published API, such as SCIM. It has its own paths and its own form of errors.
//!
//! **Invariant:** a request of a protocol takes the path of every other request: authentication, need, rate limit, limits of the
//! body, telemetry. So a protocol describes its operations in a document too, which nobody publishes.
//! **Boundary:** only the forms differ here. A protocol has no power of its own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use poem::{Endpoint, Request, Response, endpoint::BoxEndpoint};
use serde_json::Value;

use tenantd_base::versions::ExpectedVersion;

use super::{
    context::RequestContext,
    openapi::Document,
    precondition::{self, IfNoneMatch},
    problem::Problem,
};

/// A protocol with paths of its own.
pub trait Protocol: Send + Sync {
    /// The beginning of all of its paths, such as `/scim/v2`.
    fn prefix(&self) -> &'static str;

    /// The operations, in the form of the published document.
    fn document(&self) -> &Document;

    /// Answers a request that the edge has accepted.
    fn answer(&self, request: ProtocolRequest) -> BoxFuture<'_, Result<Response, Problem>>;

    /// The answer to a request that was refused or failed.
    fn refusal(&self, problem: &Problem) -> Response;
}

/// A request that the edge has accepted.
#[derive(Debug)]
pub struct ProtocolRequest {
    pub context: Arc<RequestContext>,
    /// The body, if the operation has one and the client has sent one.
    pub body: Option<Value>,
    /// The version that the client expects (`If-Match`).
    pub expected: ExpectedVersion,
    /// The version that the client already has (`If-None-Match`).
    pub known: IfNoneMatch,
}

impl ProtocolRequest {
    fn new(request: &Request) -> Result<Self, Problem> {
        let context = RequestContext::of(request)?;
        let body = context.take_body();
        let expected = precondition::expected(request.headers())?;
        Ok(Self { context, body, expected, known: precondition::known(request.headers()) })
    }

    /// The path behind the prefix of the protocol, as its parts. No part is empty, except that there may be none.
    pub fn parts(&self, prefix: &str) -> Vec<String> {
        let rest = self.context.path().strip_prefix(prefix).unwrap_or_default();
        let decoded = |part: &str| form_urlencoded::parse(part.as_bytes()).next().map(|(name, _)| name.into_owned());
        rest.split('/').filter(|part| !part.is_empty()).filter_map(decoded).collect()
    }

    /// The parameters of the query as the client sent them.
    pub fn query(&self) -> Vec<(String, String)> {
        form_urlencoded::parse(self.context.uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
    }
}

/// All protocols of an edge.
#[derive(Default)]
pub struct Protocols(Vec<Box<dyn Protocol>>);

impl std::fmt::Debug for Protocols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|protocol| protocol.prefix())).finish()
    }
}

impl Protocols {
    pub fn new(protocols: Vec<Box<dyn Protocol>>) -> Self {
        Self(protocols)
    }

    /// The documents of all protocols.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.0.iter().map(|protocol| protocol.document())
    }

    /// The protocol that a path belongs to.
    pub(super) fn serving(&self, path: &str) -> Option<&dyn Protocol> {
        let is_within = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.0.iter().find(|protocol| is_within(protocol.prefix())).map(|protocol| &**protocol)
    }

    /// Calls the handler of a request: that of its protocol, or that of the API.
    pub(super) async fn call(&self, api: &BoxEndpoint<'static, Response>, request: Request) -> poem::Result<Response> {
        match self.serving(request.uri().path()) {
            Some(protocol) => {
                let request = ProtocolRequest::new(&request)?;
                Ok(protocol.answer(request).await?)
            }
            None => api.call(request).await,
        }
    }
}
