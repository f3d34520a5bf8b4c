//! The form with which somebody who is signed in calls an operation, and what the API answered.
//!
//! **Invariant:** the form has no power of its own. The API checks the call as it checks one from outside, with the session of the reader.

use std::collections::BTreeSet;

use http::{HeaderMap, Method, StatusCode, header};
use maud::{Markup, html};
use serde_json::Value;

use tenantd_http::{
    mark::SETS_COOKIE,
    need::Need,
    pages::{Call, FirstBytes, PageVisit},
    problem::Code,
};

use super::{Operation, samples, schema, text};
use crate::{
    components::{Tone, badge, code, code_block, curl, pretty, table},
    form::{Control, Fields, Shown, once, tokens},
    query::{Query, segment},
    refusal::{FieldRefusal, Refusal},
};

/// The most bytes of an answer that the page shows.
const MOST_SHOWN: usize = 64 << 10;
const BODY: &str = "body";
/// Where the page shows the answer.
const ANSWER: &str = "answer";

/// A parameter of the operation as the document describes it.
struct Parameter<'a> {
    name: &'a str,
    place: &'a str,
    schema: &'a Value,
    value: &'a Value,
}

impl<'a> Parameter<'a> {
    fn all(document: &'a Value, operation: &'a Value) -> impl Iterator<Item = Self> {
        operation.get("parameters").and_then(Value::as_array).into_iter().flatten().map(|value| Self {
            name: text(value, "name"),
            place: text(value, "in"),
            schema: value.get("schema").map_or(&Value::Null, |schema| schema::resolved(document, schema)),
            value,
        })
    }

    /// The name of its field. A query parameter may have the name of another field.
    fn field(&self) -> String {
        format!("{}.{}", self.place, self.name)
    }

    fn is_required(&self) -> bool {
        self.place == "path" || self.value.get("required") == Some(&Value::Bool(true))
    }

    fn has_type(&self, name: &str) -> bool {
        let kind = self.schema.get("type");
        kind.and_then(Value::as_str) == Some(name)
            || kind.and_then(Value::as_array).is_some_and(|kinds| kinds.contains(&name.into()))
    }

    /// The values that it can have, if the document lists them.
    fn choices(&self) -> Vec<(String, String)> {
        let listed = self.schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = if self.has_type("boolean") { vec!["true", "false"] } else { listed.collect() };
        let none = (!words.is_empty()).then(|| (String::new(), "–".to_owned()));
        none.into_iter().chain(words.into_iter().map(|word| (word.to_owned(), word.to_owned()))).collect()
    }

    fn hint(&self) -> String {
        match () {
            () if self.has_type("array") => "Several values with commas between them.".to_owned(),
            () if self.has_type("object") => "As KEY=value. Several with commas between them.".to_owned(),
            () if self.is_required() => format!("Such as {}.", samples::example_of(self.value)),
            () => String::new(),
        }
    }

    fn input(&self, shown: Shown<'_>) -> Markup {
        let (choices, label) = (self.choices(), format!("{} ({})", self.name, self.place));
        let control = if choices.is_empty() { Control::Input("text") } else { Control::Choice(&choices) };
        shown.field(&self.field(), &label, control, &self.hint(), self.is_required())
    }

    /// Adds what was typed to a query.
    fn add(&self, query: Query, typed: &str) -> Query {
        if typed.is_empty() {
            return query;
        }
        if !self.has_type("object") {
            return query.and(self.name, typed);
        }
        typed.split(',').fold(query, |query, pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            query.and(&format!("{}.{}", self.name, key.trim()), value.trim())
        })
    }
}

/// What a form asked for, and what came of it.
pub(crate) struct Tried {
    fields: Fields,
    outcome: Result<Answered, Refusal>,
}

struct Answered {
    call: Call,
    answer: FirstBytes,
}

impl Tried {
    /// What the form lacked, for the status of the page.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.outcome.as_ref().err()
    }
}

/// The request that a form asks for.
fn call(document: &Value, operation: &Operation, fields: &Fields) -> Result<Call, Refusal> {
    let value = operation.value(document);
    let (mut path, mut query, mut faults) = (operation.path.clone(), Query::default(), Vec::new());
    for parameter in Parameter::all(document, value) {
        let (field, typed) = (parameter.field(), fields.get(&parameter.field()).to_owned());
        match parameter.place {
            "path" if matches!(typed.as_str(), "" | "." | "..") => faults.push(FieldRefusal::at(&field, "is required")),
            "path" => path = path.replace(&format!("{{{}}}", parameter.name), &segment(&typed)),
            "query" => query = parameter.add(query, &typed),
            _ => {}
        }
    }
    let body = match fields.get(BODY) {
        "" => None,
        typed => match serde_json::from_str::<Value>(typed) {
            Ok(body) => Some(body),
            Err(error) => {
                faults.push(FieldRefusal::at(BODY, format!("This is not JSON: {error}")));
                None
            }
        },
    };
    if !faults.is_empty() {
        return Err(Refusal { errors: faults, ..Refusal::new(Code::ValidationFailed, "Correct the form.") });
    }
    let method = operation.method.parse().unwrap_or(Method::GET);
    let typed = |name: &str| Some(fields.get(name).to_owned()).filter(|typed| !typed.is_empty());
    let mut call = Call::send(method, query.at(&path), body);
    call.if_match = typed("header.If-Match");
    call.if_none_match = typed("header.If-None-Match");
    let takes_key = Parameter::all(document, value).any(|parameter| parameter.name == "Idempotency-Key");
    // A form that is sent twice acts once.
    call.idempotency_key = typed("header.Idempotency-Key").or_else(|| once(fields, &call).filter(|_| takes_key));
    Ok(call)
}

