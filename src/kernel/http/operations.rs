//! The operations of the published document as a routing table. Says what a request means, what it requires and what its input must
//! look like, before any handler runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{Method, StatusCode};
use metrics::{Counter, Histogram};
use serde_json::{Value, json};

use tenantd_base::telemetry::Usage;

use super::{
    FORM, LINES,
    mark::Marks,
    need::Need,
    openapi::Document,
    rate::RateClass,
    recent::Recency,
    schema::{BodySchema, QuerySchema},
};

/// The format of a body that is read completely before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMedia {
    Json,
    /// The fields of a form, each a text.
    Form,
    /// Records, one per line, that the handler processes while they arrive.
    Lines,
}

/// The readers of an operation's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Programs,
    /// People with a browser. Errors are shown as pages too.
    People,
}

/// One operation of the document.
#[derive(Debug)]
pub struct Operation {
    pub id: Arc<str>,
    pub method: Method,
    /// The path as the document writes it. It contains no ids, so it is a label for logs and metrics.
    pub path: String,
    /// What the operation requires of its caller; `None` for a public operation.
    pub need: Option<Need>,
    pub class: RateClass,
    pub recency: Recency,
    /// Whether the operation works while the disk is nearly full.
    pub while_full: bool,
    pub marks: Marks,
    pub query: QuerySchema,
    pub body: Option<BodySchema>,
    pub body_required: bool,
    pub body_media: BodyMedia,
    /// The media types of the body.
    pub consumes: Vec<String>,
    /// The media types of successful answers.
    pub produces: Vec<String>,
    pub audience: Audience,
    /// Whether a request may wait for something to happen, with its parameter `wait_seconds`.
    pub waits: bool,
    pub measures: Measures,
    route: OnceLock<Option<u16>>,
}

impl Operation {
    /// Whether it ends the session of the caller. Of the changes, only this one works on a full disk and without a second factor.
    pub fn signs_out(&self) -> bool {
        self.while_full && self.marks.without_factor
    }

    /// Whether the handler processes the body while it arrives.
    pub fn streams(&self) -> bool {
        self.body_media == BodyMedia::Lines
    }

    /// Whether the answer can be streamed.
    pub fn may_stream_out(&self) -> bool {
        self.produces.iter().any(|media_type| media_type != "application/json")
    }

    /// The number of the operation in the usage counters.
    pub fn route(&self, usage: &Usage) -> Option<u16> {
        *self.route.get_or_init(|| usage.route(&self.id))
    }
}

/// The metrics of one operation. Each is looked up when it is first needed, because looking it up costs more than all other work on
/// it.
#[derive(Default)]
pub struct Measures {
    requests: [OnceLock<Counter>; STATUS_CLASSES.len()],
    seconds: OnceLock<Histogram>,
}

impl std::fmt::Debug for Measures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Measures")
    }
}

const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Measures {
    /// Counts an answer of `operation`, to which these metrics belong.
    pub fn record(&self, operation: &str, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, STATUS_CLASSES.len()) - 1;
        if let (Some(requests), Some(class)) = (self.requests.get(class), STATUS_CLASSES.get(class)) {
            let find = || metrics::counter!("tenantd_http_requests_total", "operation" => operation.to_owned(), "status" => *class);
            requests.get_or_init(find).increment(1);
        }
        let find = || metrics::histogram!("tenantd_http_request_seconds", "operation" => operation.to_owned());
        self.seconds.get_or_init(find).record(took.as_secs_f64());
    }
}

