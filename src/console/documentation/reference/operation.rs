//! The page of an operation: what it does and needs, its parameters, body and answers, and examples in four languages.

use maud::{Markup, html};
use serde_json::Value;

use tenantd_base::access::Scope;
use tenantd_http::problem::Code;

use super::{Area, Operation, PATH, effects, samples, schema, text};
use crate::{
    components::{code, code_block, method, pretty, table},
    documentation::{Content, contents, errors, events, rate_limits, scopes},
    markdown,
};

/// The scopes that an operation names, in any combination.
pub(super) fn scopes_of(operation: &Value) -> Vec<&str> {
    let need = text(operation, "x-need");
    let names = ["scope:", "any_scope:", "all_scopes:"].into_iter().find_map(|prefix| need.strip_prefix(prefix));
    names.map(|names| names.split(',').collect()).unwrap_or_default()
}

/// What the caller must be, in words.
fn access(operation: &Value) -> Markup {
    let need = text(operation, "x-need");
    let scopes = scopes_of(operation);
    let intro = match (need, need.split(':').next()) {
        ("", _) => "Anyone. The operation needs no credential.",
        ("signed_in", _) => "Any valid API key or session.",
        ("own_account", _) => "Any valid API key or session, also the session of a contact.",
        ("contact", _) => "The session of a contact with portal access.",
        ("operator", _) => "The operator of the installation.",
        ("platform", _) => "The operator of the installation, or a key of the platform tenant with platform:read.",
        (_, Some("all_scopes")) => "A credential with all of these scopes:",
        (_, Some("any_scope")) => "A credential with one of these scopes. The request decides which one:",
        _ => "A credential with this scope:",
    };
    html! {
        (intro)
        @for name in &scopes {
            br;
            a href=(scopes::PATH) { (code(name)) }
            @if let Some(scope) = Scope::ALL.iter().find(|scope| scope.name() == *name) { " " span.muted { (scope.description()) } }
        }
    }
}

fn parameters(document: &Value, operation: &Value) -> Markup {
    let parameters: Vec<&Value> = operation.get("parameters").and_then(Value::as_array).into_iter().flatten().collect();
    let rows: Vec<Vec<Markup>> = parameters
        .iter()
        .map(|parameter| {
            let is_required = parameter.get("required") == Some(&Value::Bool(true));
            vec![
                html! { code { (text(parameter, "name")) } @if is_required { " " span.badge { "required" } } },
                html! { (text(parameter, "in")) },
                html! { span.type { (schema::kind(parameter.get("schema").unwrap_or(&Value::Null))) } },
                markdown::cell(schema::description_of(document, parameter)),
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h2 #parameters { "Parameters" }
            (table("Parameters", &["parameter", "in", "type", "description"], &rows))
        }
    }
}

fn request_body(document: &Value, operation: &Value) -> Markup {
    let body = operation.get("requestBody");
    let content = body.and_then(|body| body.get("content")).and_then(Value::as_object);
    let is_required = body.is_some_and(|body| body.get("required") == Some(&Value::Bool(true)));
    html! {
        @if let Some(content) = content {
            h2 #body { "Body" }
            @for (media_type, media) in content {
                p { (code(media_type)) @if !is_required { " (optional)" } }
                @if let Some(schema) = media.get("schema") { (schema::body(document, schema)) }
            }
        }
    }
}

fn answers(document: &Value, operation: &Value) -> Markup {
    let responses: Vec<(&String, &Value)> = operation.get("responses").and_then(Value::as_object).into_iter().flatten().collect();
    let succeeds = |status: &str| status.starts_with('2') || status.starts_with('3');
    let errors: Vec<Vec<Markup>> = responses
        .iter()
        .filter(|(status, _)| !succeeds(status))
        .map(|(status, _)| {
            let codes = Code::ALL.iter().filter(|known| known.status().as_str() == status.as_str());
            vec![
                code(status),
                html! { @for known in codes { div { a href=(errors::link(*known)) { (code(known.name())) } " " span.muted { (known.title()) } } } },
            ]
        })
        .collect();
    html! {
        h2 #answers { "Answers" }
        @for (status, response) in responses.iter().filter(|(status, _)| succeeds(status)) {
            @let response = schema::resolved(document, response);
            h3 { (status) }
            (markdown::description(text(response, "description")))
            @for (media_type, media) in response.get("content").and_then(Value::as_object).into_iter().flatten() {
                p { (code(media_type)) @if let Some(schema) = media.get("schema") { ": " (schema::kind(schema)) } }
            }
            @for (name, header) in response.get("headers").and_then(Value::as_object).into_iter().flatten() {
                p { "Header " (code(name)) ": " (markdown::cell(text(header, "description"))) }
            }
        }
        h2 #errors { "Errors" }
        p { "Decide by the code in the answer. A status can have codes that this operation never returns." }
        (table("Errors", &["status", "codes"], &errors))
    }
}

/// The examples of the body's and the answer's JSON, and of the whole request in four languages.
fn examples(operation: &Operation, value: &Value) -> Markup {
    // 201 says more than the 200 of a dry run.
    let example = |status: &'static str| {
        let pointer = format!("/responses/{status}/content/application~1json/example");
        Some((status, value.pointer(&pointer)?))
    };
    let answer = ["201", "202", "200"].into_iter().find_map(example);
    html! {
        h2 { "Request" }
        @for sample in samples::all(&operation.method, &operation.path, value) {
            details open[sample.language == "sh"] {
                summary { (sample.title) }
                (code_block(sample.language, &sample.code))
            }
        }
        @if let Some((status, example)) = answer {
            h2 { "Answer " (status) }
            (code_block("json", &pretty(example)))
        }
    }
}

pub(super) fn content(document: &Value, area: &Area, operation: &Operation, try_it: &Markup) -> Content {
    let value = operation.value(document);
    let kinds = effects::kinds_of(&operation.id);
    let body = html! {
        h1 { (operation.summary) }
        p.endpoint { (method(&operation.method)) (code(&operation.path)) }
        div.operation {
            div {
                (markdown::description(text(value, "description")))
                dl.facts {
                    dt { "Access" } dd { (access(value)) }
                    @if value.get("x-recent-sign-in") == Some(&Value::Bool(true)) {
                        dt { "Recent sign-in" }
                        dd {
                            "A session must have been proven recently, unless the request only disables something or the description "
                            "says otherwise. If it was not, the answer is "
                            a href="/documentation/errors/#recent-sign-in-required" { (code("recent_sign_in_required")) }
                            ". API keys need none."
                        }
                    }
                    dt { "Rate limit" } dd { "Class " a href=(rate_limits::PATH) { (code(text(value, "x-rate-class"))) } }
                    @if !kinds.is_empty() {
                        dt { "Events" }
                        dd { @for kind in kinds { a href={ (events::PATH) "#" (kind) } { (code(kind)) } " " } }
                    }
                    dt { "Operation id" } dd { (code(&operation.id)) }
                }
                (try_it)
                (parameters(document, value))
                (request_body(document, value))
                (answers(document, value))
            }
            div.examples { (examples(operation, value)) }
        }
    };
    Content::new(operation.summary.clone(), body)
        .below(contents::PATH, "Documentation")
        .below(PATH, "API reference")
        .below(&area.path(), &area.title)
}
