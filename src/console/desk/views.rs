//! Views of a list: those that everyone has, and those that a reader has saved.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::records::List;
use crate::{
    form::{Control, Fields, Shown, list_field},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/auth/views";

/// A list that has views.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    /// The area as the API names it.
    pub(super) name: &'static str,
    /// The path of the list.
    pub(super) path: &'static str,
    /// Views that everyone has: their words and their query.
    pub(super) common: &'static [(&'static str, &'static str)],
}

/// A view that the reader has saved.
#[derive(Debug, Deserialize)]
pub(super) struct SavedView {
    id: String,
    name: String,
    query: String,
}

/// The query of a view: the filters and the order without the page.
fn view_of(query: &Query) -> Query {
    query.clone().without("cursor").without("limit")
}

impl Area {
    /// The views that the reader has saved; `None` if they cannot save views.
    pub(super) async fn saved(self, visitor: &Visitor<'_>) -> Result<Option<Vec<SavedView>>, Refusal> {
        let list = visitor.read_if_allowed::<List<SavedView>>(format!("{API}?area={}", self.name)).await?;
        Ok(list.map(|list| list.data))
    }

    /// Saves the query of the page as a view. Returns the path of the view.
    pub(super) async fn save(self, visitor: &Visitor<'_>) -> Result<String, Refusal> {
        let view = view_of(&visitor.query());
        let body = json!({"area": self.name, "name": visitor.fields().get("name"), "query": view.text()});
        visitor.act(Method::POST, API, Some(body)).await?;
        Ok(view.at(self.path))
    }

    /// Deletes a view. Returns the path of the page that the form was on.
    pub(super) async fn delete(self, visitor: &Visitor<'_>) -> Result<String, Refusal> {
        visitor.act(Method::DELETE, format!("{API}/{}", segment(visitor.part("id"))), None).await?;
        Ok(visitor.query().at(self.path))
    }

    /// The views as links, with the form that saves and deletes them. `query` is what the list shows.
    pub(super) fn chips(
        self,
        query: &Query,
        saved: Option<&[SavedView]>,
        visitor: &Visitor<'_>,
        refusal: Option<&Refusal>,
    ) -> Markup {
        let current = view_of(query);
        let chip = |name: &str, view: &str, is_saved: bool| {
            let view = Query::parse(view);
            let is_current = (view == current).then_some("page");
            html! { a.chip href=(view.at(self.path)) aria-current=[is_current] { @if is_saved { "Saved: " } (name) } }
        };
        html! {
            nav.chips aria-label="Views" {
                @for (name, view) in self.common { (chip(name, view, false)) }
                @for view in saved.unwrap_or_default() { (chip(&view.name, &view.query, true)) }
                @if let Some(saved) = saved { (self.manage(query, saved, visitor, refusal)) }
            }
        }
    }

    /// The form that saves the view, and the views that can be deleted.
    fn manage(self, query: &Query, saved: &[SavedView], visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Markup {
        let fields = Fields::new(visitor.visit.form.unwrap_or_default());
        let refusal = refusal.filter(|_| fields.has("name"));
        let form = Shown { fields: &fields, refusal };
        html! {
            details.menu-box open[refusal.is_some()] {
                summary.chip { "Saved views" }
                div.popup {
                    form method="post" action=(view_of(query).at(&format!("{}/views", self.path))) {
                        (visitor.tokens())
                        (form.summary())
                        (form.field("name", "Save this view as", Control::Input("text"), "", true))
                        div.actions { button.primary { "Save" } }
                    }
                    @if !saved.is_empty() {
                        ul.plain {
                            @for view in saved {
                                li {
                                    form method="post" action=(query.at(&format!("{}/views/{}/delete", self.path, segment(&view.id)))) {
                                        (visitor.tokens())
                                        (list_field(&query.at(self.path)))
                                        (view.name) " "
                                        button.quiet aria-label={ "Delete the view " (view.name) } { "Delete" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
