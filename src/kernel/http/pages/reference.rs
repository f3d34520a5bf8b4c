//! The API reference for people, made from the published document: every operation with its parameters, body, answers and
//! examples, and every schema that they use.

use serde_json::Value;

use super::layout::{Html, escape};

pub(super) fn render(document: &Value) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let info = document.get("info").cloned().unwrap_or_default();
    let mut page = Html::new(&format!("{} {}", text(&info, "title"), text(&info, "version")));
    page.paragraph(&text(&info, "description"));
    page.raw("<p>The machine-readable document is <a href=\"/api/openapi.json\"><code>/api/openapi.json</code></a>.</p>");
    let operations = operations(document);
    page.raw(
        "<h2>Operations</h2><table><thead><tr><th scope=\"col\">operation</th><th scope=\"col\">what</th></tr></thead><tbody>",
    );
    for (method, path, operation) in &operations {
        let id = text(operation, "operationId");
        page.raw(&format!(
            "<tr><td><a href=\"#{id}\"><code>{method} {}</code></a></td><td>{}</td></tr>",
            escape(path),
            escape(&text(operation, "summary"))
        ));
    }
    page.raw("</tbody></table>");
    for (method, path, operation) in &operations {
        render_operation(&mut page, method, path, operation);
    }
    page.raw("<h2>Schemas</h2>");
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object).into_iter().flatten();
    for (name, schema) in schemas {
        render_schema(&mut page, name, schema);
    }
    page.finish()
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    });
    operations.collect()
}

fn render_operation(page: &mut Html, method: &str, path: &str, operation: &Value) {
    let text = |name: &str| operation.get(name).and_then(Value::as_str).unwrap_or_default();
    page.raw(&format!(
        "<section id=\"{}\"><h3>{}</h3><p><code>{method} {}</code></p>",
        escape(text("operationId")),
        escape(text("summary")),
        escape(path)
    ));
    if !text("description").is_empty() {
        page.paragraph(text("description"));
    }
    match operation.get("x-need").and_then(Value::as_str) {
        None => page.paragraph("Public."),
        Some("signed_in") => page.paragraph("Any credential."),
        Some("operator") => page.paragraph("The operator of the installation."),
        Some("platform") => page.paragraph("The operator of the installation, or a key of the platform tenant with platform:read."),
        Some(need) if need.starts_with("all_scopes:") => {
            let scopes = need.trim_start_matches("all_scopes:").replace(',', ", ");
            page.raw(&format!("<p>All of the scopes <code>{}</code>.</p>", escape(&scopes)));
        }
        Some(need) => page.raw(&format!("<p>Scope <code>{}</code>.</p>", escape(need.trim_start_matches("scope:")))),
    }
    let parameters = operation.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
    if !parameters.is_empty() {
        page.table(&["parameter", "in", "type", "what"], parameters.iter().map(parameter_row));
    }
    if let Some(example) = operation.pointer("/requestBody/content/application~1json/example") {
        page.raw(&format!("<p>Body:</p><pre>{}</pre>", escape(&pretty(example))));
    }
    for (status, response) in operation.get("responses").and_then(Value::as_object).into_iter().flatten() {
        if let Some(example) = response.pointer("/content/application~1json/example") {
            page.raw(&format!("<p>{status}:</p><pre>{}</pre>", escape(&pretty(example))));
        }
    }
    page.raw("</section>");
}

fn parameter_row(parameter: &Value) -> Vec<String> {
    let text = |name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let required = if parameter.get("required") == Some(&Value::Bool(true)) { " (required)" } else { "" };
    let schema = parameter.get("schema").cloned().unwrap_or_default();
    vec![text("name"), format!("{}{required}", text("in")), type_text(&schema), text("description")]
}

fn render_schema(page: &mut Html, name: &str, schema: &Value) {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    page.raw(&format!("<section id=\"schema-{0}\"><h3>{0}</h3>", escape(name)));
    page.paragraph(description);
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let rows: Vec<Vec<String>> = properties
        .map(|(name, part)| {
            let presence = if required.contains(&name.as_str()) { "always" } else { "optional" };
            let what = part.get("description").and_then(Value::as_str).unwrap_or_default();
            vec![name.clone(), type_text(part), presence.to_owned(), what.to_owned()]
        })
        .collect();
    if !rows.is_empty() {
        page.table(&["field", "type", "", "what"], rows);
    }
    page.raw("</section>");
}

/// A schema's type in a few words, with its bounds.
fn type_text(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let options: Vec<String> =
            options.iter().map(|option| option.as_str().map_or_else(|| option.to_string(), str::to_owned)).collect();
        return options.join(" | ");
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    };
    if let Some(items) = schema.get("items") {
        return format!("{kind} of {}", type_text(items));
    }
    let bounds: Vec<String> = ["minimum", "maximum", "minLength", "maxLength", "format", "pattern"]
        .iter()
        .filter_map(|word| {
            schema.get(*word).map(|limit| format!("{word} {}", limit.as_str().map_or_else(|| limit.to_string(), str::to_owned)))
        })
        .collect();
    if bounds.is_empty() { kind } else { format!("{kind}, {}", bounds.join(", ")) }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
