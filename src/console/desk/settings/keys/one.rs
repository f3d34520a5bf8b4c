//! The page of a key.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{Key, PATH, SETTINGS, cards, key};
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::trail,
        settings::{
            parts::{Action, actions_card},
            rights,
        },
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// The page, with why an action was refused.
pub(super) async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let key = key(visitor).await?;
    let organizations = cards::organizations(visitor, &key).await?;
    let fields = Fields::default();
    let alert = Shown { fields: &fields, refusal };
    let may_write = visitor.may(Scope::ApiKeysWrite) && !key.is_revoked();
    let rights = rights::read(visitor, &key.api()).await?;
    let body = html! {
        (trail(&[(SETTINGS, "Settings"), (PATH, "API keys")]))
        (head(&key, may_write, visitor))
        (alert.summary())
        (cards::notes(&key, visitor))
        div.split {
            div {
                (cards::scopes(&key))
                (rights::rights_card(rights.as_ref(), &key.api(), visitor))
                (cards::restrictions(&key, organizations.as_deref(), visitor))
                @if may_write { (actions_card("Actions", &actions(&key, visitor))) }
            }
            div { (cards::details(&key, visitor)) (cards::use_of(&key, visitor)) }
        }
    };
    let content = Content::new(key.name.clone(), body).live_about("api_key.*", &key.id);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(key: &Key, may_write: bool, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (key.name) },
        &html! { (key.badge()) " " (key.hint()) @if let Some(description) = &key.description { " · " (description) } },
        &html! {
            (curl(visitor.visit.base_url, "GET", &key.api(), None))
            @if may_write && !key.personal {
                a.button href={ (key.path()) "/edit" } { "Edit" }
                a.button href={ (key.path()) "/rotate" } { "Rotate" }
            }
        },
    )
}

/// What the reader can do with a key that is not revoked.
fn actions(key: &Key, visitor: &Visitor<'_>) -> Vec<Action> {
    let (api, base_url) = (key.api(), visitor.visit.base_url);
    let take_over = Action {
        title: "Take over",
        effect: "Makes you responsible for the key. If you lose rights that it has, tenantd pauses it.",
        control: cards::button(key, "take-over", "Take over", None, visitor),
        curl: curl(base_url, "POST", &format!("{api}/take-over"), None),
    };
    let revoke = Action {
        title: "Revoke",
        effect: "The key never works again. It stays in the list for a while.",
        control: html! { a.button.danger href={ (key.path()) "/revoke" } { "Revoke" } },
        curl: curl(base_url, "DELETE", &api, None),
    };
    if key.personal {
        return vec![revoke];
    }
    let taken = (!key.is_owned_by(visitor)).then_some(take_over);
    std::iter::once(cards::switch(key, visitor)).chain(taken).chain(std::iter::once(revoke)).collect()
}
