//! Turns failures outside a handler into problems, and problems into answers.

use http::{Method, StatusCode, header};
use poem::Response;

use tenantd_base::{id::RequestId, programs::LaneError};

use super::{
    context::BaseUrl,
    operations::Operation,
    problem::{Code, FieldError, Findings, Problem},
};

pub(super) fn bad_query(found: Findings) -> Problem {
    let mut problem = Problem::from(found);
    if problem.errors.iter().any(|error| error.code == "unknown_parameter") {
        problem.code = Code::UnknownParameter;
    }
    problem
}

/// The thread that parses a large body was busy or failed.
pub(super) fn lane(error: LaneError) -> Problem {
    match error {
        LaneError::Busy => Problem::unavailable("Too many requests of your tenant are waiting.", 1),
        LaneError::Panicked(reason) => Problem::internal(format!("reading a body panicked: {reason}")),
    }
}

pub(super) fn other_method(methods: &[&Method]) -> Problem {
    let mut allowed: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    if allowed.contains(&"GET") {
        allowed.push("HEAD");
    }
    Problem::plain(Code::MethodNotAllowed).header(header::ALLOW, &allowed.join(", "))
}

/// A handler that takes too long is abandoned, but a change that it has handed to the store may still happen.
pub(super) fn late(changes: bool) -> Problem {
    if changes {
        return Problem::plain(Code::OutcomeUnknown).retry_after(5);
    }
    Problem::unavailable("The server took too long to process the request.", 5)
}

/// Turns any error of a handler or of the framework into a problem.
pub(super) fn problem(error: poem::Error, operation: Option<&Operation>) -> Problem {
    use poem_openapi::error::{ParseParamError, ParsePathError};
    let error = match error.downcast::<Problem>() {
        Ok(problem) => return problem,
        Err(error) => error,
    };
    let parameter = |name: &str, reason: &str| {
        let reason = reason.split_once("\": ").map_or(reason, |(_, reason)| reason);
        Problem::invalid(vec![FieldError::parameter(name, "wrong_form", format!("{name}: {reason}"))])
    };
    if let Some(bad) = error.downcast_ref::<ParseParamError>() {
        return parameter(bad.name, &bad.reason);
    }
    if let Some(bad) = error.downcast_ref::<ParsePathError>() {
        // poem-openapi numbers path parameters; the document knows their names.
        let place = bad.name.strip_prefix("param").and_then(|number| number.parse::<usize>().ok());
        let names = operation.map(|operation| operation.path.split('{').skip(1).filter_map(|rest| rest.split('}').next()));
        let name = names.and_then(|mut names| names.nth(place?)).unwrap_or(bad.name);
        return parameter(name, &bad.reason);
    }
    match error.status() {
        StatusCode::NOT_FOUND => Problem::plain(Code::NotFound),
        StatusCode::METHOD_NOT_ALLOWED => Problem::plain(Code::MethodNotAllowed),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Problem::plain(Code::UnsupportedMediaType),
        StatusCode::PAYLOAD_TOO_LARGE => Problem::plain(Code::PayloadTooLarge),
        status if status.is_client_error() => Problem::new(Code::MalformedRequest, error.to_string()),
        _ => Problem::internal(error),
    }
}

/// Logs what caused a problem, which the caller does not see.
pub(super) fn log(problem: &Problem, path: &str, request_id: RequestId) {
    if let Some(cause) = &problem.cause {
        tracing::error!(%request_id, path, code = problem.code.name(), cause, "a request failed");
    }
}

pub(super) fn response(problem: &Problem, base_url: &BaseUrl, path: &str, request_id: RequestId) -> Response {
    log(problem, path, request_id);
    let body = problem.body(&base_url.to_string(), path, &request_id.to_string());
    let mut response = Response::builder()
        .status(problem.code.status())
        .content_type("application/problem+json")
        .body(serde_json::to_vec(&body).unwrap_or_default());
    response.headers_mut().extend(problem.headers.clone());
    response
}
