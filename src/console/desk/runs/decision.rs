//! An approval that a run waits for: what it is about, what the run does next, and the form that decides.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_base::{
    access::{Identity, Scope},
    clock::Timestamp,
};

use super::{
    definition::{Rules, find, following},
    record::{Decision, Run, Step},
    steps::decisions,
};
use crate::{
    components::{curl, facts, words},
    desk::{
        organizations::{counted, version_field},
        tickets::lines,
    },
    form::Fields,
    moment::Clock,
    visitor::Visitor,
};

/// The field that leads back to the list of approvals.
pub(super) const BACK: &str = "back";

/// Who reads the page, as far as an approval depends on it.
#[derive(Debug)]
pub(super) struct Decider {
    pub(super) id: String,
    role: Option<String>,
    /// Has the scope `workflows:approve`.
    approves: bool,
    /// Has the scope `workflows:run`, which is enough for a step that names roles.
    steers: bool,
}

/// What somebody may do about an approval.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Decide,
    /// The person who requested a run may only stop it.
    Reject,
    /// Nothing, for this reason.
    Nothing(String),
}

impl Decider {
    pub(super) fn of(visitor: &Visitor<'_>) -> Self {
        let (id, role) = match &visitor.reader.identity {
            Identity::User { id, role, .. } => (id.to_string(), Some(role.to_string())),
            Identity::ApiKey { id, .. } => (id.to_string(), None),
            Identity::Contact { .. } | Identity::LocalOperator => (String::new(), None),
        };
        Self { id, role, approves: visitor.may(Scope::WorkflowsApprove), steers: visitor.may(Scope::WorkflowsRun) }
    }

    /// What the API would say. It has the last word: it also knows who wrote the steps of the workflow.
    fn standing(&self, rules: &Rules, run: &Run, step: &Step) -> Standing {
        let by_role = self.role.as_ref().is_some_and(|role| rules.roles.contains(role));
        if step.decisions.iter().any(|decision| decision.by.id == self.id) {
            Standing::Nothing("You have decided already. The run waits for other people.".to_owned())
        } else if !self.approves && (!self.steers || rules.roles.is_empty()) {
            Standing::Nothing("You need the scope workflows:approve to decide.".to_owned())
        } else if !rules.roles.is_empty() && !by_role {
            Standing::Nothing(format!("Only people with one of these roles decide: {}.", rules.roles.join(", ")))
        } else if run.started_by.id == self.id && !rules.self_approval {
            Standing::Reject
        } else {
            Standing::Decide
        }
    }
}

/// A step that waits for a decision.
pub(super) struct Approval<'a> {
    pub(super) run: &'a Run,
    pub(super) step: &'a Step,
    pub(super) standing: Standing,
    rules: Rules,
    next: &'a [Value],
}

impl<'a> Approval<'a> {
    pub(super) fn new(run: &'a Run, step: &'a Step, definition: &'a Value, decider: &Decider) -> Self {
        let found = find(definition, &step.id);
        let rules = Rules::of(found.map(|(step, _)| step));
        let next = found.map_or(&[][..], |(_, next)| next);
        Self { run, step, standing: decider.standing(&rules, run, step), rules, next }
    }

    /// What the approval asks.
    pub(super) fn message(&self) -> String {
        let message = self.step.input.as_ref().and_then(|input| input.get("message")?.as_str());
        message.map_or_else(|| format!("Approve the step {}?", self.step.path), str::to_owned)
    }

    /// When the run stops waiting, as the API writes times.
    fn ends_at(&self) -> Option<String> {
        let start = Timestamp::parse(&self.step.started_at)?;
        Some((start + Duration::from_secs(self.rules.timeout_seconds?)).to_string())
    }

    /// The approval with its form. `back`: the form leads back to the list of approvals.
    pub(super) fn show(&self, back: Option<&str>, visitor: &Visitor<'_>) -> Markup {
        html! {
            p.text { strong { (self.message()) } }
            (self.rules(visitor))
            (decisions(&self.step.decisions, visitor))
            h3 { "What the run does after an approval" }
            (following(self.next))
            @match &self.standing {
                Standing::Nothing(reason) => p.note { (reason) },
                Standing::Reject => {
                    p.note { "You started this run, so somebody else must approve it. You can reject it." }
                    (self.form(back, visitor))
                }
                Standing::Decide => (self.form(back, visitor)),
            }
        }
    }

