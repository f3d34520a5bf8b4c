//! The console: pages for people. The desk is where they work, and the documentation says how. Every page has the same style sheet, script
//! and components.
//!
//! **Invariant:** a page works without a script, and the browser loads nothing from another host. [`page`] sends the content security
//! policy that enforces the second.

mod account;
mod analytics;
mod chart;
mod components;
mod desk;
mod documentation;
mod form;
mod layout;
mod markdown;
mod moment;
mod page;
mod problem;
mod query;
mod refusal;
mod status;
mod visitor;

pub use account::{Account, PasswordLinks};
pub use analytics::{AnalyticsPage, Metric};
pub use desk::{Desk, Route};
pub use documentation::{Documentation, Sources};
pub use page::Assets;
pub use problem::{notice, problem_page};
pub use status::{Status, StatusReport};
