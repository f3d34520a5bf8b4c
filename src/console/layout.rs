//! The frame of a page: header with search, navigation, trail of links, content.

use maud::{DOCTYPE, Markup, html};

use crate::page::{CONSOLE_SCRIPT, STYLE_SHEET};

/// A heading of the navigation with its links.
#[derive(Debug)]
pub struct NavigationGroup {
    pub title: &'static str,
    pub links: Vec<Link>,
}

#[derive(Clone, Debug)]
pub struct Link {
    pub path: String,
    pub title: String,
}

impl Link {
    pub fn new(path: impl Into<String>, title: impl Into<String>) -> Self {
        Self { path: path.into(), title: title.into() }
    }
}

/// What surrounds the content of a page.
#[derive(Debug)]
pub struct Frame<'a> {
    pub title: &'a str,
    /// The path of the page. The navigation marks the link to it, or to the pages above it.
    pub path: &'a str,
    /// The pages above this one, from the top.
    pub trail: Vec<Link>,
    pub navigation: &'a [NavigationGroup],
    /// What the visitor searched for.
    pub search: &'a str,
}

impl Frame<'_> {
    pub fn render(&self, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(self.title))
                body {
                    a.skip href="#content" { "Skip to content" }
                    (self.header())
                    div.shell {
                        main #content tabindex="-1" {
                            (self.trail())
                            (content)
                        }
                        @if !self.navigation.is_empty() { (self.navigation()) }
                    }
                }
            }
        }
    }

    fn header(&self) -> Markup {
        html! {
            header.top {
                a.brand href="/documentation/" { span.logo aria-hidden="true" {} "tenantd" }
                @if !self.navigation.is_empty() { a.menu href="#navigation" { "Menu" } }
                form.search role="search" action="/documentation/search/" method="get" {
                    input type="search" name="q" value=(self.search) maxlength="200" aria-label="Search the documentation" placeholder="Search the documentation";
                }
                nav.site aria-label="Site" {
                    a href="/documentation/" { "Documentation" }
                    a href="/documentation/analytics/" { "Analytics" }
                    a href="/status/" { "Status" }
                    a href="/sign-in" { "Sign in" }
                }
            }
        }
    }

    fn trail(&self) -> Markup {
        html! {
            @if !self.trail.is_empty() {
                nav.trail aria-label="Breadcrumb" {
                    @for (place, link) in self.trail.iter().enumerate() {
                        @if place > 0 { span aria-hidden="true" { "/" } }
                        a href=(link.path) { (link.title) }
                    }
                }
            }
        }
    }

    fn navigation(&self) -> Markup {
        html! {
            nav.side #navigation aria-label="Documentation" {
                @for group in self.navigation {
                    h2 { (group.title) }
                    ul {
                        @for link in &group.links {
                            li { a href=(link.path) aria-current=[self.current(&link.path)] { (link.title) } }
                        }
                    }
                }
            }
        }
    }

    fn current(&self, path: &str) -> Option<&'static str> {
        if self.path == path {
            Some("page")
        } else {
            // A page below a link: an operation marks its area.
            self.trail.last().filter(|parent| parent.path == path && path != "/documentation/").map(|_| "true")
        }
    }
}

/// The head of every page.
pub fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (title) " – tenantd" }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            link rel="stylesheet" href=(STYLE_SHEET.address());
            link rel="icon" href="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='4' fill='%234f46e5'/></svg>";
            script src=(CONSOLE_SCRIPT.address()) defer {}
        }
    }
}

/// A page with one thing to do, such as signing in.
pub fn narrow(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body.narrow {
                header { a.brand href="/" { span.logo aria-hidden="true" {} "tenantd" } }
                main #content { h1 { (title) } (content) }
                footer { a href="/documentation/" { "Documentation" } " · " a href="/status/" { "Status" } }
            }
        }
    }
}
