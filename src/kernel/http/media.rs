//! The media types of a request: that of its body, and those of its answer.

use http::{HeaderMap, HeaderValue, Method, header};
use poem::Request;
use serde_json::{Map, Value};

use super::{
    FORM,
    context::header as header_text,
    operations::Operation,
    problem::{Code, Problem},
};

/// Refuses an encoded body, such as one compressed with gzip, because it would be read as if it were not encoded.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let plain = |value: &HeaderValue| {
        let codings = value.to_str().ok()?.split(',').map(str::trim);
        codings.filter(|coding| !coding.is_empty()).all(|coding| coding.eq_ignore_ascii_case("identity")).then_some(())
    };
    if headers.get_all(header::CONTENT_ENCODING).iter().all(|value| plain(value).is_some()) {
        return Ok(());
    }
    let detail = "The server does not decode request bodies. Send the body without `Content-Encoding`.";
    Err(Problem::new(Code::UnsupportedMediaType, detail).header(header::ACCEPT_ENCODING, "identity"))
}

/// Whether a body of this media type is JSON that the operation accepts. A PATCH may also use the media type of merge patches
/// (RFC 7396).
pub(super) fn is_json(media_type: &str, operation: &Operation) -> bool {
    media_type.eq_ignore_ascii_case("application/json")
        || (operation.method == Method::PATCH && media_type.eq_ignore_ascii_case("application/merge-patch+json"))
        || operation.consumes.iter().any(|known| known.ends_with("+json") && media_type.eq_ignore_ascii_case(known))
}

/// The fields of a form as the members of an object.
pub(super) fn form(media_type: &str, bytes: &[u8]) -> Result<Value, Problem> {
    if !media_type.eq_ignore_ascii_case(FORM) {
        return Err(Problem::new(Code::UnsupportedMediaType, format!("Send the form as `Content-Type: {FORM}`.")));
    }
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(bytes) {
        if fields.insert(name.to_string(), value.into_owned().into()).is_some() {
            return Err(Problem::new(Code::MalformedRequest, format!("The field {name} is given twice. Send it once.")));
        }
    }
    Ok(Value::Object(fields))
}

pub(super) fn check_accept(request: &Request, operation: &Operation) -> Result<(), Problem> {
    let Some(accept) = header_text(request.headers(), header::ACCEPT) else { return Ok(()) };
    if operation.produces.is_empty() || accept.trim().is_empty() {
        return Ok(());
    }
    let matches = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|part| matches!(part.replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        let offered = |media_type: &String| {
            range == "*/*"
                || *media_type == range
                || range.strip_suffix("/*").is_some_and(|kind| media_type.split('/').next() == Some(kind))
        };
        !refused && operation.produces.iter().any(offered)
    };
    if accept.split(',').any(matches) { Ok(()) } else { Err(Problem::plain(Code::NotAcceptable)) }
}
