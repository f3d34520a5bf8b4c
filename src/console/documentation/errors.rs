//! The error catalogue: each code with its cause, an example and what to do.

use maud::html;
use serde_json::{Value, json};

use tenantd_http::problem::Code;

use super::{Content, contents};
use crate::{
    components::{code, code_block, pretty},
    markdown,
};

pub(super) const PATH: &str = "/documentation/errors/";

fn anchor(code: Code) -> String {
    code.name().replace('_', "-")
}

/// Where the entry of a code is. Every error links to it in `type`.
pub(super) fn link(code: Code) -> String {
    format!("{PATH}#{}", anchor(code))
}

/// When tenantd answers with this code.
pub(super) const fn cause(code: Code) -> &'static str {
    match code {
        Code::MalformedJson => "The body is not one JSON value in UTF-8, repeats a member, or is nested too deeply.",
        Code::UnknownParameter => "The query has a parameter that the operation does not know.",
        Code::MalformedRequest => "A part of the request, such as a header or the path, cannot be read.",
        Code::CursorMismatch => "The cursor was changed, or it comes from a list with other filters or another sort.",
        Code::IdMismatch => "The request names two different records: in its path, in `?id=` or in its body.",
        Code::AmbiguousCredentials => "The request carries two different credentials.",
        Code::MissingCredentials => "The operation needs a credential, and the request has none.",
        Code::InvalidCredentials => "The API key, session or password is unknown or wrong.",
        Code::KeyExpired => "The lifetime of the API key is over.",
        Code::KeyRevoked => "Somebody revoked the API key, or a rotation replaced this secret and its overlap is over.",
        Code::KeyDisabled => {
            "Somebody disabled the API key, or its owner lost their account. A personal key also stops while its person cannot sign in."
        }
        Code::PersonalKeysForbidden => "The API key is a personal one, and the sign-in policy of the tenant forbids them.",
        Code::SessionExpired => "The session ended: it was too long idle, too old, or somebody ended it.",
        Code::SecondFactorRequired => "The password is right, and the person has a second factor.",
        Code::PortalOnly => "A contact in the portal called an operation for staff.",
        Code::ContactRequired => "Staff or an API key called an operation of the portal.",
        Code::SecondFactorMissing => {
            "The session has proven no second factor. Either the sign-in policy requires one for the role of the person, or the person has \
             one and wants to change their factors or their password, or to confirm that it is them."
        }
        Code::InsufficientScope => "The credential lacks a scope that the request needs.",
        Code::InsufficientAuthority => "The request would create or change a credential with rights that you do not hold yourself.",
        Code::SupersededSecret => "The secret still works after a rotation, but it cannot create or change credentials any more.",
        Code::AdminRequired => "The role of the signed-in person lacks a scope that only administrators have.",
        Code::OperatorRequired => "The operation belongs to the operator of the installation.",
        Code::RecentSignInRequired => {
            "The operation is sensitive, and the person of the session has not proven who they are recently."
        }
        Code::IpNotAllowed => "The API key is limited to networks, and the request comes from another address.",
        Code::HttpsRequired => "The request carries a credential over plain HTTP.",
        Code::CsrfFailed => "A browser sent the session cookie with a change from a page of another site.",
        Code::TenantSuspended => "The operator suspended the tenant.",
        Code::NotFound => "Nothing with this path or id exists, or your credential cannot see it.",
        Code::SsoProviderNotFound => "No identity provider has proven this domain.",
        Code::MethodNotAllowed => "The path exists, but not with this method.",
        Code::NotAcceptable => "The `Accept` header names only media types that the operation does not produce.",
        Code::AlreadyExists => "Another record already has a value that must be unique.",
        Code::InUse => "Other records refer to this one, or work on it is still under way.",
        Code::InvalidTransition => "The current state of the record does not allow this change.",
        Code::SingleSignOnRequired => {
            "The tenant requires staff to sign in through its identity provider, and a password or a link was used to sign in, to confirm, or \
             to change the password."
        }
        Code::TenantRequired => "The same address and password exist in several tenants.",
        Code::RunNotCancellable => "The workflow run is already over.",
        Code::IdempotencyInProgress => "A request with the same `Idempotency-Key` is still running.",
        Code::VersionConflict => "The record changed after you read it: its `ETag` is not the one in `If-Match`.",
        Code::PayloadTooLarge => "The body, or the records that the request would touch, exceed a limit.",
        Code::UnsupportedMediaType => "The `Content-Type` of the body is not one that the operation reads.",
        Code::ValidationFailed => "One or more fields do not match the schema, or refer to records that do not exist.",
        Code::IdempotencyKeyReused => "The `Idempotency-Key` was used before, for a request with other contents.",
        Code::QuotaExceeded => "The tenant has used up one of its quotas.",
        Code::LimitReached => "The tenant has as many records of this type as it may have.",
        Code::DomainNotProven => "The tenant has not proven that it controls the domain.",
        Code::TargetNotAllowed => "The URL leads to an address that tenantd must not call, such as a private network.",
        Code::ProviderVerificationFailed => "The cloud refused the credentials, or a permission is missing.",
        Code::RateLimited => "The credential, the tenant or the address sent more requests than its limit allows.",
        Code::InternalError => "tenantd has a defect. The operator finds the cause in the log under the `request_id`.",
        Code::Unavailable => "tenantd cannot do this at the moment: it starts, stops, is busy, or the disk is nearly full.",
        Code::OutcomeUnknown => "The server lost its disk or stopped while it stored the change.",
        Code::ProviderError => "A server that tenantd called for this request returned an error.",
        Code::ProviderTimeout => "A server that tenantd called for this request did not answer in time.",
        Code::RequestTimeout => "The request arrived too slowly.",
    }
}

