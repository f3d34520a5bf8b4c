//! Records as the API answers them, with what pages show of them.

use maud::{Markup, html};
use serde::Deserialize;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) data: Vec<T>,
    pub(super) page: PageInfo,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { data: Vec::new(), page: PageInfo::default() }
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
