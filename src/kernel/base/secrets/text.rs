//! Texts that name secrets, such as `Bearer {{ secrets.NAME }}`: they are kept by name, and filled in at the moment of sending.

use zeroize::Zeroizing;

use super::Secret;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPart {
    Text(String),
    /// The name of a secret.
    Secret(String),
}

/// A text of a JSON value that names secrets, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretText {
    /// A JSON pointer into the value.
    pub pointer: String,
    pub parts: Vec<SecretPart>,
}

impl SecretText {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            SecretPart::Secret(name) => Some(name.as_str()),
            SecretPart::Text(_) => None,
        })
    }

    /// The text with the values of its secrets.
    pub fn filled<'a>(&self, value: impl Fn(&str) -> Option<&'a Secret>) -> Option<Secret> {
        let mut filled = Zeroizing::new(String::new());
        for part in &self.parts {
            filled.push_str(match part {
                SecretPart::Text(text) => text,
                SecretPart::Secret(name) => value(name)?.expose(),
            });
        }
        Some(Secret::new(filled.as_str()))
    }

    /// The text with the names of its secrets.
    pub fn placeholder(&self) -> String {
        let shown = |part: &SecretPart| match part {
            SecretPart::Text(text) => text.clone(),
            SecretPart::Secret(name) => format!("[secret {name}]"),
        };
        self.parts.iter().map(shown).collect()
    }
}
