//! How a page leaves the server: headers, the content security policy, and the style sheet and script that all pages share.

use std::future::ready;

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode, header};
use maud::Markup;
use poem::Response;

use tenantd_base::secrets::digest;
use tenantd_http::{
    pages::{Page, PageVisit, Readers},
    problem::{Code, Problem},
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("console.js");
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A file that pages share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

pub(crate) const STYLE_SHEET: Asset = Asset { path: "/assets/console.css", media_type: "text/css; charset=utf-8", text: STYLE };
pub(crate) const CONSOLE_SCRIPT: Asset =
    Asset { path: "/assets/console.js", media_type: "text/javascript; charset=utf-8", text: SCRIPT };

impl Asset {
    pub(crate) fn find(path: &str) -> Option<Self> {
        [STYLE_SHEET, CONSOLE_SCRIPT].into_iter().find(|asset| asset.path == path)
    }

    /// A version of the file, so that a browser asks again after an upgrade.
    fn version(self) -> String {
        data_encoding::HEXLOWER.encode(digest(self.text.as_bytes()).get(..6).unwrap_or_default())
    }

    pub(crate) fn address(self) -> String {
        format!("{}?v={}", self.path, self.version())
    }

    pub(crate) fn answer(self, if_none_match: Option<&str>) -> Response {
        let etag = format!("\"{}\"", self.version());
        let response = Response::builder().header(header::ETAG, &etag).header(header::CACHE_CONTROL, "public, max-age=86400");
        if if_none_match.is_some_and(|tags| tags.contains(&etag)) {
            return response.status(StatusCode::NOT_MODIFIED).finish();
        }
        response.content_type(self.media_type).body(self.text)
    }
}

/// Serves the style sheet and the script.
#[derive(Clone, Copy, Debug)]
pub struct Assets;

impl Page for Assets {
    fn serves(&self, path: &str) -> bool {
        Asset::find(path).is_some()
    }

    fn readers(&self, _path: &str) -> Readers {
        Readers::Everyone
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        let asset = Asset::find(visit.path).ok_or_else(|| Problem::plain(Code::NotFound));
        Box::pin(ready(asset.map(|asset| asset.answer(visit.if_none_match()))))
    }
}

fn page(status: StatusCode, page: &Markup, cache: &'static str) -> Response {
    Response::builder()
        .status(status)
        .content_type("text/html; charset=utf-8")
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::REFERRER_POLICY, "same-origin")
        .header(header::CACHE_CONTROL, cache)
        .body(page.0.clone())
}

/// A page for everyone.
pub(crate) fn html(markup: &Markup) -> Response {
    page(StatusCode::OK, markup, "no-cache")
}

/// A page for one reader. The next person at the same browser must not find it.
pub(crate) fn desk(status: StatusCode, markup: &Markup) -> Response {
    unkept(status, markup)
}

/// A page with something that must not be kept, such as a password.
pub(crate) fn unkept(status: StatusCode, markup: &Markup) -> Response {
    page(status, markup, "no-store")
}

/// Server-sent events for the script of a page.
pub(crate) fn events(events: String) -> Response {
    Response::builder().content_type("text/event-stream").header(header::CACHE_CONTROL, "no-store").body(events)
}

/// Adds the cookies that an answer of the API sets.
pub(crate) fn with_cookies(mut response: Response, headers: &HeaderMap) -> Response {
    for cookie in headers.get_all(header::SET_COOKIE) {
        response.headers_mut().append(header::SET_COOKIE, cookie.clone());
    }
    response
}

/// Leads on to a path of this site.
pub(crate) fn see_other(path: &str) -> Response {
    Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, path)
        .header(header::CACHE_CONTROL, "no-store")
        .finish()
}
