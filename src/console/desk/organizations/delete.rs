//! The page that asks before a record is deleted. The API says what depends on the record.

use http::Method;
use maud::{Markup, html};

use tenantd_http::problem::Code;

use super::parts::{is_correctable, or_none, version_field};
use crate::{
    components::{curl, page_head},
    desk::{Content, Reply},
    form::{Control, Shown, list_field},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// A record that is to be deleted.
pub(crate) struct Deletion<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: u64,
    pub(crate) trail: Markup,
    /// The page of the record.
    pub(crate) path: String,
    /// The record in the API.
    pub(crate) api: String,
    /// The page to show afterwards.
    pub(crate) list: String,
    /// What is deleted, in a sentence.
    pub(crate) consequence: &'a str,
    /// The label of the field with the record that takes over what refers to this one.
    pub(crate) heir: &'a str,
    pub(crate) heirs: Vec<(String, String)>,
}

impl Deletion<'_> {
    pub(crate) fn show(self, visitor: &Visitor<'_>) -> Reply {
        self.page(visitor, None)
    }

    /// Deletes the record, or shows why the API refuses.
    pub(crate) async fn act(self, visitor: &Visitor<'_>) -> Result<Reply, Refusal> {
        let fields = visitor.fields();
        let heir = fields.get("reassign_to");
        let query = if heir.is_empty() { Query::default() } else { Query::default().with("reassign_to", heir) };
        match visitor.act(Method::DELETE, query.at(&self.api), None).await {
            Ok(_) => Ok(Reply::SeeOther(self.list)),
            Err(refusal) if is_correctable(&refusal) => Ok(self.page(visitor, Some(&refusal))),
            Err(refusal) => Err(refusal),
        }
    }

    fn page(self, visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Reply {
        let title = format!("Delete {}", self.name);
        let fields = visitor.fields();
        let shown = Shown { fields: &fields, refusal };
        let has_conflict = refusal.is_some_and(|refusal| refusal.is(Code::VersionConflict));
        let heirs = or_none("Nobody: delete only if nothing refers to it", self.heirs);
        let body = html! {
            (self.trail)
            (page_head(&html! { (title) }, &html! { (self.consequence) }, &curl(visitor.visit.base_url, "DELETE", &self.api, None)))
            form.stack method="post" action={ (self.path) "/delete" } {
                (visitor.tokens())
                (version_field(self.version))
                (list_field(&self.list))
                (shown.summary())
                @if has_conflict { p.note { "The record changed after you opened this page. " a href=(self.path) { "Look at the record" } " before you delete it." } }
                @if heirs.len() > 1 {
                    (shown.field("reassign_to", self.heir, Control::Choice(&heirs), "Moving records also needs the right to change them.", false))
                }
                div.actions {
                    button.danger { "Delete" }
                    a.button href=(self.path) { "Cancel" }
                }
            }
        };
        let content = Content::new(title, body);
        Reply::Page(match refusal {
            Some(refusal) => content.refused(refusal),
            None => content,
        })
    }
}
