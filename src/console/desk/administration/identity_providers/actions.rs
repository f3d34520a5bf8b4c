//! What the forms on the page of an identity provider do, and its deletion.

use http::Method;
use serde_json::json;

use super::{PATH, Provider, one::page, provider};
use crate::{
    desk::{
        Reply,
        organizations::{Deletion, is_correctable},
    },
    query::segment,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// Enables or disables the provider.
pub(crate) async fn change_status(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    let body = json!({"enabled": visitor.fields().get("enabled") == "true"});
    match visitor.act(Method::PUT, provider.api(), Some(body)).await {
        Ok(_) => Ok(Reply::SeeOther(provider.path())),
        Err(refusal) => refused(&visitor, &provider, refusal),
    }
}

/// Looks up the DNS record of a domain.
pub(crate) async fn verify(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    let target = format!("{}/domains/{}/verify", provider.api(), segment(visitor.part("domain")));
    match visitor.act(Method::POST, target, None).await {
        Ok(_) => Ok(Reply::SeeOther(provider.path())),
        Err(refusal) => refused(&visitor, &provider, refusal),
    }
}

/// Tests the provider, and shows the result on its page. The link of the result is short-lived, so it is in no address of a page.
pub(crate) async fn test(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    match visitor.act(Method::POST, format!("{}/test", provider.api()), None).await {
        Ok(answer) => Ok(page(&visitor, &provider, Some(&parsed(answer.body)?), None)),
        Err(refusal) => refused(&visitor, &provider, refusal),
    }
}

fn refused(visitor: &Visitor<'_>, provider: &Provider, refusal: Refusal) -> Result<Reply, Refusal> {
    if is_correctable(&refusal) { Ok(page(visitor, provider, None, Some(&refusal))) } else { Err(refusal) }
}

pub(crate) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    Ok(deletion(&provider).show(&visitor))
}

pub(crate) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    deletion(&provider).act(&visitor).await
}

fn deletion(provider: &Provider) -> Deletion<'_> {
    Deletion {
        name: &provider.name,
        version: provider.version,
        trail: provider.trail(),
        path: provider.path(),
        api: provider.api(),
        list: PATH.to_owned(),
        consequence: "Nobody can sign in through the provider any more. People who are signed in stay signed in, and people with a \
                      password can use it. Other providers can then use the domains. This cannot be undone.",
        heir: "",
        heirs: Vec::new(),
    }
}
