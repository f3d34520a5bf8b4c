//! Answers of operations that a browser opens: they lead it on, or show it a page that the console has made.
//!
//! **Invariant:** no answer is kept by a cache. Chromium holds also the redirects after a form to `form-action`, so the way from a form
//! to another host is a page that leads there, never a redirect.

use http::{HeaderName, HeaderValue, StatusCode, header};
use poem::{IntoResponse, Response};
use poem_openapi::{
    ApiResponse,
    registry::{MetaMediaType, MetaResponse, MetaResponses, MetaSchema, MetaSchemaRef, Registry},
};

use super::super::reply;

/// Shows a title and paragraphs as a page.
pub type Notice = fn(title: &str, lines: &[String]) -> Response;

/// Leads a browser on. The edge shows problems of the operation as pages.
#[derive(Debug)]
pub struct WayOn(Response);

impl WayOn {
    pub fn to(address: &str) -> Self {
        let response = Response::builder().status(StatusCode::SEE_OTHER).header(header::CACHE_CONTROL, "no-store").finish();
        Self(response).with_header(header::LOCATION, address)
    }

    /// Shows a page instead.
    pub fn shown(page: Response) -> Self {
        Self(page)
    }

    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers_mut().append(name, value);
        }
        self
    }
}

impl IntoResponse for WayOn {
    fn into_response(self) -> Response {
        self.0
    }
}

impl ApiResponse for WayOn {
    fn meta() -> MetaResponses {
        let headers = [("Location", "The way on."), ("Set-Cookie", "The session.")];
        let way = reply::response(303, "Signed in; the way on.", None, &headers);
        let refused = "The sign-in is refused. A page for people; a problem for clients that do not accept HTML.";
        MetaResponses { responses: vec![way, page(401, refused), reply::declared(502), reply::declared(504)] }
    }

    fn register(_registry: &mut Registry) {}
}

fn page(status: u16, description: &'static str) -> MetaResponse {
    let example = "<!doctype html><html lang=\"en\"><head><title>Sign in – tenantd</title></head><body>…</body></html>";
    let schema = MetaSchema { example: Some(example.into()), ..MetaSchema::new("string") };
    let schema = MetaSchemaRef::Inline(Box::new(schema));
    let content = vec![MetaMediaType { content_type: "text/html", schema }];
    MetaResponse { content, ..reply::response(status, description, None, &[]) }
}
