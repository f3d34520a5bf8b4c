//! Identity providers for single sign-on, and what all of their pages share.

mod actions;
mod edit;
mod list;
mod one;
mod rules;
mod sections;

use maud::Markup;
use serde::Deserialize;

use super::SETTINGS;
use crate::{desk::organizations::trail, query::segment, refusal::Refusal, visitor::Visitor};

pub(super) use actions::{change_status, delete, show_deletion, test, verify};
pub(super) use edit::{change, create, edit, new};
pub(super) use list::list;
pub(super) use one::show;

const API: &str = "/api/admin/identity-providers";
const PATH: &str = "/settings/identity-providers";
const TITLE: &str = "Identity providers";

#[derive(Debug, Deserialize)]
struct Provider {
    id: String,
    name: String,
    issuer: String,
    client_id: String,
    domains: Vec<String>,
    domain_claims: Vec<DomainClaim>,
    enabled: bool,
    default_role: String,
    auto_provision: bool,
    scopes: Vec<String>,
    #[serde(flatten)]
    rules: rules::Rules,
    redirect_uri: String,
    backchannel_logout_uri: String,
    frontchannel_logout_uri: String,
    sign_on: Option<SignOns>,
    created_at: String,
    updated_at: String,
    version: u64,
}

/// A domain, and the proof that the tenant owns it.
#[derive(Debug, Deserialize)]
struct DomainClaim {
    domain: String,
    proven: bool,
    proven_by: Option<String>,
    proven_at: Option<String>,
    record_name: Option<String>,
    record_value: Option<String>,
}

/// The outcomes of the last sign-ons.
#[derive(Debug, Deserialize)]
struct SignOns {
    #[serde(rename = "last_success_at")]
    success_at: Option<String>,
    #[serde(rename = "last_failure")]
    failure: Option<Failure>,
    #[serde(rename = "last_test")]
    test: Option<TestSignIn>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    at: String,
    reason: String,
    cause: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TestSignIn {
    at: String,
    succeeded: bool,
    email: Option<String>,
    creates_user: bool,
    role: Option<String>,
    failure: Option<Failure>,
}

/// What a test without a browser found.
#[derive(Debug, Deserialize)]
struct Trial {
    passed: bool,
    checks: Vec<Check>,
    redirect_uri: String,
    sign_in_url: String,
}

#[derive(Debug, Deserialize)]
struct Check {
    name: String,
    status: String,
    message: String,
}

impl Provider {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    /// The pages above a page about the provider.
    fn trail(&self) -> Markup {
        trail(&[(SETTINGS, "Settings"), (PATH, TITLE), (self.path().as_str(), self.name.as_str())])
    }
}

/// The provider that the path names.
async fn provider(visitor: &Visitor<'_>) -> Result<Provider, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}
