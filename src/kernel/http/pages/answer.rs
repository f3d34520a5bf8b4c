//! Pages as handlers answer with them: HTML that may hold forms to this server, or the way to another page. What a page says is the
//! slice's; how it is sent is decided here once.
//!
//! **Invariant:** no page loads or runs anything, is put into a frame, is kept by a cache, or sends a form elsewhere. Chromium holds also the
//! redirects after a form to `form-action`, so the way to another host is a page that leads there, never a redirect.

use http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};
use poem_openapi::{
    ApiResponse,
    registry::{MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
};

use super::{
    super::{problem::Problem, reply},
    layout::{Html, escape},
};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page, or a redirect within this site.
#[derive(Debug)]
pub struct PageAnswer {
    status: StatusCode,
    body: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl PageAnswer {
    pub fn shown(status: StatusCode, page: Html) -> Self {
        Self { status, body: Some(page.finish()), headers: Vec::new() }
    }

    /// Leads on to a path of this site.
    pub fn see_other(path: &str) -> Self {
        Self { status: StatusCode::SEE_OTHER, body: None, headers: Vec::new() }.with_header(header::LOCATION, path)
    }

    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }
}

impl IntoResponse for PageAnswer {
    fn into_response(self) -> Response {
        let mut response = match self.body {
            Some(body) => page(self.status, body),
            None => Response::builder().status(self.status).header(header::CACHE_CONTROL, "no-store").finish(),
        };
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

impl ApiResponse for PageAnswer {
    fn meta() -> MetaResponses {
        MetaResponses { responses: vec![html_response(200, "A page."), reply::response(303, "The way on.", None, &[LOCATION])] }
    }

    fn register(_registry: &mut Registry) {}
}

const LOCATION: (&str, &str) = ("Location", "The way on.");

/// What leads a browser on, and shows a page when it cannot.
#[derive(Debug)]
pub struct WayOn(pub PageAnswer);

impl IntoResponse for WayOn {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl ApiResponse for WayOn {
    fn meta() -> MetaResponses {
        let way = reply::response(303, "Signed in; the way on.", None, &[LOCATION, ("Set-Cookie", "The session.")]);
        let refused =
            html_response(401, "The sign-in is refused. A page for people; a problem for clients that do not accept HTML.");
        MetaResponses { responses: vec![way, refused, reply::declared(502), reply::declared(504)] }
    }

    fn register(_registry: &mut Registry) {}
}

fn html_response(status: u16, description: &'static str) -> MetaResponse {
    let example = "<!doctype html><html lang=\"en\"><head><title>Sign in – tenantd</title></head><body>…</body></html>";
    let schema = MetaSchema { example: Some(example.into()), ..MetaSchema::new("string") };
    let schema = MetaSchemaRef::Inline(Box::new(schema));
    let content = vec![MetaMediaType { content_type: "text/html", schema }];
    MetaResponse { content, ..reply::response(status, description, None, &[]) }
}

/// Bytes of a problem's errors that a page shows.
const MAX_LISTED_BYTES: usize = 8 << 10;

/// A problem for somebody who looks at it in a browser.
pub(crate) fn problem(problem: &Problem, request_id: &str) -> Response {
    let mut html = Html::new(problem.code.title());
    html.raw(&format!("<p role=\"alert\">{}</p>", escape(&problem.shown_detail())));
    for error in problem.listed(MAX_LISTED_BYTES) {
        html.paragraph(&error.message);
    }
    html.raw("<p><a href=\"/sign-in\">Sign in</a></p>");
    html.raw(&format!(
        "<p><small>Request <code>{}</code>, error <code>{}</code></small></p>",
        escape(request_id),
        problem.code.name()
    ));
    page(problem.code.status(), html.finish())
}

fn page(status: StatusCode, body: String) -> Response {
    Response::builder()
        .status(status)
        .content_type("text/html; charset=utf-8")
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::REFERRER_POLICY, "same-origin")
        .header(header::CACHE_CONTROL, "no-store")
        .body(body)
}
