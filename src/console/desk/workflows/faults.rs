//! What is wrong with a definition, and where in the typed text.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_http::problem::Code;

use super::pointer::line_of;
use crate::{
    desk::organizations::counted,
    form::Fields,
    refusal::{FieldRefusal, Refusal},
};

/// The field with the text of the definition.
pub(super) const DEFINITION: &str = "definition";
/// Members of a definition that have fields of their own, with their labels.
pub(super) const FIELDS: [(&str, &str); 2] = [("name", "Name"), ("description", "Description")];

/// The answer to a check.
#[derive(Debug, Deserialize)]
pub(super) struct Validation {
    pub(super) errors: Vec<Problem>,
}

/// A problem as the API reports it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Problem {
    pointer: String,
    message: String,
    suggestion: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The field with this name and label.
    Field(&'static str, &'static str),
    /// A line of the text, from 1.
    Line(usize),
}

#[derive(Clone, Debug)]
struct Fault {
    place: Place,
    problem: Problem,
}

/// The faults of what was typed, in the order of the form.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    all: Vec<Fault>,
}

impl Faults {
    pub(super) fn of(problems: Vec<Problem>, fields: &Fields) -> Self {
        let text = fields.get(DEFINITION);
        let place = |pointer: &str| {
            let field = FIELDS.iter().find(|(name, _)| pointer.strip_prefix('/') == Some(*name));
            field.map_or_else(|| Place::Line(line_of(text, pointer)), |&(name, label)| Place::Field(name, label))
        };
        let fault = |problem: Problem| Fault { place: place(within(&problem.pointer)), problem };
        let mut all: Vec<Fault> = problems.into_iter().map(fault).collect();
        all.sort_by_key(|fault| fault.line().unwrap_or_default());
        Self { all }
    }

    /// The problems that a refusal names.
    pub(super) fn of_refusal(refusal: &Refusal, fields: &Fields) -> Self {
        let problem = |error: &FieldRefusal| {
            let pointer = error.pointer.clone()?;
            Some(Problem { pointer, message: error.message.clone(), suggestion: None })
        };
        Self::of(refusal.errors.iter().filter_map(problem).collect(), fields)
    }

    /// The text is not the JSON of an object.
    pub(super) fn of_syntax(line: usize, message: String) -> Self {
        let problem = Problem { pointer: String::new(), message, suggestion: None };
        Self { all: vec![Fault { place: Place::Line(line.max(1)), problem }] }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn on(&self, line: usize) -> Vec<&Fault> {
        self.all.iter().filter(|fault| fault.line() == Some(line)).collect()
    }

    fn count(&self) -> String {
        counted(u64::try_from(self.all.len()).unwrap_or_default(), "problem", "problems")
    }

    /// The refusal that marks the fields of the form.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let error = |name: &str, message: String| FieldRefusal::at(name, message);
        let fields = self.all.iter().filter_map(|fault| match fault.place {
            Place::Field(name, _) => Some(error(name, fault.problem.message.clone())),
            Place::Line(_) => None,
        });
        let in_text = self.all.iter().any(|fault| fault.line().is_some());
        let text = in_text.then(|| error(DEFINITION, format!("{} above.", self.count())));
        let errors: Vec<FieldRefusal> = fields.chain(text).collect();
        (!errors.is_empty()).then(|| Refusal { errors, ..Refusal::new(Code::ValidationFailed, self.count()) })
    }

    /// All faults, each with the way to its place.
    pub(super) fn summary(&self) -> Markup {
        html! {
            @if !self.is_empty() {
                div.alert role="alert" tabindex="-1" { (self.lines()) }
            }
        }
    }

    /// As [`Self::summary`], for a page that announces its faults in other words.
    pub(super) fn list(&self) -> Markup {
        html! { @if !self.is_empty() { div.alert { (self.lines()) } } }
    }

    fn lines(&self) -> Markup {
        html! {
            strong { (self.count()) }
            ul { @for fault in &self.all { li { (fault.link()) ": " (fault.about()) } } }
        }
    }

