//! The changes of status that a ticket allows, as buttons.

use maud::{Markup, html};

use super::{forms::Panel, one::View};
use crate::{
    components::words,
    form::{Control, Fields},
};

const CODES: [&str; 8] =
    ["fixed", "workaround", "duplicate", "not_reproducible", "user_education", "no_action", "vendor", "false_alarm"];

impl View<'_> {
    /// The most common changes as buttons, the others in a menu.
    pub(super) fn transitions(&self) -> Markup {
        if !self.may_write {
            return html! {};
        }
        let (from, allowed) = (self.ticket.status.as_str(), &self.ticket.allowed_transitions);
        let is_allowed = |status: &str| allowed.iter().any(|found| found == status);
        let common: &[&str] = if from == "resolved" { &["open", "closed"] } else { &["in_progress", "waiting_customer"] };
        // These two need a form.
        let plain = allowed.iter().map(String::as_str).filter(|status| !matches!(*status, "resolved" | "merged"));
        let (shown, rest): (Vec<&str>, Vec<&str>) = plain.partition(|status| common.contains(status));
        html! {
            (self.buttons(&shown))
            @if !rest.is_empty() || is_allowed("merged") {
                details.menu-box open[self.is_open(Panel::Merge)] {
                    summary.button { "More" }
                    div.popup {
                        (self.buttons(&rest))
                        @if is_allowed("merged") { (self.merge()) }
                    }
                }
            }
            @if is_allowed("resolved") { (self.resolve()) }
        }
    }

    fn buttons(&self, statuses: &[&str]) -> Markup {
        html! {
            @if !statuses.is_empty() {
                form.transitions method="post" action=(self.path("/status")) {
                    (self.visitor.tokens())
                    @for status in statuses {
                        button name="status" value=(status) { (action_words(&self.ticket.status, status)) }
                    }
                }
            }
        }
    }

    fn resolve(&self) -> Markup {
        let mut start = Fields::default();
        start.set("code", "fixed");
        let form = self.form(Panel::Resolve, &start);
        let codes: Vec<(String, String)> = CODES.iter().map(|code| ((*code).to_owned(), words(code))).collect();
        html! {
            details.menu-box open[self.is_open(Panel::Resolve)] {
                summary.button.primary { "Resolve…" }
                div.popup {
                    form method="post" action=(self.path("/status")) {
                        (self.visitor.tokens())
                        input type="hidden" name="status" value="resolved";
                        (form.summary())
                        (form.field("code", "Resolution", Control::Choice(&codes), "", true))
                        (form.field("summary", "What solved the problem", Control::Text { rows: 4 }, "", true))
                        div.actions { button.primary { "Resolve the ticket" } }
                    }
                }
            }
        }
    }

    fn merge(&self) -> Markup {
        let start = Fields::default();
        let form = self.form(Panel::Merge, &start);
        html! {
            form method="post" action=(self.path("/status")) {
                (self.visitor.tokens())
                input type="hidden" name="status" value="merged";
                (form.summary())
                (form.field("merged_into", "Merge into ticket", Control::Input("text"), "The number of the other ticket, such as T-12.", true))
                div.actions { button { "Merge" } }
            }
        }
    }
}

/// What a button says that changes the status.
fn action_words(from: &str, to: &str) -> String {
    let is_waiting = matches!(from, "waiting_customer" | "waiting_vendor" | "scheduled" | "on_hold");
    let text = match to {
        "new" => "Mark as new",
        "open" if from == "resolved" => "Reopen",
        "open" => "Mark as open",
        "in_progress" if from == "resolved" => "Reopen and start work",
        "in_progress" if is_waiting => "Resume work",
        "in_progress" => "Start work",
        "waiting_customer" => "Wait for customer",
        "waiting_vendor" => "Wait for vendor",
        "scheduled" => "Schedule",
        "on_hold" => "Put on hold",
        "closed" => "Close",
        "cancelled" => "Cancel the ticket",
        other => return words(other),
    };
    text.to_owned()
}
