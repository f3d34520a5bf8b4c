//! Recent sign-in. A sensitive operation needs a session whose person has proven who they are within `sessions.recent_seconds`, so that
//! an unattended browser or a stolen cookie cannot create credentials that outlive the session.
//!
//! API keys and the admin socket pass. No person is present who could confirm, a key is only created with a recent sign-in, and the
//! operating system protects the socket.
//!
//! **Invariant:** a change that only reduces (revoke, disable, pause, end the sessions of a user, sign out) never needs a recent sign-in,
//! so that a person can always stop something. Ending own sessions elsewhere does: a stolen cookie must not sign its owner out.

use std::time::Duration;

use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use tenantd_base::{
    access::{Identity, Principal},
    clock::Timestamp,
};

use super::{
    context::RequestContext,
    problem::{Code, Problem},
};

/// The member of an operation in the published document.
pub const RECENT_SIGN_IN: &str = "x-recent-sign-in";

/// When an operation needs a recent sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recency {
    #[default]
    Never,
    /// Unless the request only reduces, or does not touch what is sensitive, which the handler decides.
    UnlessReducing,
    /// The edge checks it before it reads the body.
    Always,
}

/// Refuses a session whose person proved who they are too long ago.
pub(super) fn check(principal: &Principal, now: Timestamp, within: Duration) -> Result<(), Problem> {
    match principal.identity {
        Identity::User { proven_at, .. } | Identity::Contact { proven_at, .. } if now >= proven_at + within => {
            Err(Problem::plain(Code::RecentSignInRequired).with("recent_seconds", within.as_secs()))
        }
        Identity::User { .. } | Identity::Contact { .. } | Identity::ApiKey { .. } | Identity::LocalOperator => Ok(()),
    }
}

/// Marks an operation that needs a recent sign-in, unless the request only reduces or does not touch what is sensitive. The handler must
/// call [`Self::check`].
#[derive(Debug)]
#[must_use]
pub struct RecentUnlessReducing(Result<(), Problem>);

impl RecentUnlessReducing {
    pub(super) const NAME: &'static str = "recent_unless_reducing";

    pub fn check(self, is_exempt: bool) -> Result<(), Problem> {
        if is_exempt { Ok(()) } else { self.0 }
    }
}

impl<'a> ApiExtractor<'a> for RecentUnlessReducing {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn security_schemes() -> Vec<&'static str> {
        vec![Self::NAME]
    }

    async fn from_request(request: &'a Request, _body: &mut RequestBody, _options: ExtractParamOptions<()>) -> poem::Result<Self> {
        let context = RequestContext::of(request)?;
        let principal = context.principal.clone().ok_or_else(|| Problem::plain(Code::MissingCredentials))?;
        Ok(Self(check(&principal, context.clocks.installation(), context.recent_within)))
    }
}
