//! Every status that an operation can answer with. Statuses that follow from the shape of an operation (a body, a credential, an
//! id, a precondition) are added here once, so that no handler lists them.

use serde_json::{Map, Value, json};

use super::super::{problem::Code, schema::resolve};

/// A problem response of the document: its name, its status, and the code of its example.
struct Shared {
    name: &'static str,
    status: u16,
    code: Code,
}

const SHARED: [Shared; 16] = [
    Shared { name: "BadRequest", status: 400, code: Code::UnknownParameter },
    Shared { name: "Unauthorized", status: 401, code: Code::MissingCredentials },
    Shared { name: "Forbidden", status: 403, code: Code::InsufficientScope },
    Shared { name: "NotFound", status: 404, code: Code::NotFound },
    Shared { name: "NotAcceptable", status: 406, code: Code::NotAcceptable },
    Shared { name: "RequestTimeout", status: 408, code: Code::RequestTimeout },
    Shared { name: "Conflict", status: 409, code: Code::AlreadyExists },
    Shared { name: "PreconditionFailed", status: 412, code: Code::VersionConflict },
    Shared { name: "PayloadTooLarge", status: 413, code: Code::PayloadTooLarge },
    Shared { name: "UnsupportedMediaType", status: 415, code: Code::UnsupportedMediaType },
    Shared { name: "UnprocessableContent", status: 422, code: Code::ValidationFailed },
    Shared { name: "TooManyRequests", status: 429, code: Code::RateLimited },
    Shared { name: "InternalError", status: 500, code: Code::InternalError },
    Shared { name: "BadGateway", status: 502, code: Code::ProviderError },
    Shared { name: "GatewayTimeout", status: 504, code: Code::ProviderTimeout },
    Shared { name: "Unavailable", status: 503, code: Code::Unavailable },
];

pub(super) fn complete(path: &str, operation: &mut Map<String, Value>, components: &Value) {
    let has_body = operation.contains_key("requestBody");
    let authenticates = operation.contains_key("x-need") || takes_password(operation, components);
    let parameters: Vec<(String, String)> = operation
        .get("parameters")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|parameter| {
            let text = |name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("in"), text("name"))
        })
        .collect();
    // Finds a `scope` that can be the id of a record, as opposed to the scopes of keys.
    let scopes_record = operation.get("parameters").and_then(Value::as_array).into_iter().flatten().any(|parameter| {
        let pattern = parameter.pointer("/schema/pattern").and_then(Value::as_str).unwrap_or_default();
        parameter.get("name").and_then(Value::as_str) == Some("scope") && pattern.contains("org_")
    });
    let header = |wanted: &str| parameters.iter().any(|(place, name)| place == "header" && name == wanted);
    let names_record = path.contains('{')
        || scopes_record
        || parameters.iter().any(|(_, name)| ["id", "link"].contains(&name.as_str()))
        || body_properties(operation, components).any(|(name, _)| name == "workflow_id");
    let applies = |status: u16| match status {
        401 | 403 => authenticates,
        404 => names_record,
        408 | 413 | 415 => has_body,
        409 => header("Idempotency-Key") || header("If-Match") || (names_record && has_body),
        412 => header("If-Match"),
        // Only operations that call another server have these, and they declare them.
        502 | 504 => false,
        _ => true,
    };
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for shared in &SHARED {
        let reference = json!({"$ref": format!("#/components/responses/{}", shared.name)});
        match responses.get_mut(&shared.status.to_string()) {
            // A status that is declared without content gets the shared response.
            Some(declared) if declared.get("content").is_none() => *declared = reference,
            // A page for people. A client that does not accept it gets the problem.
            Some(declared) => {
                if let Some(content) = declared.get_mut("content").and_then(Value::as_object_mut) {
                    content.extend(problem_content(shared));
                }
            }
            None if applies(shared.status) => drop(responses.insert(shared.status.to_string(), reference)),
            None => {}
        }
    }
    for (status, response) in responses {
        if let Some(response) = response.as_object_mut()
            && response.get("description") == Some(&json!(""))
        {
            response.insert("description".to_owned(), json!(default_description(status)));
        }
    }
}

/// Whether the body holds a secret. Such a body is a credential, and can be refused as one.
fn takes_password(operation: &Map<String, Value>, components: &Value) -> bool {
    body_properties(operation, components).any(|(_, schema)| schema.get("writeOnly") == Some(&json!(true)))
}

fn body_properties<'a>(operation: &'a Map<String, Value>, components: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let body = operation.get("requestBody").and_then(|body| body.get("content")?.get("application/json")?.get("schema"));
    let properties = body.and_then(|schema| resolve(schema, components).get("properties")?.as_object());
    properties.into_iter().flatten()
}

fn default_description(status: &str) -> &'static str {
    match status {
        "200" => "The request succeeded.",
        "201" => "The record was created.",
        "204" => "The request succeeded. The answer has no body.",
        "304" => "The record still has the version that `If-None-Match` names.",
        _ => "An error. Its `code` says what went wrong.",
    }
}