    /// How many faults there are, and the first of them.
    pub(super) fn words(&self) -> String {
        let Some(first) = self.all.first() else { return String::new() };
        let place = match first.place {
            Place::Field(_, label) => label.to_owned(),
            Place::Line(line) => format!("Line {line}"),
        };
        format!("{}. {place}: {}.", self.count(), first.problem.message)
    }

    /// The text with numbered lines, and the faults below theirs.
    pub(super) fn numbered(&self, text: &str) -> Markup {
        html! {
            div.scroll.numbered tabindex="0" role="group" aria-label="Definition with numbered lines" {
                ol {
                    @for (place, line) in text.lines().enumerate() {
                        @let faults = self.on(place + 1);
                        li.faulty[!faults.is_empty()] id={ "line-" (place + 1) } {
                            code { (line) }
                            @for fault in faults { p.problem { (fault.about()) } }
                        }
                    }
                }
            }
        }
    }
}

impl Fault {
    fn line(&self) -> Option<usize> {
        match self.place {
            Place::Line(line) => Some(line),
            Place::Field(..) => None,
        }
    }

    fn link(&self) -> Markup {
        html! {
            @match self.place {
                Place::Field(name, label) => { a href={ "#" (name) } { (label) } }
                Place::Line(line) => { a href={ "#line-" (line) } { "Line " (line) } }
            }
        }
    }

    fn about(&self) -> Markup {
        let pointer = within(&self.problem.pointer);
        html! {
            (self.problem.message)
            @if let Some(suggestion) = &self.problem.suggestion { ". Did you mean " code { (suggestion) } "?" }
            @if !pointer.is_empty() { " " code { (pointer) } }
        }
    }
}

/// A pointer into the definition. `create` has it in a member of the body, a patch is the definition itself.
fn within(pointer: &str) -> &str {
    match pointer.strip_prefix("/definition") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => pointer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(pointer: &str) -> Problem {
        Problem { pointer: pointer.to_owned(), message: "is <wrong>".to_owned(), suggestion: Some("set".to_owned()) }
    }

    fn typed() -> Fields {
        let mut fields = Fields::default();
        fields.set("name", "N");
        fields.set(DEFINITION, "{\n  \"key\": \"k\",\n  \"steps\": [\n    {\"id\": \"a\"}\n  ]\n}");
        fields
    }

    #[test]
    fn faults_lead_to_their_lines_and_fields() {
        let fields = typed();
        let faults = Faults::of(vec![problem("/steps/0/type"), problem("/definition/name"), problem("/definition/key")], &fields);
        let places: Vec<Place> = faults.all.iter().map(|fault| fault.place).collect();
        assert_eq!(places, [Place::Field("name", "Name"), Place::Line(2), Place::Line(4)]);
        let text = faults.summary().into_string();
        assert!(text.contains("3 problems") && text.contains("<a href=\"#line-4\">Line 4</a>: is &lt;wrong&gt;"));
        assert!(text.contains("Did you mean <code>set</code>?") && text.contains("<code>/steps/0/type</code>"));
    }

    #[test]
    fn the_fields_of_the_form_are_marked() {
        let refusal = Faults::of(vec![problem("/definition/name"), problem("/definition/key")], &typed()).refusal().unwrap();
        assert_eq!((refusal.about("name"), refusal.about(DEFINITION)), (Some("is <wrong>"), Some("2 problems above.")));
        assert!(Faults::default().refusal().is_none());
        let faults = Faults::of(vec![problem("/definition/name"), problem("/definition/key")], &typed());
        assert_eq!((faults.words().as_str(), Faults::default().words().as_str()), ("2 problems. Name: is <wrong>.", ""));
        let list = faults.list().into_string();
        assert!(list.contains("href=\"#line-2\"") && !list.contains("role="), "{list}");
    }

    #[test]
    fn a_line_with_a_fault_is_marked_in_the_numbered_text() {
        let fields = typed();
        let text = Faults::of(vec![problem("/key")], &fields).numbered(fields.get(DEFINITION)).into_string();
        assert_eq!(text.matches("<li").count(), 6);
        assert!(text.contains("<li class=\"faulty\" id=\"line-2\">") && text.matches("class=\"problem\"").count() == 1);
    }
}
