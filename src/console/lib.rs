//! The console: pages for people. Today it serves the documentation; every page has the same frame, style sheet and components.
//!
//! **Invariant:** a page works without a script, and the browser loads nothing from another host. [`page::html`] sends the content security
//! policy that enforces both.

mod components;
mod documentation;
mod layout;
mod markdown;
mod page;

pub use documentation::{Documentation, Sources};
