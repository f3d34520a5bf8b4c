//! The answers of a listener that only redirects to HTTPS. People who typed an address without a scheme are redirected. A program
//! gets an error, because it has sent its secret without encryption and would continue to do so.

use http::{HeaderValue, StatusCode, header};
use poem::{Request, Response};

use super::{
    context::header as header_text,
    pages::is_probe,
    problem::{Code, Problem},
};

pub(super) fn answer(request: &Request, https_port: u16) -> Result<Response, Problem> {
    let path = request.uri().path();
    if path.starts_with("/api/") || path.starts_with("/internal/") || is_probe(path) {
        return Err(Problem::plain(Code::HttpsRequired));
    }
    let host = header_text(request.headers(), header::HOST).unwrap_or("localhost");
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let port = if https_port == 443 { String::new() } else { format!(":{https_port}") };
    let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let location = HeaderValue::try_from(format!("https://{host}{port}{target}"))
        .map_err(|_| Problem::new(Code::MalformedRequest, "The host of the request cannot be read. Send a valid `Host` header."))?;
    Ok(Response::builder().status(StatusCode::PERMANENT_REDIRECT).header(header::LOCATION, location).finish())
}
