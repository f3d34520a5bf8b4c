//! Records as the API answers them, with what pages show of them.

use maud::{Markup, html};
use serde::Deserialize;

use crate::components::grouped;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) data: Vec<T>,
    pub(super) page: PageInfo,
    /// Whether more records than the total could match.
    #[serde(default)]
    total_is_minimum: bool,
}

/// How many records a list has, or at least has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) found: u64,
    is_minimum: bool,
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", grouped(self.found), if self.is_minimum { "+" } else { "" })
    }
}

impl Count {
    pub(super) fn is_some(self) -> bool {
        self.found > 0 || self.is_minimum
    }

    /// The count with its noun, such as `1 ticket` or `1,000+ tickets`.
    pub(super) fn of(self, one: &str, several: &str) -> String {
        format!("{self} {}", if self.found == 1 && !self.is_minimum { one } else { several })
    }
}

impl<T> List<T> {
    /// How many records the list has. It has at least those of this page.
    pub(super) fn count(&self) -> Count {
        let found = self.page.total.unwrap_or_default().max(self.data.len() as u64);
        Count { found, is_minimum: self.total_is_minimum }
    }

    /// The total, if it is known.
    pub(super) fn exact_total(&self) -> Option<u64> {
        self.page.total.filter(|_| !self.total_is_minimum)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { data: Vec::new(), page: PageInfo::default(), total_is_minimum: false }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageInfo {
    pub(super) next_cursor: Option<String>,
    pub(super) total: Option<u64>,
}

/// Another record that a record names.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) name: String,
}

impl Named {
    pub(super) fn link(&self, area: &str) -> Markup {
        html! { a href={ "/" (area) "/" (self.id) } { (self.name) } }
    }
}
