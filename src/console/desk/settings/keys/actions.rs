//! Acts on a key: rotation, pause, a new owner, revocation.

use http::Method;
use maud::html;
use serde_json::{Value, json};

use super::{Key, created, key, one};
use crate::{
    components::curl,
    desk::{
        Reply,
        devices::pairs,
        organizations::{RecordForm, is_correctable},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

const DAY: &str = "86400";
/// How long the old key can work beside the new one, in seconds.
const OVERLAPS: [(&str, &str); 5] =
    [("0", "Not at all: it stops at once"), ("3600", "1 hour"), (DAY, "1 day"), ("604800", "7 days"), ("2592000", "30 days")];

/// The page of the key again, or with why the API refused.
async fn follow<T>(visitor: Visitor<'_>, key: &Key, outcome: Result<T, Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(_) => Ok(Reply::SeeOther(key.path())),
        Err(refusal) if is_correctable(&refusal) => one::page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

/// Pauses or enables the key.
pub(crate) async fn change_status(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    let body = json!({"enabled": visitor.fields().get("enabled") == "true"});
    let outcome = visitor.act(Method::PUT, key.api(), Some(body)).await;
    follow(visitor, &key, outcome).await
}

pub(crate) async fn take_over(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    let outcome = visitor.act(Method::POST, format!("{}/take-over", key.api()), None).await;
    follow(visitor, &key, outcome).await
}

pub(crate) async fn show_rotation(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    let mut fields = Fields::default();
    fields.set("overlap_seconds", DAY);
    Ok(rotation_page(&visitor, &key, &fields, None))
}

pub(crate) async fn rotate(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    let fields = visitor.fields();
    let text = fields.get("overlap_seconds");
    let overlap = text.parse::<u32>().map_or_else(|_| text.into(), Value::from);
    let target = format!("{}/rotate", key.api());
    match visitor.act(Method::POST, target, Some(json!({"overlap_seconds": overlap}))).await {
        Ok(answer) => created::page(&visitor, answer.body, "Key rotated"),
        Err(refusal) if is_correctable(&refusal) => Ok(rotation_page(&visitor, &key, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn rotation_page(visitor: &Visitor<'_>, key: &Key, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let target = format!("{}/rotate", key.api());
    let form = RecordForm {
        title: format!("Rotate {}", key.name),
        below: "Makes a new key with the same scopes and restrictions. The next page shows it, once.",
        trail: key.trail(),
        action: format!("{}/rotate", key.path()),
        cancel: key.path(),
        button: "Rotate",
        version: Some(key.version),
        curl: curl(visitor.visit.base_url, "POST", &target, Some(&json!({"overlap_seconds": 86_400}))),
    };
    let shown = Shown { fields, refusal };
    let hint =
        "Time to give the new key to the program. Meanwhile the old key cannot change API keys, users or identity providers.";
    form.page(
        visitor,
        shown,
        &shown.field("overlap_seconds", "The old key works for", Control::Choice(&pairs(&OVERLAPS)), hint, true),
    )
}

pub(crate) async fn show_revocation(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(revocation_page(&visitor, &key(&visitor).await?, None))
}

pub(crate) async fn revoke(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    // The form was sent before.
    if key.revoked_at.is_some() {
        return Ok(Reply::SeeOther(key.path()));
    }
    match visitor.act(Method::DELETE, key.api(), None).await {
        Ok(_) => Ok(Reply::SeeOther(key.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(revocation_page(&visitor, &key, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn revocation_page(visitor: &Visitor<'_>, key: &Key, refusal: Option<&Refusal>) -> Reply {
    let fields = Fields::default();
    let form = RecordForm {
        title: format!("Revoke {}", key.name),
        below: "The next request with the key is refused. This cannot be undone.",
        trail: key.trail(),
        action: format!("{}/revoke", key.path()),
        cancel: key.path(),
        button: "Revoke the key",
        version: Some(key.version),
        curl: curl(visitor.visit.base_url, "DELETE", &key.api(), None),
    };
    let last = key.last_used_at.as_deref().map(|time| visitor.clock.relative(time));
    let use_of = html! {
        p {
            @match &last {
                Some(time) => { "The key was last used " (time) "." }
                None => { "The key was never used." }
            }
        }
    };
    form.page(visitor, Shown { fields: &fields, refusal }, &use_of)
}
