//! A request for a page, and the calls of the API that a page makes for its reader.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use tenantd_base::{access::Principal, clock::Timestamp, secrets::Secret};

use super::super::credentials;

/// A request for a page.
#[allow(missing_debug_implementations, reason = "the API does not print")]
#[derive(Clone, Copy)]
pub struct PageVisit<'a> {
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    /// Who reads the page, if [`super::Page::readers`] asks for it.
    pub reader: Option<&'a Principal>,
    /// The client accepts JSON and no HTML.
    pub as_json: bool,
    /// The fields of a form that was sent; `None` if the page is only read. The edge has checked that it comes from this site.
    pub form: Option<&'a [(String, String)]>,
    /// What every form must send as [`super::FORM_TOKEN`]; empty without a session.
    pub form_token: &'a str,
    /// The time of the reader's tenant. Without a reader it is the time of the installation.
    pub now: Timestamp,
    /// The URL at which the visitor reaches this server.
    pub base_url: &'a str,
    /// The connection is TLS.
    pub secure: bool,
    pub api: &'a dyn Api,
}

impl PageVisit<'_> {
    /// The first value of a query parameter, without surrounding spaces. Empty when it is missing.
    pub fn parameter(&self, name: &str) -> String {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    }

    pub fn cookie(&self, name: &str) -> Option<&str> {
        credentials::cookie(self.headers, name)
    }

    /// The `If-None-Match` header.
    pub fn if_none_match(&self) -> Option<&str> {
        super::super::context::header(self.headers, "if-none-match")
    }

    /// The token of the session, if the visitor sent one.
    pub fn session(&self) -> Option<Secret> {
        credentials::session_token(self.headers, self.secure)
    }
}

/// Calls operations of the API with the credential of the visitor. A page can do what its reader could do with the API, and no more.
pub trait Api: Send + Sync {
    fn call(&self, call: Call) -> BoxFuture<'_, ApiAnswer>;

    /// As [`Self::call`], for an answer that need not be JSON or end soon. Reads at most this many bytes of it.
    fn first_bytes(&self, call: Call, most: usize) -> BoxFuture<'_, FirstBytes>;
}

/// A request to the API.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// The path with the query.
    pub target: String,
    pub body: Option<Value>,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    pub idempotency_key: Option<String>,
}

impl Call {
    pub fn get(target: impl Into<String>) -> Self {
        Self::send(Method::GET, target, None)
    }

    pub fn send(method: Method, target: impl Into<String>, body: Option<Value>) -> Self {
        Self { method, target: target.into(), body, if_match: None, if_none_match: None, idempotency_key: None }
    }
}

/// The begin of what the API answered, as any client gets it.
#[derive(Clone, Debug)]
pub struct FirstBytes {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The answer goes on, or it broke off.
    pub is_cut: bool,
}

/// What the API answered: a value or a problem, as any client gets it.
#[derive(Clone, Debug)]
pub struct ApiAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}
