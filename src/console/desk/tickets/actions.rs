//! What the forms of the page of a ticket do.

use http::Method;
use serde_json::{Map, Value, json};

use tenantd_http::{pages::ApiAnswer, problem::Code};

use super::{
    edit,
    forms::{Panel, Sent, lines, minutes, renamed, wrong},
    one::{page, path, target},
    record::Ticket,
};
use crate::{
    desk::{Reply, find::find},
    form::Fields,
    refusal::Refusal,
    visitor::Visitor,
};

/// Shows the ticket again after a form, or the form with what is wrong.
async fn finish(visitor: &Visitor<'_>, panel: Panel, fields: Fields, outcome: Result<(), Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(()) => Ok(Reply::SeeOther(path(visitor))),
        Err(mut refusal) if refusal.status.is_client_error() => {
            if refusal.is(Code::VersionConflict) {
                "Somebody changed the ticket while you edited it. Check the values, then save again."
                    .clone_into(&mut refusal.detail);
            }
            page(visitor, Some(&Sent { panel, fields, refusal })).await
        }
        Err(refusal) => Err(refusal),
    }
}

async fn patch(visitor: &Visitor<'_>, patch: Map<String, Value>) -> Result<ApiAnswer, Refusal> {
    visitor.act(Method::PATCH, target(visitor), Some(Value::Object(patch))).await
}

pub(crate) async fn change_status(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut change = fields.filled(&["status"]);
    let panel = match fields.get("status") {
        "resolved" => {
            let mut resolution = fields.filled(&["code"]);
            resolution.insert("summary".to_owned(), lines(fields.get("summary")).into());
            change.insert("resolution".to_owned(), Value::Object(resolution));
            Panel::Resolve
        }
        "merged" => {
            change.insert("merged_into".to_owned(), fields.get("merged_into").into());
            Panel::Merge
        }
        _ => Panel::Status,
    };
    let outcome = patch(&visitor, change).await.map(drop);
    let outcome = outcome.map_err(|refusal| renamed(refusal, &[("/resolution/summary", "summary"), ("/resolution/code", "code")]));
    finish(&visitor, panel, fields, outcome).await
}

/// Adds a comment, and a time entry if the form has minutes.
pub(crate) async fn reply(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let spent = match minutes(&fields, "reply_minutes") {
        Ok(spent) => spent,
        Err(refusal) => return finish(&visitor, Panel::Reply, fields, Err(refusal)).await,
    };
    let visibility = if fields.get("visibility") == "public" { "public" } else { "internal" };
    let comment = json!({"body": lines(fields.get("body")), "visibility": visibility});
    let comments = format!("{}/comments", target(&visitor));
    if let Err(refusal) = visitor.act(Method::POST, comments, Some(comment)).await {
        return finish(&visitor, Panel::Reply, fields, Err(refusal)).await;
    }
    if let Some(minutes) = spent {
        let entry = json!({"minutes": minutes, "billable": true, "work_type": "remote"});
        if let Err(refusal) = visitor.act(Method::POST, time_entries(&visitor), Some(entry)).await {
            // The comment is there. A form that still had it would add it again.
            let mut rest = Fields::default();
            rest.set("minutes", minutes.to_string());
            rest.set("work_type", "remote");
            rest.set("billable", "yes");
            let detail = format!("The comment was added, but not the time. {}", refusal.detail);
            let refusal = Refusal { detail, errors: Vec::new(), ..refusal };
            return finish(&visitor, Panel::Time, rest, Err(refusal)).await;
        }
    }
    Ok(Reply::SeeOther(format!("{}#reply", path(&visitor))))
}

fn time_entries(visitor: &Visitor<'_>) -> String {
    format!("{}/time-entries", target(visitor))
}

pub(crate) async fn add_time(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let minutes =
        minutes(&fields, "minutes").and_then(|minutes| minutes.ok_or_else(|| wrong("minutes", "Enter how many minutes.")));
    let outcome = match minutes {
        Ok(minutes) => {
            let mut entry = fields.filled(&["work_type", "note"]);
            entry.insert("minutes".to_owned(), minutes.into());
            entry.insert("billable".to_owned(), fields.has("billable").into());
            visitor.act(Method::POST, time_entries(&visitor), Some(Value::Object(entry))).await.map(drop)
        }
        Err(refusal) => Err(refusal),
    };
    finish(&visitor, Panel::Time, fields, outcome).await
}

/// Changes the fields of the ticket that are different in the form.
pub(crate) async fn edit_details(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = visitor.fields();
    let ticket: Ticket = visitor.read(target(&visitor)).await?;
    if fields.get("contact_id").contains('@') {
        match find(&visitor, "contacts", fields.get("contact_id"), Some(&ticket.organization.id)).await? {
            Ok(contact) => fields.set("contact_id", contact.id),
            Err(message) => return finish(&visitor, Panel::Details, fields, Err(wrong("contact_id", &message))).await,
        }
    }
    let outcome = match edit::patch(&fields, &ticket, visitor.clock) {
        Ok(change) if change.is_empty() => Ok(()),
        Ok(change) => patch(&visitor, change).await.map(drop),
        Err(refusal) => Err(refusal),
    };
    finish(&visitor, Panel::Details, fields, outcome).await
}

/// Adds a device to the ticket, or removes one.
pub(crate) async fn change_devices(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let ticket: Ticket = visitor.read(target(&visitor)).await?;
    let mut ids: Vec<String> = ticket.devices.iter().map(|device| device.id.clone()).collect();
    let removed = fields.get("remove");
    if removed.is_empty() {
        match find(&visitor, "devices", fields.get("device"), Some(&ticket.organization.id)).await? {
            Ok(device) if ids.contains(&device.id) => {}
            Ok(device) => ids.push(device.id),
            Err(message) => return finish(&visitor, Panel::Devices, fields, Err(wrong("device", &message))).await,
        }
    } else {
        ids.retain(|id| id != removed);
    }
    let is_same = ids.len() == ticket.devices.len();
    let change = Map::from_iter([("device_ids".to_owned(), json!(ids))]);
    let outcome = if is_same { Ok(()) } else { patch(&visitor, change).await.map(drop) };
    let outcome = outcome.map_err(|refusal| renamed(refusal, &[("/device_ids", "device")]));
    finish(&visitor, Panel::Devices, fields, outcome).await
}
