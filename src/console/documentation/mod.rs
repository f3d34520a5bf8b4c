//! The documentation: guides, API reference, errors, events, scopes, rate limits, signing keys, changelog. Everything is made from the
//! running binary. A page that a program may want is also available as JSON.

mod changelog;
mod contents;
mod errors;
mod events;
mod guides;
mod keys;
mod rate_limits;
mod reference;
mod scopes;
mod search;

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use http::StatusCode;
use maud::Markup;
use poem::Response;
use serde_json::Value;

use tenantd_base::secrets::PublicKey;
use tenantd_http::{
    credentials,
    pages::{Page, PageVisit, Readers, json_response},
    problem::{Code, Problem},
    rate::RateLimits,
};
use tenantd_store::events::Kinds;

use self::reference::{Reference, Tried};
use crate::{
    layout::{Frame, Link},
    page,
};

/// What the documentation is made from.
#[allow(missing_debug_implementations, reason = "the rate limits do not print")]
pub struct Sources {
    /// The published OpenAPI document.
    pub document: Arc<Value>,
    pub kinds: Kinds,
    pub rates: Arc<RateLimits>,
    /// The public keys that verify the signatures of this installation, with their purpose.
    pub signing_keys: Vec<(&'static str, PublicKey)>,
}

#[allow(missing_debug_implementations, reason = "its sources do not print")]
pub struct Documentation {
    sources: Sources,
    reference: OnceLock<Reference>,
}

/// The content of a page, and the title and the links above it.
struct Content {
    title: String,
    trail: Vec<Link>,
    body: Markup,
}

impl Content {
    fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), trail: Vec::new(), body }
    }

    fn below(mut self, path: &str, title: &str) -> Self {
        self.trail.push(Link::new(path, title));
        self
    }
}

impl Documentation {
    pub fn new(sources: Sources) -> Self {
        Self { sources, reference: OnceLock::new() }
    }

    fn reference(&self) -> &Reference {
        self.reference.get_or_init(|| Reference::new(self.sources.document.clone()))
    }

    fn json(&self, path: &str) -> Option<Value> {
        match path {
            contents::PATH => Some(contents::json(&self.sources.document)),
            guides::PATH => Some(guides::json()),
            errors::PATH => Some(errors::json()),
            events::PATH => Some(events::json(&self.sources.kinds)),
            scopes::PATH => Some(scopes::json()),
            keys::PATH => Some(keys::json(&self.sources.signing_keys)),
            rate_limits::PATH => Some(rate_limits::json(&self.sources.rates)),
            changelog::PATH => Some(changelog::json()),
            _ => None,
        }
    }

    fn content(&self, visit: &PageVisit<'_>, tried: Option<&Tried>) -> Option<Content> {
        match visit.path {
            contents::PATH => Some(contents::home(self.reference())),
            guides::PATH => Some(guides::list()),
            errors::PATH => Some(errors::content()),
            events::PATH => Some(events::content(&self.sources.kinds)),
            scopes::PATH => Some(scopes::content()),
            keys::PATH => Some(keys::content(&self.sources.signing_keys)),
            rate_limits::PATH => Some(rate_limits::content(&self.sources.rates)),
            changelog::PATH => Some(changelog::content()),
            search::PATH => Some(search::content(self.reference(), &self.sources.kinds, &visit.parameter("q"))),
            path => guides::content(path).or_else(|| self.reference().content(path, visit, tried)),
        }
    }
}

impl Page for Documentation {
    fn serves(&self, path: &str) -> bool {
        const FIXED: [&str; 9] = [
            contents::PATH,
            guides::PATH,
            errors::PATH,
            events::PATH,
            scopes::PATH,
            keys::PATH,
            rate_limits::PATH,
            changelog::PATH,
            search::PATH,
        ];
        FIXED.contains(&path) || guides::has(path) || (reference::is_below(path) && self.reference().has(path))
    }

    fn readers(&self, path: &str) -> Readers {
        if self.takes_forms(path) { Readers::EveryoneAndSignedIn } else { Readers::Everyone }
    }

    fn takes_forms(&self, path: &str) -> bool {
        reference::is_below(path) && self.reference().takes_forms(path)
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        Box::pin(self.page(visit))
    }
}

impl Documentation {
    async fn page(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        // The edge has checked the token of a form against the session of its reader.
        if visit.form.is_some() && visit.reader.is_none() {
            return Err(credentials::missing());
        }
        let tried = self.reference().act(visit).await;
        if visit.as_json
            && let Some(value) = self.json(visit.path)
        {
            return Ok(json_response(StatusCode::OK, &value));
        }
        let content = self.content(visit, tried.as_ref()).ok_or_else(|| Problem::plain(Code::NotFound))?;
        let navigation = contents::navigation(self.reference());
        let query = visit.parameter("q");
        let search = if visit.path == search::PATH { query.as_str() } else { "" };
        let frame = Frame { title: &content.title, path: visit.path, trail: content.trail, navigation: &navigation, search };
        let markup = frame.render(&content.body);
        Ok(match tried {
            // The answer may have a secret that is shown once.
            Some(tried) => page::unkept(tried.refusal().map_or(StatusCode::OK, |refusal| refusal.status), &markup),
            None if visit.reader.is_some() => page::desk(StatusCode::OK, &markup),
            None => page::html(&markup),
        })
    }
}