/// An answer with this code.
fn example(code: Code) -> Value {
    let mut problem = json!({
        "type": link(code),
        "title": code.title(),
        "status": code.status().as_u16(),
        "code": code.name(),
        "detail": code.title(),
        "instance": "/api/psa/tickets",
        "request_id": "req_01k9z7w3v5e8g9m2n4p6r8t0x1",
    });
    let (detail, more) = match code {
        Code::UnknownParameter => (
            "A query parameter does not exist",
            json!({"errors": [{"parameter": "per_page", "code": "unknown_parameter", "message": "the parameter per_page does not exist here", "suggestion": "limit"}]}),
        ),
        Code::InsufficientScope => ("This needs the scope tickets:write.", json!({"required_scopes": ["tickets:write"]})),
        Code::InvalidTransition => ("A closed ticket cannot become new.", json!({"allowed_transitions": ["open"]})),
        Code::ValidationFailed => (
            "The input has 2 errors",
            json!({"errors": [
                {"pointer": "/subject", "code": "required", "message": "is required"},
                {"pointer": "/priority", "code": "enum", "message": "is not one of the allowed values", "allowed": ["critical", "high", "normal", "low"], "suggestion": "high"},
            ]}),
        ),
        Code::QuotaExceeded => {
            ("The tenant's quota of records is used up.", json!({"quota": "records", "limit": 100_000, "used": 100_000}))
        }
        Code::RateLimited | Code::Unavailable => (code.title(), json!({"retry_after_seconds": 3})),
        _ => (code.title(), json!({})),
    };
    if let (Some(problem), Value::Object(more)) = (problem.as_object_mut(), more) {
        problem.insert("detail".to_owned(), json!(detail));
        problem.extend(more);
    }
    problem
}

pub(super) fn json() -> Value {
    let entry = |code: &Code| {
        json!({
            "code": code.name(),
            "status": code.status().as_u16(),
            "title": code.title(),
            "cause": cause(*code),
            "remedy": code.remedy(),
        })
    };
    json!({"data": Code::ALL.iter().map(entry).collect::<Vec<Value>>()})
}

pub(super) fn content() -> Content {
    let mut codes = Code::ALL.to_vec();
    codes.sort_by_key(|known| known.status());
    Content::new(
        "Errors",
        html! {
            h1 { "Errors" }
            p.lead { "Every error is a JSON object of the type " code { "application/problem+json" } " (RFC 9457)." }
            ul {
                li { "Decide by " code { "code" } ". It never changes. " code { "detail" } " is for people and can change." }
                li { code { "errors" } " lists what is wrong with a body or a query, each with a pointer or the name of the parameter." }
                li { "Give the " code { "request_id" } " to your operator. The log of the server has it." }
            }
            h2 { "All codes" }
            ul.cards {
                @for known in &codes { li { a href={ "#" (anchor(*known)) } { (known.name()) } p { (known.status().as_u16()) " · " (known.title()) } } }
            }
            @for known in &codes {
                section.error-entry id=(anchor(*known)) {
                    h2 { (code(known.name())) " " small { (known.status().as_u16()) " · " (known.title()) } }
                    dl.facts {
                        dt { "Cause" } dd { (markdown::cell(cause(*known))) }
                        dt { "What to do" } dd { (markdown::cell(known.remedy())) }
                    }
                    details { summary { "Example of " (known.name()) } (code_block("json", &pretty(&example(*known)))) }
                }
            }
        },
    )
    .below(contents::PATH, "Documentation")
}