    fn rules(&self, visitor: &Visitor<'_>) -> Markup {
        let given = self.step.decisions.iter().filter(|decision| decision.approved).count();
        let deciders = match self.rules.roles.as_slice() {
            [] => "Anyone with the scope workflows:approve".to_owned(),
            roles => roles.iter().map(|role| words(role)).collect::<Vec<_>>().join(", "),
        };
        let otherwise = match self.rules.on_timeout.as_str() {
            "approve" => "then it counts as approved",
            "reject" => "then it counts as rejected",
            _ => "then the step fails",
        };
        facts(&[
            ("Who decides", Some(html! { (deciders) })),
            (
                "Needed",
                Some(html! { (counted(self.rules.required, "approval", "approvals")) @if given > 0 { ", " (given) " given" } }),
            ),
            ("Waiting since", Some(visitor.clock.relative(&self.step.started_at))),
            ("Until", self.ends_at().map(|at| html! { (visitor.clock.absolute(&at)) ", " (otherwise) })),
        ])
    }

    fn form(&self, back: Option<&str>, visitor: &Visitor<'_>) -> Markup {
        let sent = Fields::new(visitor.visit.form.unwrap_or_default());
        let typed = if sent.get("step") == self.step.path { sent.get("comment") } else { "" };
        let example = json!({"action": "approve", "step": self.step.path, "comment": "Agreed by phone."});
        html! {
            form.decide method="post" action={ (self.run.path()) "/decisions" } {
                (visitor.tokens())
                (version_field(self.run.version))
                input type="hidden" name="step" value=(self.step.path);
                @if let Some(back) = back { input type="hidden" name=(BACK) value=(back); }
                div.field {
                    label { "Reason " span.optional { "optional" } textarea name="comment" rows="2" maxlength="1000" { (typed) } }
                }
                div.actions {
                    @if self.standing == Standing::Decide { button.primary name="action" value="approve" { "Approve" } }
                    button.danger name="action" value="reject" { "Reject" }
                    (curl(visitor.visit.base_url, "PATCH", &self.run.api(), Some(&example)))
                }
            }
        }
    }
}

/// The decisions about the step that a form is about.
fn decided<'a>(run: &'a Run, sent: &'a Fields) -> impl DoubleEndedIterator<Item = &'a Decision> {
    run.steps.iter().filter(|step| step.path == sent.get("step")).flat_map(|step| &step.decisions)
}

/// Who decided before the form was sent, if the step does not wait any more.
pub(super) fn late(run: &Run, sent: &Fields, clock: &Clock) -> Option<String> {
    if run.approvals().any(|step| step.path == sent.get("step")) {
        return None;
    }
    let last = decided(run, sent).next_back()?;
    let (verb, at) = (if last.approved { "approved" } else { "rejected" }, clock.exact_text(&last.at)?);
    Some(format!("{} {verb} the step {} on {at}. Your decision came later and was not recorded.", last.by.name, sent.get("step")))
}

/// The comment of a decision that was not recorded, so that its text is not lost.
pub(super) fn unsent(run: &Run, sent: &Fields) -> Markup {
    let comment = sent.get("comment");
    let has_form = run.approvals().any(|step| step.path == sent.get("step"));
    html! {
        @if !comment.is_empty() && !has_form {
            div.field {
                label { "Your comment, which was not recorded " textarea rows="3" readonly { (comment) } }
            }
        }
    }
}