pub(super) fn add_components(components: &mut Value) {
    let Some(components) = components.as_object_mut() else { return };
    let responses: Map<String, Value> = SHARED.iter().map(|shared| (shared.name.to_owned(), response(shared))).collect();
    components.insert("responses".to_owned(), Value::Object(responses));
    let schemas = components.entry("schemas").or_insert_with(|| json!({}));
    if let Some(schemas) = schemas.as_object_mut() {
        let problem = problem_schema();
        schemas.insert("ItemProblem".to_owned(), item_problem_schema(&problem));
        schemas.insert("Problem".to_owned(), problem);
        schemas.insert("FieldError".to_owned(), field_error_schema());
    }
}

fn response(shared: &Shared) -> Value {
    let mut headers = json!({"X-Request-Id": {"description": "The id of this request in the logs.", "schema": {"type": "string"}}});
    if let Some(headers) = headers.as_object_mut() {
        if matches!(shared.status, 429 | 503) {
            let retry = json!({"description": "How many seconds to wait before you repeat the request.", "schema": {"type": "integer", "minimum": 0}});
            headers.insert("Retry-After".to_owned(), retry);
        }
        if shared.status == 403 {
            let quota = "With `quota_exceeded`: the quota, its limit and its current use, such as `records;limit=1000;used=1000`.";
            headers.insert("X-Quota".to_owned(), json!({"description": quota, "schema": {"type": "string"}}));
        }
        if shared.status == 401 {
            let challenge = json!({"description": "The authentication scheme to use.", "schema": {"type": "string"}});
            headers.insert("WWW-Authenticate".to_owned(), challenge);
        }
    }
    let codes: Vec<String> =
        Code::ALL.iter().filter(|code| code.status().as_u16() == shared.status).map(|code| format!("`{}`", code.name())).collect();
    json!({
        "description": format!("{}. Codes: {}.", shared.code.title(), codes.join(", ")),
        "headers": headers,
        "content": problem_content(shared),
    })
}

fn problem_content(shared: &Shared) -> Map<String, Value> {
    let example = super::super::problem::Problem::plain(shared.code).body(
        "https://ops.example.com",
        "/api/admin/api-keys",
        "req_01k9z7w3v5e8g9m2n4p6r8t0x1",
    );
    let media = json!({"schema": {"$ref": "#/components/schemas/Problem"}, "example": example});
    Map::from_iter([("application/problem+json".to_owned(), media)])
}

fn problem_schema() -> Value {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    json!({
        "type": "object",
        "description": "An error (RFC 9457).",
        "required": ["type", "title", "status", "code", "detail", "instance", "request_id"],
        "properties": {
            "type": {"type": "string", "description": "The URL of the code's documentation."},
            "title": {"type": "string", "description": "A short title for the code."},
            "status": {"type": "integer", "description": "The HTTP status."},
            "code": {"type": "string", "enum": codes, "description": "A stable code. Use it in programs to decide what to do."},
            "detail": {"type": "string", "description": "What went wrong with this request, and what to do next."},
            "instance": {"type": "string", "description": "The path of the request."},
            "request_id": {"type": "string", "description": "The id of this request in the logs."},
            "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}, "description": "The errors in the input: at most 50, and no more than fit into a body of 16 KiB."},
            "more_errors": {"type": "boolean", "description": "`true` if there are more errors than `errors` lists. Otherwise absent."},
            "total_errors": {"type": "integer", "description": "The total number of errors. Present only if there are more than are listed and the number is known."},
            "required_scopes": {"type": "array", "items": {"type": "string"}, "description": "The scopes that are missing. `detail` says whether you need one or all of them."},
            "allowed_transitions": {"type": "array", "items": {"type": "string"}, "description": "The states that the record can change to."},
            "current_version": {"type": "integer", "description": "The current version of the record."},
            "retry_after_seconds": {"type": "integer", "description": "How many seconds to wait before you repeat the request."},
        },
    })
}

/// The members of a problem that apply to one of several records: all except those of the whole request.
fn item_problem_schema(problem: &Value) -> Value {
    let of_request = ["type", "title", "status", "instance", "request_id", "more_errors", "total_errors"];
    let mut properties = problem.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.retain(|name, _| !of_request.contains(&name.as_str()));
    json!({
        "type": "object",
        "description": "The error of one record in a request for several.",
        "required": ["code", "detail"],
        "properties": properties,
    })
}

fn field_error_schema() -> Value {
    json!({
        "type": "object",
        "description": "One error in the input. Exactly one of `pointer`, `parameter` and `header` says where it is.",
        "required": ["code", "message"],
        "properties": {
            "pointer": {"type": "string", "description": "A JSON pointer into the request body."},
            "parameter": {"type": "string", "description": "The name of a query or path parameter."},
            "header": {"type": "string", "description": "The name of a header."},
            "code": {"type": "string", "description": "A stable code for the error, in one word."},
            "message": {"type": "string", "description": "A sentence that explains the error."},
            "allowed": {"type": "array", "items": {"type": "string"}, "description": "The allowed values, if there are few."},
            "suggestion": {"type": "string", "description": "The allowed value that is closest to yours."},
        },
    })
}
