//! One request in curl, Python, TypeScript and Go, made from the published document. The samples read `URL` and `KEY` from the environment.

use serde_json::Value;

use tenantd_http::FORM;

use super::text;
use crate::components::pretty;

pub(super) struct Sample {
    pub(super) title: &'static str,
    pub(super) language: &'static str,
    pub(super) code: String,
}

/// A request as the samples write it.
struct Request<'a> {
    method: &'a str,
    /// With the values of required parameters.
    target: String,
    media_type: Option<&'a str>,
    body: Option<&'a Value>,
    /// Whether the operation needs a credential.
    has_key: bool,
}

pub(super) fn all(method: &str, path: &str, operation: &Value) -> [Sample; 4] {
    let request = Request::new(method, path, operation);
    let sample = |title, language, code| Sample { title, language, code };
    [
        sample("curl", "sh", request.curl()),
        sample("Python", "python", request.python()),
        sample("TypeScript", "ts", request.typescript()),
        sample("Go", "go", request.go()),
    ]
}

/// The example of a parameter, or a word that says what to put there.
pub(super) fn example_of(parameter: &Value) -> String {
    let schema = parameter.get("schema");
    let example = |schema: &Value| schema.pointer("/examples/0").or_else(|| schema.pointer("/enum/0")).cloned();
    let found = schema.and_then(|schema| example(schema).or_else(|| schema.get("items").and_then(example)));
    match found {
        Some(Value::String(value)) => value,
        Some(value) => value.to_string(),
        None => text(parameter, "name").to_uppercase(),
    }
}

impl<'a> Request<'a> {
    fn new(method: &'a str, path: &str, operation: &'a Value) -> Self {
        let mut target = path.to_owned();
        let mut query = Vec::new();
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let name = text(parameter, "name");
            match text(parameter, "in") {
                "path" => target = target.replace(&format!("{{{name}}}"), &example_of(parameter)),
                "query" if parameter.get("required") == Some(&Value::Bool(true)) => {
                    query.push(format!("{name}={}", example_of(parameter)));
                }
                _ => {}
            }
        }
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let content = operation.pointer("/requestBody/content").and_then(Value::as_object);
        let media = content.and_then(|content| content.get_key_value("application/json").or_else(|| content.iter().next()));
        let body = media.and_then(|(_, media)| media.get("example"));
        Self {
            method,
            target,
            media_type: media.map(|(name, _)| name.as_str()),
            body,
            has_key: !text(operation, "x-need").is_empty(),
        }
    }

    /// The body as a text: an example that is a text is sent as it is.
    fn body_text(&self) -> Option<String> {
        if let (Some(FORM), Some(Value::Object(fields))) = (self.media_type, self.body) {
            let pairs = fields.iter().map(|(name, value)| (name, value.as_str().unwrap_or_default()));
            return Some(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish());
        }
        self.body.map(|body| body.as_str().map_or_else(|| pretty(body), str::to_owned))
    }

    fn curl(&self) -> String {
        let mut lines = vec![match self.method {
            "GET" => format!("curl -sS \"$URL{}\"", self.target),
            "POST" if self.body.is_some() => format!("curl -sS \"$URL{}\"", self.target),
            method => format!("curl -sS -X {method} \"$URL{}\"", self.target),
        }];
        if self.has_key {
            lines.push("  -H \"Authorization: Bearer $KEY\"".to_owned());
        }
        if let (Some(media_type), Some(body)) = (self.media_type, self.body_text()) {
            lines.push(format!("  -H 'Content-Type: {media_type}'"));
            lines.push(format!("  -d '{}'", body.replace('\'', "'\\''")));
        }
        lines.join(" \\\n")
    }

    fn python(&self) -> String {
        let mut lines = vec![
            "import os".to_owned(),
            "import requests".to_owned(),
            String::new(),
            format!("answer = requests.{}(", self.method.to_lowercase()),
            format!("    os.environ[\"URL\"] + {},", quoted(&self.target)),
        ];
        if self.has_key {
            lines.push("    headers={\"Authorization\": \"Bearer \" + os.environ[\"KEY\"]},".to_owned());
        }
        match self.body {
            Some(body) if self.media_type == Some("application/json") => lines.push(format!("    json={},", python_value(body, 1))),
            Some(_) => lines.push(format!("    data={},", quoted(&self.body_text().unwrap_or_default()))),
            None => {}
        }
        lines.extend([")".to_owned(), "answer.raise_for_status()".to_owned(), "print(answer.text)".to_owned()]);
        lines.join("\n")
    }

    fn typescript(&self) -> String {
        let mut lines = vec![
            format!("const answer = await fetch(process.env.URL + {}, {{", quoted(&self.target)),
            format!("  method: {},", quoted(self.method)),
        ];
        let mut headers = Vec::new();
        if self.has_key {
            headers.push("    Authorization: `Bearer ${process.env.KEY}`,".to_owned());
        }
        if let (Some(media_type), Some(_)) = (self.media_type, self.body) {
            headers.push(format!("    \"Content-Type\": {},", quoted(media_type)));
        }
        if !headers.is_empty() {
            lines.push("  headers: {".to_owned());
            lines.extend(headers);
            lines.push("  },".to_owned());
        }
        match self.body {
            Some(body) if self.media_type == Some("application/json") => {
                lines.push(format!("  body: JSON.stringify({}),", indented(&pretty(body), "  ")));
            }
            Some(_) => lines.push(format!("  body: {},", quoted(&self.body_text().unwrap_or_default()))),
            None => {}
        }
        lines.extend([
            "});".to_owned(),
            "if (!answer.ok) throw new Error(await answer.text());".to_owned(),
            "console.log(await answer.text());".to_owned(),
        ]);
        lines.join("\n")
    }

    fn go(&self) -> String {
        let (imports, declared, argument) = match self.body_text() {
            Some(body) => {
                // A raw text cannot contain a backtick.
                let literal = if body.contains('`') { quoted(&body) } else { format!("`{body}`") };
                ("\t\"strings\"\n", format!("\tbody := strings.NewReader({literal})\n"), "body")
            }
            None => ("", String::new(), "nil"),
        };
        let mut headers = String::new();
        if self.has_key {
            headers.push_str("\trequest.Header.Set(\"Authorization\", \"Bearer \"+os.Getenv(\"KEY\"))\n");
        }
        if let (Some(media_type), Some(_)) = (self.media_type, self.body) {
            headers.push_str(&format!("\trequest.Header.Set(\"Content-Type\", {})\n", quoted(media_type)));
        }
        format!(
            "package main\n\nimport (\n\t\"fmt\"\n\t\"io\"\n\t\"log\"\n\t\"net/http\"\n\t\"os\"\n{imports})\n\nfunc main() {{\n\
             {declared}\trequest, err := http.NewRequest({}, os.Getenv(\"URL\")+{}, {argument})\n\
             \tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n{headers}\
             \tanswer, err := http.DefaultClient.Do(request)\n\tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\
             \tdefer answer.Body.Close()\n\ttext, err := io.ReadAll(answer.Body)\n\tif err != nil {{\n\t\tlog.Fatal(err)\n\t}}\n\
             \tfmt.Println(answer.Status, string(text))\n}}",
            quoted(self.method),
            quoted(&self.target)
        )
    }
}

