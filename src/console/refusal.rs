//! A problem that the API answered, as a page shows it.

use std::fmt::Write as _;

use http::{StatusCode, header};
use serde::Deserialize;

use tenantd_http::{
    pages::ApiAnswer,
    problem::{Code, Problem},
};

/// Why the API refused a call.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(crate) code: Box<str>,
    #[serde(default)]
    pub(crate) title: Box<str>,
    #[serde(default)]
    pub(crate) detail: String,
    #[serde(default)]
    pub(crate) errors: Vec<FieldRefusal>,
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// When to try again, in seconds.
    #[serde(skip)]
    pub(crate) retry_after: Option<u64>,
    /// What was read when the API refused it; empty for a change.
    #[serde(skip)]
    pub(crate) target: Box<str>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct FieldRefusal {
    /// The place in the body, as a JSON pointer.
    pub(crate) pointer: Option<String>,
    pub(crate) parameter: Option<String>,
    pub(crate) message: String,
    /// What was probably meant.
    pub(crate) suggestion: Option<String>,
}

impl FieldRefusal {
    /// Something is wrong with a field of the body.
    pub(crate) fn at(field: &str, message: impl Into<String>) -> Self {
        Self { pointer: Some(format!("/{field}")), message: message.into(), ..Self::default() }
    }
}

impl Refusal {
    /// What the API refused; `None` if it did what was asked.
    pub(crate) fn of(answer: &ApiAnswer) -> Option<Self> {
        if !(answer.status.is_client_error() || answer.status.is_server_error()) {
            return None;
        }
        let mut refusal: Self = serde_json::from_value(answer.body.clone()).unwrap_or_else(|_| Self::internal());
        for error in &mut refusal.errors {
            if let Some(suggestion) = &error.suggestion {
                let _ = write!(error.message, ". Did you mean {suggestion}?");
            }
        }
        refusal.status = answer.status;
        refusal.retry_after = answer.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Some(refusal)
    }

    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let (name, title) = (code.name().into(), code.title().into());
        let (detail, status) = (detail.into(), code.status());
        Self { code: name, title, detail, errors: Vec::new(), status, retry_after: None, target: Box::default() }
    }

    /// The answer of the API does not have the form that the page expects.
    pub(crate) fn internal() -> Self {
        Self::new(Code::InternalError, "The page could not be made. The log of the server says why.")
    }

    pub(crate) fn is(&self, code: Code) -> bool {
        &*self.code == code.name()
    }

    /// Whether the filters, the order or the page of a list are wrong.
    pub(crate) fn is_about_query(&self) -> bool {
        let names_parameter = self.errors.iter().any(|error| error.parameter.is_some());
        !self.target.is_empty() && self.status.is_client_error() && (names_parameter || self.is(Code::CursorMismatch))
    }

    /// What is wrong with the field of a body or the parameter with this name.
    pub(crate) fn about(&self, name: &str) -> Option<&str> {
        let of_name = |error: &&FieldRefusal| {
            let pointer = error.pointer.as_deref().and_then(|pointer| pointer.strip_prefix('/'));
            let field = pointer.map(|pointer| pointer.split('/').next().unwrap_or_default());
            field == Some(name) || error.parameter.as_deref() == Some(name)
        };
        self.errors.iter().find(of_name).map(|error| error.message.as_str())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = Code::ALL.iter().find(|code| code.name() == &*refusal.code).copied().unwrap_or(Code::InternalError);
        Self::new(code, refusal.detail)
    }
}
