//! An error in an input, and its place. All slices use this one form.

use std::fmt;

/// The place of an error in an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A JSON pointer into a document.
    Pointer(String),
    /// The name of a parameter.
    Parameter(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Pointer(text) | Self::Parameter(text)) = self;
        f.write_str(text)
    }
}

/// One error in an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Fault {
    pub place: Place,
    pub code: String,
    pub message: Box<str>,
    /// The valid values, if there are few.
    pub allowed: Box<[String]>,
    /// The closest valid value.
    pub suggestion: Option<Box<str>>,
    /// Other members that decide whether this is a fault. They are siblings of the one at `place`, or of a member that contains it.
    pub depends_on: &'static [&'static str],
}

impl Fault {
    /// A fault in a document, at a JSON pointer.
    pub fn new(pointer: impl Into<String>, code: &str, message: impl Into<String>) -> Self {
        Self::at(Place::Pointer(pointer.into()), code, message)
    }

    pub fn parameter(name: &str, code: &str, message: impl Into<String>) -> Self {
        Self::at(Place::Parameter(name.to_owned()), code, message)
    }

    fn at(place: Place, code: &str, message: impl Into<String>) -> Self {
        Self {
            place,
            code: code.to_owned(),
            message: message.into().into(),
            allowed: Box::default(),
            suggestion: None,
            depends_on: &[],
        }
    }

    #[must_use]
    pub fn with_allowed<'a>(mut self, allowed: impl IntoIterator<Item = &'a str>) -> Self {
        self.allowed = allowed.into_iter().map(str::to_owned).collect();
        self
    }

    #[must_use]
    pub fn with_suggestion(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion.map(Into::into);
        self
    }

    /// Names other members that decide whether this is a fault.
    #[must_use]
    pub fn depending_on(mut self, members: &'static [&'static str]) -> Self {
        self.depends_on = members;
        self
    }

    /// Moves the fault into a larger document, in which the current document is at `outer`.
    #[must_use]
    pub fn below(mut self, outer: &str) -> Self {
        if let Place::Pointer(pointer) = &mut self.place {
            pointer.insert_str(0, outer);
        }
        self
    }
}

/// Escapes a name for use in a JSON pointer.
pub fn pointer_part(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Joins all faults into one line.
pub fn listed(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("; ")
}