/// Does what a form asks for.
pub(super) async fn act(document: &Value, operation: &Operation, visit: &PageVisit<'_>) -> Tried {
    let fields = Fields::new(visit.form.unwrap_or_default());
    let outcome = match call(document, operation, &fields) {
        Ok(call) => {
            let answer = visit.api.first_bytes(call.clone(), MOST_SHOWN).await;
            Ok(Answered { call, answer })
        }
        Err(refusal) => Err(refusal),
    };
    Tried { fields, outcome }
}

/// Whether an operation can be called from its page. One that sets a cookie would sign the reader out, or in as somebody else.
pub(super) fn is_offered(document: &Value, operation: &Operation) -> bool {
    operation.value(document).get(SETS_COOKIE) != Some(&Value::Bool(true))
}

/// The form and the answer, or for strangers the way to sign in.
pub(super) fn show(document: &Value, operation: &Operation, visit: &PageVisit<'_>, tried: Option<&Tried>) -> Markup {
    if !is_offered(document, operation) {
        return html! {
            p.note #try { "This operation cannot be tried here: its answer sets a cookie, which would replace your session." }
        };
    }
    // A program that sends a key has no session, so forms do not act for it.
    let Some(reader) = visit.reader.filter(|_| !visit.form_token.is_empty()) else {
        let way = Query::default().with("return_to", visit.path).at(tenantd_http::pages::SIGN_IN);
        return html! { p #try { a href=(way) { "Sign in" } " to try this operation from here." } };
    };
    let value = operation.value(document);
    let lacks = Need::parse(text(value, "x-need")).is_some_and(|need| need.check(reader).is_err());
    html! {
        @if let Some(tried) = tried { (answer(tried, visit)) }
        details.try #try open[tried.is_some()] {
            summary.button { "Try it" }
            form.stack method="post" action={ (visit.path) "#" (ANSWER) } {
                (tokens(visit.form_token))
                @if operation.method == "GET" {
                    p.hint { "Calls this server with your session." }
                } @else {
                    p.note { strong { "This acts for real." } " It calls this server with your session and changes your data." }
                }
                @if lacks { p.note { "You lack the rights for this operation, so the API will refuse it." } }
                (inputs(document, value, tried))
                div.actions { button.primary { "Send " (operation.method) } }
            }
        }
    }
}

fn inputs(document: &Value, value: &Value, tried: Option<&Tried>) -> Markup {
    let body = value.pointer("/requestBody/content/application~1json");
    let mut fields = tried.map(|tried| tried.fields.clone()).unwrap_or_default();
    if let Some(example) = body.filter(|_| tried.is_none()).and_then(|body| body.get("example")) {
        fields.set(BODY, pretty(example));
    }
    let shown = Shown { fields: &fields, refusal: tried.and_then(Tried::refusal) };
    let is_required = value.pointer("/requestBody/required") == Some(&Value::Bool(true));
    html! {
        (shown.summary())
        @for parameter in Parameter::all(document, value) { (parameter.input(shown)) }
        @if body.is_some() { (shown.field(BODY, "Body", Control::Text { rows: 12 }, "In JSON.", is_required)) }
    }
}

fn answer(tried: &Tried, visit: &PageVisit<'_>) -> Markup {
    let Ok(Answered { call, answer }) = &tried.outcome else { return html! {} };
    let tone = if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED { Tone::Good } else { Tone::Bad };
    let status = format!("{} {}", answer.status.as_str(), answer.status.canonical_reason().unwrap_or_default());
    html! {
        section.answer #(ANSWER) aria-label="Answer" {
            h2 { "Answer " (badge(tone, &status)) }
            p.endpoint { (code(call.method.as_str())) " " (code(&call.target)) }
            (curl(visit.base_url, call.method.as_str(), &call.target, call.body.as_ref()))
            (table("Headers", &["header", "value"], &headers(&answer.headers)))
            (body(answer))
        }
    }
}

