//! The frame of the desk: navigation by what the reader may do, search, who is signed in.

use maud::{DOCTYPE, Markup, html};

use tenantd_base::access::{Identity, Role, Scope, StaffRole, TenantKind};

use super::{Content, Live};
use crate::{components::avatar, layout::head, visitor::Visitor};

/// An area of the desk in the navigation.
struct Area {
    path: &'static str,
    title: &'static str,
    /// Who may not read this does not see the area.
    scope: Option<Scope>,
}

const AREAS: [Area; 12] = [
    Area { path: "/", title: "Home", scope: None },
    Area { path: "/tickets", title: "Tickets", scope: Some(Scope::TicketsRead) },
    Area { path: "/organizations", title: "Organizations", scope: Some(Scope::DirectoryRead) },
    Area { path: "/devices", title: "Devices", scope: Some(Scope::DirectoryRead) },
    Area { path: "/workflows", title: "Workflows", scope: Some(Scope::WorkflowsRead) },
    Area { path: "/webhooks", title: "Webhooks", scope: Some(Scope::WebhooksRead) },
    Area { path: "/clouds", title: "Clouds", scope: Some(Scope::ProvidersRead) },
    Area { path: "/vms", title: "Virtual machines", scope: Some(Scope::VmsRead) },
    Area { path: "/backups", title: "Backups", scope: Some(Scope::BackupRead) },
    Area { path: "/analytics", title: "Analytics", scope: Some(Scope::AnalyticsRead) },
    Area { path: "/settings", title: "Settings", scope: None },
    Area { path: "/documentation/", title: "Documentation", scope: None },
];

pub(super) struct Frame<'a> {
    pub(super) visitor: &'a Visitor<'a>,
    pub(super) content: &'a Content,
}

impl Frame<'_> {
    pub(super) fn render(&self) -> Markup {
        let theme = Some(self.visitor.preferences.theme.as_str()).filter(|theme| matches!(*theme, "light" | "dark"));
        let live = self.live();
        let (kinds, record) = (live.map(|live| live.kinds), live.and_then(|live| live.record.as_deref()));
        html! {
            (DOCTYPE)
            html lang="en" data-theme=[theme] {
                (head(&self.content.title))
                body.desk {
                    a.skip href="#content" { "Skip to content" }
                    (self.navigation())
                    div.page {
                        (self.header())
                        main #content tabindex="-1" data-live=[kinds] data-live-record=[record] {
                            @if let Some(notice) = self.visitor.notice() { p.note role="status" { (notice) } }
                            (self.content.body)
                        }
                    }
                }
            }
        }
    }

    /// What the page follows. The answer to a form does not follow anything: its address may not be that of a page.
    fn live(&self) -> Option<&Live> {
        let is_read = self.visitor.visit.form.is_none() && self.content.status.is_success();
        self.content.live.as_ref().filter(|_| is_read && self.visitor.may(Scope::EventsRead))
    }

    fn header(&self) -> Markup {
        html! {
            header.top {
                a.menu href="#navigation" { "Menu" }
                @if self.visitor.may(Scope::SearchRead) {
                    form.search role="search" action="/search" method="get" {
                        input type="search" name="q" value=(self.content.search) maxlength="200" aria-label="Search" placeholder="Search tickets, devices, people, addresses…" autocomplete="off" data-search;
                        kbd aria-hidden="true" { "/" }
                        ul #suggestions role="listbox" aria-label="Suggestions" hidden {}
                    }
                }
                @if self.visitor.reader.tenant_kind == TenantKind::Evaluation {
                    span.badge.warn.evaluation { "Evaluation" }
                }
            }
        }
    }

    fn navigation(&self) -> Markup {
        html! {
            nav.side #navigation aria-label="Main" {
                a.brand href="/" { span.logo aria-hidden="true" {} "tenantd" }
                ul {
                    @for area in &AREAS {
                        @if area.scope.is_none_or(|scope| self.visitor.may(scope)) {
                            li { a href=(area.path) aria-current=[self.current(area.path)] { (area.title) } }
                        }
                    }
                    @if self.visitor.reader.is_operator() { li { a href="/operator" aria-current=[self.current("/operator")] { "Operator" } } }
                }
                div.person {
                    (avatar(self.visitor.name()))
                    a href="/profile" aria-current=[self.current("/profile")] {
                        strong { (self.visitor.name()) }
                        small { (role(&self.visitor.reader.identity)) " · " (self.visitor.reader.tenant_name) }
                    }
                    form method="post" action="/sign-out" {
                        (self.visitor.tokens())
                        button.quiet { "Sign out" }
                    }
                }
            }
        }
    }

    /// Marks the page itself, and the area of a page below it.
    fn current(&self, path: &str) -> Option<&'static str> {
        let here = self.visitor.visit.path;
        let below = |rest: &str| rest.starts_with('/');
        match here.strip_prefix(path) {
            Some("") => Some("page"),
            Some(rest) if path != "/" && below(rest) => Some("true"),
            _ => None,
        }
    }
}

/// The role of a caller in words.
pub(super) fn role(identity: &Identity) -> &str {
    match identity {
        Identity::User { role: StaffRole::BuiltIn(role), .. } => built_in_role(*role),
        Identity::User { role_name, .. } => role_name.as_deref().unwrap_or("Custom role"),
        Identity::Contact { .. } => "Contact",
        Identity::LocalOperator => "Operator",
        Identity::ApiKey { .. } => "API key",
    }
}

/// A built-in role in words.
pub(super) fn built_in_role(role: Role) -> &'static str {
    match role {
        Role::Operator => "Operator",
        Role::Admin => "Administrator",
        Role::Technician => "Technician",
        Role::Viewer => "Viewer",
    }
}
