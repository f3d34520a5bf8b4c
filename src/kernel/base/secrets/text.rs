//! Texts that refer to secrets by name, such as `Bearer {{ secrets.NAME }}`. The text is stored with the names, and the values are
//! filled in when it is sent.

use zeroize::Zeroizing;

use super::Secret;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPart {
    Text(String),
    /// The name of a secret.
    Secret(String),
}

/// A text of a JSON value that refers to secrets, and its place.
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

    /// The text with the values of its secrets; `None` if a value is missing.
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
