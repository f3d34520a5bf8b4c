//! The overview of the settings: the areas that the reader may open.

use maud::html;

use tenantd_base::access::{AUDIT_READ, Grants, Scope};

use crate::{
    components::page_head,
    desk::{Content, Reply},
    refusal::Refusal,
    visitor::Visitor,
};

/// An area of the settings.
struct Area {
    path: &'static str,
    title: &'static str,
    purpose: &'static str,
    /// The scopes that a reader of the area needs.
    needs: Grants,
}

const AREAS: [Area; 14] = [
    Area {
        path: "/profile",
        title: "Your profile",
        purpose: "Your time zone, the look of pages, and what you may do.",
        needs: Grants::NONE,
    },
    Area {
        path: "/settings/users",
        title: "Users",
        purpose: "The people who sign in, their roles and their sessions.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/sign-in",
        title: "Sign-in policy",
        purpose: "Who needs a second factor, and whether people may have personal API keys.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/portal",
        title: "Portal",
        purpose: "Whether contacts of your customers can sign in.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/roles",
        title: "Roles",
        purpose: "Sets of scopes of your own, next to the built-in roles.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/rights",
        title: "Who can do what",
        purpose: "The people and API keys that have a scope now, and why.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/keys",
        title: "API keys",
        purpose: "Credentials for programs: scopes, networks, expiry and last use.",
        needs: Grants::of(&[Scope::ApiKeysRead]),
    },
    Area {
        path: "/settings/secrets",
        title: "Secrets",
        purpose: "Values that workflow steps send to other servers.",
        needs: Grants::of(&[Scope::SecretsWrite]),
    },
    Area {
        path: "/settings/identity-providers",
        title: "Identity providers",
        purpose: "Single sign-on for your mail domains.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/provisioning",
        title: "Provisioning",
        purpose: "Staff and groups from an identity provider (SCIM), and the roles that groups give.",
        needs: Grants::of(&[Scope::UsersRead]),
    },
    Area {
        path: "/settings/service-levels",
        title: "Service levels",
        purpose: "Response and resolution times, and the calendars that they follow.",
        needs: Grants::of(&[Scope::TicketsRead]),
    },
    Area {
        path: "/settings/audit",
        title: "Audit log",
        purpose: "Who changed what, in a chain of records that can be verified.",
        needs: AUDIT_READ,
    },
    Area {
        path: "/settings/quotas",
        title: "Quotas",
        purpose: "How much of its limits your tenant uses.",
        needs: Grants::of(&[Scope::QuotasRead]),
    },
    Area {
        path: "/api/rate-limits/",
        title: "Rate limits",
        purpose: "How many requests a minute each credential and tenant may send.",
        needs: Grants::NONE,
    },
];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let below = html! { "What applies to all of " (visitor.reader.tenant_name) ". You see the areas that you may open." };
    let body = html! {
        (page_head(&html! { "Settings" }, &below, &html! {}))
        nav aria-label="Settings" {
            ul.cards {
                @for area in AREAS.iter().filter(|area| visitor.reader.grants.covers(area.needs)) {
                    li { a href=(area.path) { (area.title) } p { (area.purpose) } }
                }
            }
        }
    };
    Ok(Reply::Page(Content::new("Settings", body)))
}