/// A text in double quotes, with the escapes that all four languages know.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The lines after the first with a margin.
fn indented(text: &str, margin: &str) -> String {
    text.replace('\n', &format!("\n{margin}"))
}

/// A value as Python writes it.
fn python_value(value: &Value, depth: usize) -> String {
    let (margin, end) = ("    ".repeat(depth + 1), "    ".repeat(depth));
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        Value::Array(items) => {
            let items: String = items.iter().map(|item| format!("{margin}{},\n", python_value(item, depth + 1))).collect();
            format!("[\n{items}{end}]")
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: String = members
                .iter()
                .map(|(name, member)| format!("{margin}{}: {},\n", quoted(name), python_value(member, depth + 1)))
                .collect();
            format!("{{\n{members}{end}}}")
        }
        number_or_text => number_or_text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation() -> Value {
        json!({
            "x-need": "scope:tickets:write",
            "parameters": [
                {"name": "id", "in": "path", "schema": {"type": "string", "examples": ["T-42"]}},
                {"name": "notify", "in": "query", "required": true, "schema": {"type": "boolean", "enum": [true]}},
                {"name": "dry_run", "in": "query", "schema": {"type": "boolean"}},
            ],
            "requestBody": {"content": {"application/json": {"example": {"note": "it's done", "tags": [], "urgent": true}}}},
        })
    }

    #[test]
    fn a_sample_has_the_required_parameters_the_key_and_the_body() {
        let [curl, python, typescript, go] = all("PATCH", "/api/psa/tickets/{id}", &operation());
        assert!(curl.code.starts_with("curl -sS -X PATCH \"$URL/api/psa/tickets/T-42?notify=true\" \\\n"), "{}", curl.code);
        assert!(curl.code.contains("it'\\''s done"), "{}", curl.code);
        assert!(python.code.contains("\"urgent\": True") && python.code.contains("\"tags\": []"), "{}", python.code);
        assert!(
            typescript.code.contains("method: \"PATCH\"") && typescript.code.contains("JSON.stringify({"),
            "{}",
            typescript.code
        );
        assert!(
            go.code.contains("http.NewRequest(\"PATCH\", os.Getenv(\"URL\")+\"/api/psa/tickets/T-42?notify=true\", body)"),
            "{}",
            go.code
        );
    }

    #[test]
    fn a_request_without_a_body_or_a_need_says_nothing_about_them() {
        let [curl, python, _, go] = all("GET", "/healthz", &json!({}));
        assert_eq!(curl.code, "curl -sS \"$URL/healthz\"");
        assert!(!python.code.contains("headers"), "{}", python.code);
        assert!(go.code.contains("http.NewRequest(\"GET\", os.Getenv(\"URL\")+\"/healthz\", nil)"), "{}", go.code);
        assert!(!go.code.contains("strings"), "{}", go.code);
    }
}
