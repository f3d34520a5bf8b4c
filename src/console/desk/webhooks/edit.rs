//! Creates, changes and deletes an endpoint.

use http::Method;
use serde_json::{Value, json};

use super::{
    API, PATH,
    body::{changed, created},
    inputs::{Offered, PLACES},
    kinds::{self, Kind, by_area},
    record::{Endpoint, endpoint},
    secret,
};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{Deletion, RecordForm, is_correctable, organization_choices, trail},
        tickets::renamed,
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// What the form offers to the reader.
async fn offered<'a>(visitor: &Visitor<'_>, kinds: &'a [Kind], headers: &'a [String]) -> Result<Offered<'a>, Refusal> {
    Ok(Offered {
        areas: by_area(kinds.iter().filter(|kind| kind.is_for(visitor))),
        organizations: organization_choices(visitor, None).await?,
        header_names: headers,
    })
}

pub(super) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    fields.set("events", visitor.query().first("events"));
    for (name, value) in [("ordering", "none"), ("retry", "standard"), ("timeout_seconds", "20")] {
        fields.set(name, value);
    }
    new_page(&visitor, &fields, None).await
}

/// Creates the endpoint and shows its secret, which the API returns only now.
pub(super) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let outcome = match created(&fields) {
        Ok(body) => visitor.act(Method::POST, API, Some(body)).await,
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok(answer) => {
            let secret = answer.body.get("secret").and_then(Value::as_str).unwrap_or_default().to_owned();
            let endpoint: Endpoint = parsed(answer.body)?;
            Ok(secret::page(&visitor, &endpoint, &secret, &format!("{} is created", endpoint.name)))
        }
        Err(refusal) if is_correctable(&refusal) => new_page(&visitor, &fields, Some(&renamed(refusal, &PLACES))).await,
        Err(refusal) => Err(refusal),
    }
}

async fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let kinds = kinds::all(visitor).await?;
    let offered = offered(visitor, &kinds, &[]).await?;
    let example = json!({"name": "Chat room", "url": "https://chat.example.com/hooks/tickets", "events": ["ticket.*"]});
    let form = RecordForm {
        title: "New endpoint".to_owned(),
        below: "Receives the events that happen from now on, as far as you may read them.",
        trail: trail(&[(PATH, "Webhooks")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create endpoint",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    Ok(form.page(visitor, shown, &offered.show(shown)))
}

pub(super) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let kinds = kinds::all(&visitor).await?;
    let offered = offered(&visitor, &kinds, &endpoint.header_names).await?;
    Ok(edit_page(&visitor, &endpoint, &offered, &offered.fields_of(&endpoint), None))
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    let kinds = kinds::all(&visitor).await?;
    let offered = offered(&visitor, &kinds, &endpoint.header_names).await?;
    let fields = visitor.fields();
    let outcome = match changed(&offered.fields_of(&endpoint), &fields) {
        Ok(body) if body.is_empty() => return Ok(Reply::SeeOther(endpoint.path())),
        Ok(body) => {
            let names_headers = body.contains_key("headers");
            let answer = visitor.act(Method::PUT, endpoint.api(), Some(Value::Object(body))).await;
            answer.map(|answer| (answer, names_headers))
        }
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok((answer, names_headers)) => {
            let after: Endpoint = parsed(answer.body)?;
            let is_lost = !names_headers && !endpoint.header_names.is_empty() && after.header_names.is_empty();
            Ok(Reply::SeeOther(format!("{}{}", endpoint.path(), if is_lost { "?headers=removed" } else { "" })))
        }
        Err(refusal) if is_correctable(&refusal) => {
            Ok(edit_page(&visitor, &endpoint, &offered, &fields, Some(&renamed(refusal, &PLACES))))
        }
        Err(refusal) => Err(refusal),
    }
}

fn edit_page(
    visitor: &Visitor<'_>,
    endpoint: &Endpoint,
    offered: &Offered<'_>,
    fields: &Fields,
    refusal: Option<&Refusal>,
) -> Reply {
    let form = RecordForm {
        title: format!("Edit {}", endpoint.name),
        below: "If you change the URL, the events, the filter or the headers, the endpoint receives what you may read.",
        trail: endpoint.trail(),
        action: format!("{}/edit", endpoint.path()),
        cancel: endpoint.path(),
        button: "Save",
        version: Some(endpoint.version),
        curl: curl(visitor.visit.base_url, "PUT", &endpoint.api(), Some(&json!({"events": endpoint.events}))),
    };
    let shown = Shown { fields, refusal };
    form.page(visitor, shown, &offered.show(shown))
}

pub(super) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    Ok(deletion(&endpoint).show(&visitor))
}

pub(super) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(&visitor).await?;
    deletion(&endpoint).act(&visitor).await
}

fn deletion(endpoint: &Endpoint) -> Deletion<'_> {
    Deletion {
        name: &endpoint.name,
        version: endpoint.version,
        trail: endpoint.trail(),
        path: endpoint.path(),
        api: endpoint.api(),
        list: PATH.to_owned(),
        consequence: "Deletes the endpoint with its delivery log. Waiting deliveries are not sent. This cannot be undone. Pause the endpoint instead to keep them.",
        heir: "",
        heirs: Vec::new(),
    }
}
