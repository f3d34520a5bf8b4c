//! The body of a request that creates or changes an endpoint, from the fields of the form.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{
    desk::tickets::{lines, wrong},
    form::Fields,
    refusal::Refusal,
};

/// A number, or the text as it is, which the API refuses.
pub(super) fn number(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
}

/// A new endpoint. What is left empty has the default of the API.
pub(super) fn created(fields: &Fields) -> Result<Value, Refusal> {
    let mut body = settings(fields);
    body.retain(|_, value| !value.is_null());
    if let Some(headers) = headers(fields)? {
        body.insert("headers".to_owned(), headers);
    }
    Ok(Value::Object(body))
}

/// The members that are different from those of the form before it was changed. So a change of the name does not make the reader the
/// owner of the endpoint.
pub(super) fn changed(before: &Fields, fields: &Fields) -> Result<Map<String, Value>, Refusal> {
    let known = settings(before);
    let mut body = settings(fields);
    body.retain(|name, value| known.get(name) != Some(value));
    match headers(fields)? {
        Some(headers) => body.insert("headers".to_owned(), headers),
        None if fields.has("remove_headers") => body.insert("headers".to_owned(), Value::Null),
        None => None,
    };
    Ok(body)
}

/// All members but the headers, whose values cannot be read. `null` stands for an empty field.
fn settings(fields: &Fields) -> Map<String, Value> {
    let mut body = fields.filled(&["ordering", "retry"]);
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert("url".to_owned(), fields.get("url").into());
    for name in ["description", "ca_certificate_pem"] {
        let text = lines(fields.get(name));
        body.insert(name.to_owned(), if text.is_empty() { Value::Null } else { text.into() });
    }
    let limit = fields.get("rate_limit_per_second");
    body.insert("rate_limit_per_second".to_owned(), if limit.is_empty() { Value::Null } else { number(limit) });
    if !fields.get("timeout_seconds").is_empty() {
        body.insert("timeout_seconds".to_owned(), number(fields.get("timeout_seconds")));
    }
    body.insert("events".to_owned(), events(fields).into());
    body.insert("filter".to_owned(), filter(fields));
    body
}

/// The boxes that are ticked and the patterns that are written, each once.
fn events(fields: &Fields) -> Vec<String> {
    let ticked = fields.all("events").into_iter().map(str::to_owned);
    let written = fields.words("patterns").into_iter().filter_map(|word| word.as_str().map(str::to_owned));
    ticked.chain(written).collect::<BTreeSet<_>>().into_iter().collect()
}

fn filter(fields: &Fields) -> Value {
    let mut filter = Map::new();
    for name in ["organization_ids", "priorities"] {
        let ticked: BTreeSet<&str> = fields.all(name).into_iter().collect();
        if !ticked.is_empty() {
            filter.insert(name.to_owned(), json!(ticked));
        }
    }
    let actors = fields.words("exclude_actor_ids");
    if !actors.is_empty() {
        filter.insert("exclude_actor_ids".to_owned(), actors.into());
    }
    if filter.is_empty() { Value::Null } else { Value::Object(filter) }
}

/// The headers of a text with one on each line; `None` if there is no text.
fn headers(fields: &Fields) -> Result<Option<Value>, Refusal> {
    let mut headers = Map::new();
    for line in fields.get("headers").lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) =
            line.split_once(':').ok_or_else(|| wrong("headers", "Write one header on each line, such as x-room: operations."))?;
        headers.insert(name.trim().to_owned(), value.trim().into());
    }
    Ok((!headers.is_empty()).then_some(Value::Object(headers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        Fields::new(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn a_new_endpoint_has_the_fields_that_are_filled() {
        let sent = fields(&[
            ("name", "Chat"),
            ("url", "https://a.example/"),
            ("description", ""),
            ("events", "ticket.created"),
            ("events", "vm.*"),
            ("patterns", "workflow.run.*, vm.*"),
            ("timeout_seconds", "10"),
            ("rate_limit_per_second", "x"),
            ("priorities", "high"),
            ("headers", "x-room: ops: 1\r\n\r\nx-key:k"),
        ]);
        let expected = json!({
            "name": "Chat",
            "url": "https://a.example/",
            "events": ["ticket.created", "vm.*", "workflow.run.*"],
            "timeout_seconds": 10,
            "rate_limit_per_second": "x",
            "filter": {"priorities": ["high"]},
            "headers": {"x-room": "ops: 1", "x-key": "k"},
        });
        assert_eq!(created(&sent).unwrap(), expected);
        assert!(created(&fields(&[("headers", "x-room")])).unwrap_err().about("headers").is_some());
    }

    #[test]
    fn a_change_has_only_what_is_different() {
        let known = [("name", "Chat"), ("url", "https://a.example/"), ("events", "b"), ("events", "a"), ("description", "old")];
        let before = fields(&known);
        let same = [("name", "Chat"), ("url", "https://a.example/"), ("events", "a"), ("patterns", "b"), ("description", "old")];
        assert!(changed(&before, &fields(&same)).unwrap().is_empty());
        let sent =
            fields(&[("name", "Room"), ("url", "https://a.example/"), ("events", "a"), ("events", "b"), ("remove_headers", "on")]);
        let expected = json!({"name": "Room", "description": null, "headers": null});
        assert_eq!(Value::Object(changed(&before, &sent).unwrap()), expected);
    }
}
