//! What the pages of the settings share: authors, actions, texts to copy, and choices of some records.

use maud::{Markup, html};
use serde_json::Value;

use tenantd_base::access::Scope;

use crate::{
    components::card,
    desk::records::Named,
    form::{Control, Fields, Shown},
    visitor::Visitor,
};

/// Who made or owns a record. Users and API keys have a page.
pub(super) fn author(author: &Named, visitor: &Visitor<'_>) -> Markup {
    match author.id.split('_').next() {
        Some("usr") if visitor.may(Scope::UsersRead) => author.link("settings/users"),
        Some("key") if visitor.may(Scope::ApiKeysRead) => author.link("settings/keys"),
        _ => html! { (author.name) },
    }
}

/// Something that one can do with a record.
pub(super) struct Action {
    pub(super) title: &'static str,
    /// What it does, in a sentence or two.
    pub(super) effect: &'static str,
    /// The button or the link.
    pub(super) control: Markup,
    /// The same as a request to the API.
    pub(super) curl: Markup,
}

/// A card with actions. Without an action there is no card.
pub(super) fn actions_card(title: &str, actions: &[Action]) -> Markup {
    let body = html! {
        ul.lines {
            @for action in actions {
                li.row.action {
                    div { strong { (action.title) } p.muted { (action.effect) } }
                    div.actions { (action.control) (action.curl) }
                }
            }
        }
    };
    if actions.is_empty() {
        html! {}
    } else {
        card(title, &body)
    }
}

/// A text to use elsewhere, such as a key that the API returns only once, with a button that copies it.
pub(super) fn with_copy(text: &str) -> Markup {
    html! {
        p.once { code { (text) } " " button.quiet type="button" data-copy hidden { "Copy" } }
    }
}

/// Limits a record to some other records, or to none: a field that decides, and a box for each of the other records.
pub(super) struct Limit {
    /// The field of the form that decides.
    pub(super) decision: &'static str,
    /// The field of the form with the ids of the records, and the member of the body.
    pub(super) member: &'static str,
    pub(super) label: &'static str,
    /// The words for no limit, and for a limit.
    pub(super) options: [&'static str; 2],
    pub(super) legend: &'static str,
    pub(super) hint: &'static str,
}

const UNLIMITED: &str = "all";
const LIMITED: &str = "some";

impl Limit {
    /// The fields with what a record has.
    pub(super) fn fields(&self, ids: Option<&[String]>) -> Vec<(String, String)> {
        let decision = if ids.is_some() { LIMITED } else { UNLIMITED };
        let chosen = ids.unwrap_or_default().iter().map(|id| (self.member.to_owned(), id.clone()));
        std::iter::once((self.decision.to_owned(), decision.to_owned())).chain(chosen).collect()
    }

    /// The member of a body that the form asks for; null for no limit. A form that does not decide lifts no limit.
    pub(super) fn value(&self, fields: &Fields) -> Value {
        if fields.get(self.decision) == UNLIMITED { Value::Null } else { fields.all(self.member).into() }
    }

    /// `choices` are ids and names. Ids that were chosen and are not among them are offered too.
    pub(super) fn show(&self, shown: Shown<'_>, choices: &[(String, String)]) -> Markup {
        let [without, with] = self.options;
        let options = [(UNLIMITED, without), (LIMITED, with)].map(|(value, words)| (value.to_owned(), words.to_owned()));
        let chosen = shown.fields.all(self.member);
        let unknown = chosen.iter().filter(|id| !choices.iter().any(|(known, _)| known == *id)).map(|id| (*id, *id));
        let boxes: Vec<(&str, &str)> = unknown.chain(choices.iter().map(|(id, name)| (id.as_str(), name.as_str()))).collect();
        let problem = shown.refusal.and_then(|refusal| refusal.about(self.member));
        let problem_id = format!("{}-problem", self.member);
        html! {
            (shown.field(self.decision, self.label, Control::Choice(&options), self.hint, true))
            @if !boxes.is_empty() {
                fieldset.choices id=(self.member) aria-describedby=[problem.map(|_| problem_id.as_str())] {
                    legend { (self.legend) }
                    @if let Some(problem) = problem { p.problem id=(problem_id) { (problem) } }
                    div.boxes {
                        @for (id, name) in &boxes {
                            label { input type="checkbox" name=(self.member) value=(id) checked[chosen.contains(id)]; (name) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMIT: Limit = Limit {
        decision: "reach",
        member: "organization_ids",
        label: "Organizations",
        options: ["All", "Some"],
        legend: "Which",
        hint: "",
    };

    #[test]
    fn a_limit_sends_what_is_chosen_only_if_it_is_wanted() {
        let of = |ids: Option<&[String]>| Fields::new(&LIMIT.fields(ids));
        let mut fields = of(Some(&["org_1".to_owned(), "org_2".to_owned()]));
        assert_eq!(LIMIT.value(&fields), json!(["org_1", "org_2"]));
        fields.set("reach", "all");
        assert_eq!(LIMIT.value(&fields), Value::Null, "boxes alone do not limit");
        assert_eq!((LIMIT.value(&of(Some(&[]))), LIMIT.value(&of(None))), (json!([]), Value::Null));
    }

    #[test]
    fn records_that_the_reader_cannot_see_stay_chosen() {
        let fields = Fields::new(&LIMIT.fields(Some(&["org_9".to_owned()])));
        let shown = LIMIT.show(Shown { fields: &fields, refusal: None }, &[("org_1".to_owned(), "Acme".to_owned())]).into_string();
        assert!(shown.contains("value=\"org_9\" checked>org_9"), "{shown}");
        assert!(shown.contains("value=\"org_1\">Acme"), "{shown}");
    }
}
