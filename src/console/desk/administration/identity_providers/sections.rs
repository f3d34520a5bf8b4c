//! The parts of the page of an identity provider: its domains with their proof, its tests, and its last sign-ons.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{DomainClaim, Failure, Provider, TestSignIn, Trial};
use crate::{
    components::{Tone, badge, code, curl, facts, words},
    query::segment,
    visitor::Visitor,
};

pub(super) fn state_badge(is_enabled: bool) -> Markup {
    if is_enabled { badge(Tone::Good, "Enabled") } else { badge(Tone::Neutral, "Disabled") }
}

/// The settings of the provider. The API never returns the client secret.
pub(super) fn details(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let unknown = if provider.auto_provision { "Become a user with the role below" } else { "Are refused" };
    facts(&[
        ("Issuer", Some(code(&provider.issuer))),
        ("Client ID", Some(code(&provider.client_id))),
        ("Client secret", Some(html! { span.muted { "Stored encrypted. tenantd never shows it." } })),
        ("Redirect URI", Some(html! { code { (provider.redirect_uri) } " " (own_or_shared(provider)) })),
        ("Logout URI", Some(html! { code { (provider.backchannel_logout_uri) } " for back-channel logout" })),
        ("Logout page", Some(html! { code { (provider.frontchannel_logout_uri) } " for front-channel logout" })),
        ("Scopes", Some(html! { (provider.scopes.join(", ")) })),
        ("Unknown people", Some(html! { (unknown) })),
        ("Role", Some(html! { (words(&provider.default_role)) })),
        ("ID", Some(code(&provider.id))),
        ("Created", Some(visitor.clock.absolute(&provider.created_at))),
        ("Changed", Some(visitor.clock.relative(&provider.updated_at))),
    ])
}

fn own_or_shared(provider: &Provider) -> &'static str {
    if provider.rules.has_own_redirect_uri() { "" } else { "(shared with other providers)" }
}

pub(super) fn domains(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let is_open = provider.domain_claims.iter().any(|claim| !claim.proven);
    html! {
        @if is_open {
            p {
                "People with an address of a domain can sign in after the domain is proven. "
                "Publish the TXT record at the DNS of the domain, then verify it. The operator can also approve the domain, with "
                code { "tenantd domain approve" } "."
            }
        }
        ul.lines { @for claim in &provider.domain_claims { li { (domain(claim, provider, visitor)) } } }
    }
}

fn domain(claim: &DomainClaim, provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let verify = format!("/domains/{}/verify", segment(&claim.domain));
    html! {
        h3 { (claim.domain) " " @if claim.proven { (badge(Tone::Good, "Proven")) } @else { (badge(Tone::Warn, "Not proven")) } }
        @if claim.proven {
            p.muted {
                (proof_words(claim.proven_by.as_deref()))
                @if let Some(at) = &claim.proven_at { ", " (visitor.clock.relative(at)) }
            }
        } @else {
            (facts(&[
                ("Record type", Some(code("TXT"))),
                ("Name", claim.record_name.as_deref().map(code)),
                ("Value", claim.record_value.as_deref().map(code)),
            ]))
            @if visitor.may(Scope::UsersWrite) {
                div.actions {
                    form method="post" action={ (provider.path()) (verify) } {
                        (visitor.tokens())
                        button aria-label={ "Verify " (claim.domain) } { "Verify" }
                    }
                    (curl(visitor.visit.base_url, "POST", &format!("{}{verify}", provider.api()), None))
                }
            }
        }
    }
}

fn proof_words(proven_by: Option<&str>) -> &'static str {
    match proven_by {
        Some("dns") => "Proven by the DNS record",
        Some("operator") => "Approved by the operator",
        Some("reserved") => "A reserved domain of the evaluation",
        Some("before") => "In use before domains had to be proven",
        _ => "Proven",
    }
}

/// The form that tests the provider, and what the last test on this page found.
pub(super) fn trials(provider: &Provider, trial: Option<&Trial>, visitor: &Visitor<'_>) -> Markup {
    html! {
        p {
            "tenantd reads the discovery document and the keys, opens the sign-in page, and checks the client with its secret. "
            "The test changes nothing. The provider can be disabled."
        }
        @if let Some(trial) = trial { (outcome(trial)) }
        div.actions {
            form method="post" action={ (provider.path()) "/test" } { (visitor.tokens()) button { @if trial.is_some() { "Test again" } @else { "Test" } } }
            (curl(visitor.visit.base_url, "POST", &format!("{}/test", provider.api()), None))
        }
    }
}

fn outcome(trial: &Trial) -> Markup {
    html! {
        p role="status" {
            strong { @if trial.passed { "No check failed." } @else { "A check failed." } }
        }
        ul.lines {
            @for check in &trial.checks {
                li { (badge(check_tone(&check.status), &words(&check.status))) " " strong { (words(&check.name)) } ": " (check.message) }
            }
        }
        h3 { "Test sign-in" }
        p {
            "Sign in at the provider to test the redirect URI and the claims. tenantd shows who would be signed in, and signs nobody in. "
            "The link works for 10 minutes. Register this redirect URI at the provider: " code { (trial.redirect_uri) }
        }
        @if is_web_address(&trial.sign_in_url) { p { a.button.primary href=(trial.sign_in_url) { "Start the test sign-in" } } }
    }
}

fn check_tone(status: &str) -> Tone {
    match status {
        "passed" => Tone::Good,
        "failed" => Tone::Bad,
        _ => Tone::Neutral,
    }
}

fn is_web_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// The last sign-ons through the provider.
pub(super) fn history(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    let Some(sign_on) = &provider.sign_on else {
        return html! { p.muted { "Nobody has signed in through this provider yet." } };
    };
    facts(&[
        ("Last sign-in", sign_on.success_at.as_deref().map(|at| visitor.clock.relative(at))),
        ("Last refusal", sign_on.failure.as_ref().map(|failure| failed(failure, visitor))),
        ("Last test", sign_on.test.as_ref().map(|test| tested(test, visitor))),
    ])
}

fn failed(failure: &Failure, visitor: &Visitor<'_>) -> Markup {
    html! {
        (visitor.clock.relative(&failure.at)) ": " (words(&failure.reason))
        @if let Some(cause) = &failure.cause { " (" (cause) ")" }
    }
}

fn tested(test: &TestSignIn, visitor: &Visitor<'_>) -> Markup {
    html! {
        @if test.succeeded { (badge(Tone::Good, "Succeeded")) } @else { (badge(Tone::Bad, "Failed")) }
        " " (visitor.clock.relative(&test.at))
        @if let Some(email) = &test.email {
            ": " (email) @if test.creates_user { " would become a new user" } @else { " is a user" }
            @if let Some(role) = &test.role { " with the role " (words(role)) }
        }
        @if let Some(failure) = &test.failure {
            ": " (words(&failure.reason)) @if let Some(cause) = &failure.cause { " (" (cause) ")" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_become_links() {
        assert!(is_web_address("https://id.acme.com/x") && is_web_address("http://127.0.0.1:8472/x"));
        assert!(!is_web_address("javascript:alert(1)") && !is_web_address("//id.acme.com"));
    }
}