/// The target of a path and a method.
#[derive(Debug)]
pub enum Route<'a> {
    Operation(&'a Arc<Operation>),
    /// The path exists, but only with these methods.
    OtherMethods(Vec<&'a Method>),
    Unknown,
}

#[derive(Debug)]
pub struct Operations {
    routes: matchit::Router<BTreeMap<String, Arc<Operation>>>,
}

impl Operations {
    /// Compiles the operations of the documents.
    pub fn compile(documents: &[&Document]) -> Result<Self, String> {
        let mut routes = matchit::Router::new();
        for Document { published, marks } in documents {
            let components = published.get("components").cloned().unwrap_or_else(|| json!({}));
            for (path, methods) in published.get("paths").and_then(Value::as_object).into_iter().flatten() {
                let mut operations = BTreeMap::new();
                for (method, operation) in methods.as_object().into_iter().flatten() {
                    let operation = compile_operation(path, method, operation, &components, marks)?;
                    operations.insert(operation.method.to_string(), Arc::new(operation));
                }
                routes.insert(path.as_str(), operations).map_err(|error| error.to_string())?;
            }
        }
        Ok(Self { routes })
    }

    pub fn find(&self, method: &Method, path: &str) -> Route<'_> {
        let Ok(found) = self.routes.at(path) else { return Route::Unknown };
        // A HEAD is answered like a GET, without the body.
        let wanted = if method == Method::HEAD { "GET" } else { method.as_str() };
        match found.value.get(wanted) {
            Some(operation) => Route::Operation(operation),
            None => Route::OtherMethods(found.value.values().map(|operation| &operation.method).collect()),
        }
    }
}

fn compile_operation(
    path: &str,
    method: &str,
    operation: &Value,
    components: &Value,
    marks: &BTreeMap<String, Marks>,
) -> Result<Operation, String> {
    let fail = |problem: String| format!("{method} {path}: {problem}");
    let method: Method = method.to_uppercase().parse().map_err(|_| fail("not a method".to_owned()))?;
    let need = match operation.get("x-need").and_then(Value::as_str) {
        Some(text) => Some(Need::parse(text).ok_or_else(|| fail(format!("unknown need {text}")))?),
        None => None,
    };
    let parameters: Vec<Value> = operation
        .get("parameters")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|parameter| parameter.get("in") == Some(&json!("query")))
        .cloned()
        .collect();
    let body = operation.get("requestBody");
    let content = body.and_then(|body| body.get("content"));
    let takes = |media_type: &str| content.is_some_and(|content| content.get(media_type).is_some());
    let (body_media, media_type) = match () {
        () if takes(LINES) => (BodyMedia::Lines, None),
        () if takes(FORM) => (BodyMedia::Form, Some(FORM)),
        () => (BodyMedia::Json, Some("application/json")),
    };
    let body_schema = media_type.and_then(|media_type| content?.get(media_type)?.get("schema"));
    let responses = || operation.get("responses").and_then(Value::as_object).into_iter().flatten();
    let media_types = |response: &Value| response.get("content")?.as_object().map(|content| content.keys().cloned().collect());
    let produces = responses().filter(|(status, _)| status.starts_with('2')).filter_map(|(_, response)| media_types(response));
    let produces: Vec<String> = produces.flat_map(|types: Vec<String>| types).collect();
    let shows_pages = responses().any(|(_, response)| response.pointer("/content/text~1html").is_some());
    let audience = if shows_pages { Audience::People } else { Audience::Programs };
    let open_query = operation.get("x-open-query") == Some(&Value::Bool(true));
    let id = operation.get("operationId").and_then(Value::as_str).ok_or_else(|| fail("no operation id".to_owned()))?;
    let marks = marks.get(id).copied().unwrap_or_default();
    let class = operation.get("x-rate-class").and_then(Value::as_str).and_then(RateClass::named);
    let class = class.ok_or_else(|| fail("no rate class".to_owned()))?;
    // People who free space by deleting records must be able to sign in.
    let while_full = marks.while_full || class == RateClass::SignIn || matches!(method, Method::GET | Method::DELETE);
    Ok(Operation {
        id: id.into(),
        class,
        recency: marks.recency,
        while_full,
        marks,
        path: path.to_owned(),
        need,
        waits: parameters.iter().any(|parameter| parameter.get("name") == Some(&json!("wait_seconds"))),
        query: QuerySchema::new(&parameters, components, open_query).map_err(fail)?,
        body: body_schema
            .map(|schema| BodySchema::new(schema, components))
            .transpose()
            .map_err(fail)?
            .map(|body| body.lenient(marks.lenient)),
        body_required: body.is_some_and(|body| body.get("required") == Some(&Value::Bool(true))),
        body_media,
        consumes: content.and_then(Value::as_object).into_iter().flatten().map(|(media_type, _)| media_type.clone()).collect(),
        produces,
        audience,
        method,
        measures: Measures::default(),
        route: OnceLock::new(),
    })
}
