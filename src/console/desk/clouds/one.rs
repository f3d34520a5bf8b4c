//! The page of a cloud provider: what its credential may do, its syncs, and its VMs.

use http::Method;
use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    API, PATH, VMS_API, VMS_PATH,
    fields::Kind,
    kinds::title_of,
    record::{Provider, SyncState, provider, status_badge},
    refresh,
    vm::{Vm, vm_rows},
};
use crate::{
    components::{Tone, badge, card, curl, facts, page_head, words},
    desk::{
        Content, Reply,
        organizations::{counted, is_correctable, optional, trail},
        records::List,
    },
    form::Shown,
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// Verifies the stored credential, and shows the result.
pub(super) async fn verify(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let id = segment(visitor.part("id"));
    match visitor.act(Method::POST, format!("{API}/{id}/verify"), None).await {
        Ok(_) => Ok(Reply::SeeOther(format!("{PATH}/{id}"))),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let provider = provider(visitor).await?;
    let of_provider = Query::default().with("provider_id", &provider.id);
    let vms: Option<List<Vm>> = if visitor.may(Scope::VmsRead) {
        visitor.read_if_allowed(of_provider.clone().with("limit", "20").with("include_total", "true").at(VMS_API)).await?
    } else {
        None
    };
    let body = html! {
        (trail(&[(PATH, "Clouds")]))
        (head(&provider, visitor))
        (Shown { fields: &visitor.fields(), refusal }.summary())
        div.split {
            div {
                (card("What the credential may do", &capabilities(&provider, visitor)))
                @if let Some(vms) = &vms { (card("Virtual machines", &machines(vms, &of_provider, visitor))) }
            }
            div {
                (card("Syncs", &syncs(&provider.sync, visitor)))
                (card("Details", &details(&provider, visitor)))
                (card("Configuration", &configuration(&provider)))
            }
        }
    };
    let content = Content::new(provider.name.clone(), body).live("cloud.provider.* vm.*");
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let order = Query::default().with("provider_id", &provider.id).at("/vms/new");
    page_head(
        &html! { (provider.name) },
        &html! {
            (status_badge(&provider.status)) " " (title_of(&provider.kind))
            @if let Some(organization) = &provider.organization { " of " (organization.link("organizations")) }
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", &provider.api(), None))
            @if visitor.may(Scope::VmsRead) { (refresh::button("Sync now", Some(&provider.id), visitor)) }
            @if visitor.may(Scope::ProvidersWrite) {
                a.button href={ (provider.path()) "/edit" } { "Edit" }
                a.button href={ (provider.path()) "/delete" } { "Delete" }
            }
            @if visitor.may(Scope::VmsWrite) && provider.enabled { a.button.primary href=(order) { "Order VMs" } }
        },
    )
}

fn capabilities(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let api = format!("{}/verify", provider.api());
    html! {
        @match &provider.verification {
            Some(verification) => { (verification.show(visitor.clock)) }
            None => { p.muted { "The credential was not verified since the configuration was last changed." } }
        }
        @if visitor.may(Scope::ProvidersWrite) {
            div.actions {
                form method="post" action={ (provider.path()) "/verify" } {
                    (visitor.tokens())
                    button.button { "Verify now" }
                }
                (curl(visitor.visit.base_url, "POST", &api, None))
                span.muted { "Takes at most 10 seconds." }
            }
        }
    }
}

fn machines(vms: &List<Vm>, of_provider: &Query, visitor: &Visitor<'_>) -> Markup {
    let total = vms.page.total.unwrap_or_default();
    html! {
        @if vms.data.is_empty() {
            p.muted { "No VMs. They appear after the first sync." }
        } @else {
            (vm_rows(&vms.data, false, visitor))
            p { a href=(of_provider.at(VMS_PATH)) { "Show " (counted(total, "VM", "VMs")) } }
        }
    }
}

fn syncs(sync: &SyncState, visitor: &Visitor<'_>) -> Markup {
    let time = |at: &Option<String>| at.as_deref().map(|at| visitor.clock.relative(at));
    html! {
        (facts(&[
            ("State", Some(sync_badge(&sync.state))),
            ("Last success", Some(time(&sync.last_at).unwrap_or_else(|| html! { span.muted { "Never" } }))),
            ("Next", time(&sync.next_at)),
            ("VMs found", Some(html! { (sync.vm_count) })),
            ("Every", Some(html! { (sync.interval_seconds) " s" })),
        ]))
        @if let Some(error) = &sync.error {
            h3 { "The last sync failed" }
            p { (error.message) " " code { (error.code) } " " span.muted { (visitor.clock.relative(&error.at)) } }
            p { strong { "What to do: " } "verify the provider. The check that fails says how to fix the problem. tenantd repeats the sync by itself." }
        }
        @if let Some(unreadable) = &sync.unreadable {
            h3 { "Not everything could be read" }
            ul {
                @if unreadable.partial > 0 { li { (counted(unreadable.partial, "VM is", "VMs are")) " listed with missing fields." } }
                @if unreadable.skipped > 0 { li { (counted(unreadable.skipped, "entry is", "entries are")) " not listed. Until this is fixed, VMs that are gone do not become terminated." } }
                @for reason in &unreadable.reasons { li { (reason) } }
            }
        }
    }
}

fn sync_badge(state: &str) -> Markup {
    let (tone, text) = match state {
        "ok" => (Tone::Good, "Succeeded".to_owned()),
        "failed" => (Tone::Bad, "Failed".to_owned()),
        "pending" => (Tone::Neutral, "Not yet synced".to_owned()),
        other => (Tone::Neutral, words(other)),
    };
    badge(tone, &text)
}

fn details(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let (credential, clock) = (&provider.credential, visitor.clock);
    let has_credential = credential.kind != "none";
    facts(&[
        ("Kind", Some(html! { (title_of(&provider.kind)) })),
        (
            "Organization",
            Some(html! {
                @match &provider.organization {
                    Some(organization) => { (organization.link("organizations")) }
                    None => { "Shared by several organizations" }
                }
            }),
        ),
        ("Enabled", Some(html! { @if provider.enabled { "Yes" } @else { "No: tenantd does not sync it" } })),
        ("Credential", has_credential.then(|| html! { (words(&credential.kind)) " " (optional(credential.hint.as_deref())) })),
        ("Credential set", has_credential.then(|| clock.relative(&credential.set_at))),
        ("ID", Some(html! { code { (provider.id) } })),
        ("Created", Some(clock.absolute(&provider.created_at))),
        ("Changed", Some(clock.relative(&provider.updated_at))),
    ])
}

fn configuration(provider: &Provider) -> Markup {
    let fields = Kind::of(&provider.kind).map_or(&[][..], |kind| kind.config);
    let rows: Vec<(&str, Option<Markup>)> = fields
        .iter()
        .map(|field| (field.label, provider.config.get(field.name).map(|value| html! { (field.shown(value)) })))
        .collect();
    html! {
        @if rows.iter().all(|(_, value)| value.is_none()) {
            p.muted { "The defaults of the cloud." }
        } @else {
            (facts(&rows))
        }
    }
}
