//! The parts of the page of a key: what it may do, where it works, its facts and its use.

use maud::{Markup, html};
use serde_json::json;

use tenantd_base::access::Scope;

use super::Key;
use crate::{
    components::{Tone, badge, card, code, curl, facts},
    desk::{
        organizations::organization_choices,
        settings::parts::{Action, author},
    },
    form::VERSION,
    refusal::Refusal,
    visitor::Visitor,
};

/// The ids and names of the organizations that the key is limited to. `None`: it is not limited.
pub(super) async fn organizations(visitor: &Visitor<'_>, key: &Key) -> Result<Option<Vec<(String, String)>>, Refusal> {
    let Some(ids) = &key.organization_ids else { return Ok(None) };
    let known = organization_choices(visitor, None).await?;
    let named =
        ids.iter().map(|id| known.iter().find(|(known, _)| known == id).cloned().unwrap_or_else(|| (id.clone(), id.clone())));
    Ok(Some(named.collect()))
}

/// What the reader has to know first: why a key is paused, or that it will be.
pub(super) fn notes(key: &Key, visitor: &Visitor<'_>) -> Markup {
    html! {
        @if key.personal {
            p.note { "A personal key: it acts for " (author(&key.owner, visitor)) ", with no more than the rights that they have at that moment. It ends when they are removed." }
        }
        @if let Some(pause) = &key.paused {
            p.note {
                "tenantd paused the key " (visitor.clock.relative(&pause.at)) ": " (reason(&pause.reason))
                @if !key.personal { " Take it over, or enable it, if it is still needed." }
            }
        }
        @if let Some(until) = &key.legacy_until {
            p.note { "An older release made the key, and its owner does not have all of its rights. tenantd pauses it " (visitor.clock.relative(until)) " unless somebody takes it over." }
        }
        @if let Some(until) = &key.previous_expires_at {
            p.note { "The key was rotated. The old key works until " (visitor.clock.absolute(until)) "." }
        }
    }
}

fn reason(code: &str) -> &str {
    match code {
        "owner_removed" => "its owner was removed.",
        "owner_disabled" => "its owner was disabled.",
        "owner_demoted" => "its owner lost rights that the key has.",
        "owner_revoked" => "the key that owns it was revoked.",
        "access_ended" => {
            "somebody could have got its secret in an account that has more rights now. Rotate it without an overlap, then take it over."
        }
        "legacy" => "an older release made it, and its owner does not have all of its rights.",
        other => other,
    }
}

pub(super) fn scopes(key: &Key) -> Markup {
    let body = html! {
        p.badges { @for pattern in &key.scopes { (badge(Tone::Neutral, pattern)) " " } }
        details {
            summary { "What this permits" }
            ul.lines {
                @for scope in key.grants().iter() { li { (code(scope.name())) " " (scope.description()) } }
            }
        }
    };
    card("Scopes", &body)
}

pub(super) fn restrictions(key: &Key, organizations: Option<&[(String, String)]>, visitor: &Visitor<'_>) -> Markup {
    let may_open = visitor.may(Scope::DirectoryRead);
    let body = facts(&[
        (
            "Networks",
            Some(html! {
                @match &key.allowed_ips {
                    Some(networks) => { @for network in networks { (code(network)) " " } }
                    None => { "The key works from any address." }
                }
            }),
        ),
        (
            "Records",
            Some(html! {
                @match organizations {
                    Some(organizations) => {
                        "Only of "
                        @for (place, (id, name)) in organizations.iter().enumerate() {
                            @if place > 0 { ", " }
                            @if may_open { a href={ "/organizations/" (id) } { (name) } } @else { (name) }
                        }
                    }
                    None => { "All records of the tenant." }
                }
            }),
        ),
        (
            "Rate limits",
            Some(
                html! { "The key has a budget of its own for each class of requests. " a href="/api/rate-limits/" { "Rate limits" } },
            ),
        ),
    ]);
    card("Restrictions", &body)
}

pub(super) fn details(key: &Key, visitor: &Visitor<'_>) -> Markup {
    let time = |text: Option<&str>| text.map(|text| visitor.clock.absolute(text));
    let body = facts(&[
        ("Expires", time(Some(&key.expires_at))),
        ("Owner", Some(author(&key.owner, visitor))),
        ("Created by", Some(author(&key.created_by, visitor))),
        ("Created", time(Some(&key.created_at))),
        ("Changed", Some(visitor.clock.relative(&key.updated_at))),
        ("Rotated", time(key.rotated_at.as_deref())),
        ("Revoked", time(key.revoked_at.as_deref())),
        ("ID", Some(code(&key.id))),
    ]);
    card("Details", &body)
}

pub(super) fn use_of(key: &Key, visitor: &Visitor<'_>) -> Markup {
    let last = key.last_used_at.as_deref().map(|time| visitor.clock.relative(time));
    let body = facts(&[
        ("Last used", Some(last.unwrap_or_else(|| html! { span.muted { "Never" } }))),
        ("From", key.last_used_ip.as_deref().map(code)),
        ("Requests", Some(html! { (key.use_count) })),
    ]);
    card("Use", &body)
}

/// A form with one button that acts on the key. `enabled` is what the form says about it.
pub(super) fn button(key: &Key, place: &str, words: &str, enabled: Option<bool>, visitor: &Visitor<'_>) -> Markup {
    html! {
        form method="post" action={ (key.path()) "/" (place) } {
            (visitor.tokens())
            input type="hidden" name=(VERSION) value={ "v" (key.version) };
            @if let Some(enabled) = enabled { input type="hidden" name="enabled" value=(enabled.to_string()); }
            button { (words) }
        }
    }
}

/// Pauses the key, or lets it work again.
pub(super) fn switch(key: &Key, visitor: &Visitor<'_>) -> Action {
    let is_off = key.status == "disabled";
    let (title, effect, words) = if is_off {
        ("Enable", "Requests with the key work again. If tenantd paused it, you become its owner.", "Enable")
    } else {
        ("Pause", "Requests with the key are refused until somebody enables it.", "Pause")
    };
    Action {
        title,
        effect,
        control: button(key, "status", words, Some(is_off), visitor),
        curl: curl(visitor.visit.base_url, "PUT", &key.api(), Some(&json!({"enabled": is_off}))),
    }
}