/// Whether a run already is as a form asks for: the form was sent before. A decision with another comment is another decision.
pub(super) fn has_happened(run: &Run, action: &str, sent: &Fields, reader: &str) -> bool {
    let decided = |approved: bool| {
        decided(run, sent).any(|decision| {
            let comment = decision.comment.as_deref().unwrap_or_default();
            decision.by.id == reader && decision.approved == approved && lines(sent.get("comment")) == comment
        })
    };
    match action {
        "cancel" => run.status == "cancelled",
        "pause" => run.status == "paused",
        "approve" => decided(true),
        "reject" => decided(false),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let decision =
            json!({"by": {"kind": "user", "id": "usr_2", "name": "Bo"}, "at": "2026-11-18T12:00:00.000Z", "approved": true});
        let step = json!({
            "id": "ask", "path": "ask", "type": "approval", "status": "waiting", "attempts": 1,
            "started_at": "2026-11-18T11:00:00.000Z", "input": {"message": "Go on?"}, "decisions": [decision],
        });
        let run = json!({
            "id": "run_1", "workflow": {"id": "wfl_1", "name": "Offboard", "version": 1}, "status": "waiting", "waiting_on": "approval",
            "trigger": {"type": "manual"}, "started_by": {"id": "usr_1", "name": "Ada"}, "created_at": "2026-11-18T11:00:00.000Z",
            "timeout_at": "2026-11-19T11:00:00.000Z", "steps": [step], "version": 2,
        });
        serde_json::from_value(run).unwrap()
    }

    fn decider(id: &str, role: &'static str, approves: bool) -> Decider {
        Decider { id: id.to_owned(), role: Some(role.to_owned()), approves, steers: true }
    }

    #[test]
    fn who_may_decide_depends_on_roles_scopes_and_who_started_the_run() {
        let (run, admins) = (run(), Rules { roles: vec!["admin".to_owned()], ..Rules::of(None) });
        let standing = |decider: &Decider, rules: &Rules| decider.standing(rules, &run, run.steps.first().unwrap());
        assert_eq!(standing(&decider("usr_3", "admin", true), &admins), Standing::Decide);
        assert_eq!(standing(&decider("usr_1", "admin", true), &admins), Standing::Reject);
        assert_eq!(standing(&decider("usr_1", "admin", true), &Rules { self_approval: true, ..admins.clone() }), Standing::Decide);
        assert!(matches!(standing(&decider("usr_2", "admin", true), &admins), Standing::Nothing(_)), "has decided");
        assert!(matches!(standing(&decider("usr_3", "technician", false), &admins), Standing::Nothing(_)), "has another role");
        assert!(
            matches!(standing(&decider("usr_3", "technician", false), &Rules::of(None)), Standing::Nothing(_)),
            "lacks the scope"
        );
        assert_eq!(standing(&decider("usr_3", "technician", true), &Rules::of(None)), Standing::Decide);
    }

    #[test]
    fn a_form_that_is_sent_twice_is_recognized() {
        let run = run();
        let sent = |step: &str, comment: &str| {
            Fields::new(&[("step", step), ("comment", comment)].map(|(name, value)| (name.to_owned(), value.to_owned())))
        };
        assert!(has_happened(&run, "approve", &sent("ask", ""), "usr_2"));
        assert!(!has_happened(&run, "approve", &sent("ask", "Also by phone."), "usr_2"), "the comment would be lost");
        assert!(!has_happened(&run, "approve", &sent("ask", ""), "usr_1"));
        assert!(!has_happened(&run, "reject", &sent("ask", ""), "usr_2"));
        assert!(!has_happened(&run, "cancel", &sent("", ""), "usr_1"));
    }

    #[test]
    fn a_late_decision_is_told_who_decided_and_its_comment_is_kept() {
        let now = Timestamp::parse("2026-11-18T13:00:00.000Z").unwrap();
        let clock = Clock { now, zone: jiff::tz::TimeZone::UTC };
        let sent = Fields::new(&[("step".to_owned(), "ask".to_owned()), ("comment".to_owned(), "<b>No".to_owned())]);
        let mut run = run();
        assert_eq!((late(&run, &sent, &clock), unsent(&run, &sent).into_string()), (None, String::new()), "the step still waits");
        "succeeded".clone_into(&mut run.steps[0].status);
        let said = late(&run, &sent, &clock).unwrap();
        assert!(said.starts_with("Bo approved the step ask on 18 Nov 2026, 12:00."), "{said}");
        assert!(unsent(&run, &sent).into_string().contains("readonly>&lt;b&gt;No</textarea>"));
    }
}
