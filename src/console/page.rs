//! How a page leaves the server: headers, the content security policy, and the style sheet that all pages share.

use http::{StatusCode, header};
use maud::Markup;
use poem::Response;

use tenantd_base::secrets::digest;

const STYLE: &str = include_str!("style.css");
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Where browsers get the style sheet.
pub const STYLE_PATH: &str = "/assets/console.css";

/// A version of the style sheet, so that a browser asks again after an upgrade.
pub fn style_version() -> String {
    data_encoding::HEXLOWER.encode(digest(STYLE.as_bytes()).get(..6).unwrap_or_default())
}

pub fn html(page: Markup) -> Response {
    Response::builder()
        .content_type("text/html; charset=utf-8")
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::REFERRER_POLICY, "same-origin")
        .body(page.into_string())
}

pub fn style(if_none_match: Option<&str>) -> Response {
    let etag = format!("\"{}\"", style_version());
    let response = Response::builder().header(header::ETAG, &etag).header(header::CACHE_CONTROL, "public, max-age=86400");
    if if_none_match.is_some_and(|tags| tags.contains(&etag)) {
        return response.status(StatusCode::NOT_MODIFIED).finish();
    }
    response.content_type("text/css; charset=utf-8").body(STYLE)
}