/// The headers of an answer. A cookie is a credential, and no page shows it.
fn headers(headers: &HeaderMap) -> Vec<Vec<Markup>> {
    let names: BTreeSet<&str> = headers.keys().map(header::HeaderName::as_str).collect();
    let values = |name: &str| {
        let all = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("not a text"));
        if name == header::SET_COOKIE.as_str() { "(not shown)".to_owned() } else { all.collect::<Vec<_>>().join(", ") }
    };
    names.into_iter().map(|name| vec![code(name), html! { (values(name)) }]).collect()
}

fn body(answer: &FirstBytes) -> Markup {
    let kind = answer.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // A cut may split a letter.
    let text = match std::str::from_utf8(&answer.body) {
        Ok(text) => Some(text),
        Err(error) if answer.is_cut && error.error_len().is_none() => answer.body.utf8_chunks().next().map(|chunk| chunk.valid()),
        Err(_) => None,
    };
    let json = || serde_json::from_slice::<Value>(&answer.body).ok().filter(|_| kind.contains("json") && !kind.contains("ndjson"));
    html! {
        @if answer.is_cut {
            p.note { "The answer is longer. Only its first " (answer.body.len() >> 10) " KiB are shown. Use curl to get all of it." }
        }
        @match (text, json()) {
            (Some(""), _) => p.muted { "The answer has no body." },
            (_, Some(value)) => (code_block("json", &pretty(&value))),
            (Some(text), None) => (code_block("", text)),
            (None, None) => p.muted { "The answer is not text, so it is not shown." },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        let parameters = json!([
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "state", "in": "query", "schema": {"$ref": "#/components/schemas/State"}},
            {"name": "tag", "in": "query", "schema": {"type": "object"}, "style": "deepObject"},
            {"name": "If-Match", "in": "header", "schema": {"type": "string"}},
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}},
        ]);
        json!({
            "components": {"schemas": {"State": {"type": "string", "enum": ["on", "off"]}}},
            "paths": {"/api/things/{id}": {"post": {"operationId": "act", "parameters": parameters, "x-need": "signed_in"}}},
        })
    }

    fn operation() -> Operation {
        let text = |text: &str| text.to_owned();
        Operation {
            id: text("act"),
            method: text("POST"),
            path: text("/api/things/{id}"),
            summary: text("Act"),
            area: text("things"),
        }
    }

    fn sent(pairs: &[(&str, &str)]) -> Fields {
        Fields::new(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn a_form_becomes_the_request_that_it_describes() {
        let fields = sent(&[
            ("path.id", "a/../b?c"),
            ("query.state", "on"),
            ("query.tag", "os=linux, site=a b"),
            ("header.If-Match", "\"v3\""),
            ("once", "token"),
            ("body", "{\"a\": 1}"),
        ]);
        let call = call(&document(), &operation(), &fields).unwrap();
        assert_eq!(call.target, "/api/things/a%2F..%2Fb%3Fc?state=on&tag.os=linux&tag.site=a+b");
        assert_eq!((call.method, call.body, call.if_match.as_deref()), (Method::POST, Some(json!({"a": 1})), Some("\"v3\"")));
        assert!(call.idempotency_key.is_some(), "a form that is sent twice acts once");
    }

    #[test]
    fn a_form_that_lacks_something_says_what() {
        for (id, body) in [("", "{"), ("..", "[1")] {
            let refusal = call(&document(), &operation(), &sent(&[("path.id", id), ("body", body)])).unwrap_err();
            assert!(refusal.about("path.id").is_some() && refusal.about("body").is_some_and(|text| text.contains("not JSON")));
        }
    }

    #[test]
    fn an_answer_shows_no_cookie_and_no_markup() {
        let mut headers_of = HeaderMap::new();
        headers_of.insert(header::SET_COOKIE, "tenantd_session=secret".parse().unwrap());
        let shown: String = headers(&headers_of).into_iter().flatten().map(Markup::into_string).collect();
        assert!(shown.contains("set-cookie") && !shown.contains("secret"), "{shown}");
        let first = |bytes: &'static [u8], is_cut| FirstBytes {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: bytes.into(),
            is_cut,
        };
        assert!(body(&first(b"<b>x", false)).into_string().contains("&lt;b&gt;x"));
        let cut = body(&first("aé".as_bytes().split_last().unwrap().1, true)).into_string();
        assert!(cut.contains(">a</code>") && cut.contains("is longer"), "{cut}");
        assert!(body(&first(&[0xff, 0xfe], false)).into_string().contains("not text"));
    }

    #[test]
    fn an_operation_that_sets_a_cookie_is_not_offered() {
        let mut document = document();
        assert!(is_offered(&document, &operation()));
        document["paths"]["/api/things/{id}"]["post"][SETS_COOKIE] = json!(true);
        assert!(!is_offered(&document, &operation()));
    }
}
