//! What an operation needs of its caller. It stands in the handler's signature as [`Allowed`], from there in the published
//! document, and is checked before the input is even looked at.

use std::{marker::PhantomData, sync::Arc};

use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use super::{
    context::RequestContext,
    problem::{Code, Problem},
};
use crate::kernel::access::{Identity, Principal, Role, Scope};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any valid credential.
    SignedIn,
    Scope(Scope),
    /// The operator of the installation: a session of the platform tenant's operator, or the admin socket.
    Operator,
    /// The admin socket.
    LocalOperator,
}

impl Need {
    /// Reads what [`Requirement::MARKER`] says, without its prefix.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "signed_in" => Some(Self::SignedIn),
            "operator" => Some(Self::Operator),
            "local_operator" => Some(Self::LocalOperator),
            _ => {
                let name = text.strip_prefix("scope:")?;
                Scope::ALL.iter().copied().find(|scope| scope.name() == name).map(Self::Scope)
            }
        }
    }

    pub fn check(self, principal: &Principal) -> Result<(), Problem> {
        match self {
            Self::SignedIn => Ok(()),
            Self::Operator if principal.is_operator() => Ok(()),
            Self::LocalOperator if principal.identity == Identity::LocalOperator => Ok(()),
            Self::Operator | Self::LocalOperator => Err(Problem::plain(Code::OperatorRequired)),
            Self::Scope(scope) if principal.grants.allows(scope) => Ok(()),
            Self::Scope(scope) => Err(refusal(principal, scope)),
        }
    }
}

fn refusal(principal: &Principal, scope: Scope) -> Problem {
    let admin_only = Role::Admin.grants().allows(scope) && !Role::Technician.grants().allows(scope);
    let required = vec![serde_json::Value::from(scope.name())];
    match &principal.identity {
        Identity::User { .. } if admin_only => Problem::plain(Code::AdminRequired).with("required_scopes", required),
        _ => {
            let detail = format!("This needs the scope {}.", scope.name());
            Problem::new(Code::InsufficientScope, detail).with("required_scopes", required)
        }
    }
}

/// A need as a type, to stand in a signature.
pub trait Requirement: Send + Sync + 'static {
    const NEED: Need;
    /// The need as the document's draft carries it.
    const MARKER: &'static str;
}

macro_rules! requirements {
    ($($type:ident $need:expr, $marker:literal;)*) => {$(
        #[derive(Debug)]
        pub struct $type;

        impl Requirement for $type {
            const NEED: Need = $need;
            const MARKER: &'static str = concat!("need:", $marker);
        }
    )*};
}

requirements! {
    SignedIn Need::SignedIn, "signed_in";
    Operator Need::Operator, "operator";
    LocalOperator Need::LocalOperator, "local_operator";
    ApiKeysRead Need::Scope(Scope::ApiKeysRead), "scope:api_keys:read";
    ApiKeysWrite Need::Scope(Scope::ApiKeysWrite), "scope:api_keys:write";
    EventsRead Need::Scope(Scope::EventsRead), "scope:events:read";
    UsersRead Need::Scope(Scope::UsersRead), "scope:users:read";
    UsersWrite Need::Scope(Scope::UsersWrite), "scope:users:write";
    IngestWrite Need::Scope(Scope::IngestWrite), "scope:ingest:write";
    TicketsRead Need::Scope(Scope::TicketsRead), "scope:tickets:read";
    TicketsWrite Need::Scope(Scope::TicketsWrite), "scope:tickets:write";
    WebhooksRead Need::Scope(Scope::WebhooksRead), "scope:webhooks:read";
    WebhooksWrite Need::Scope(Scope::WebhooksWrite), "scope:webhooks:write";
}

/// Proof in a handler's signature that the caller may do this; holds who it is.
#[derive(Debug)]
pub struct Allowed<R> {
    pub principal: Arc<Principal>,
    pub context: Arc<RequestContext>,
    requirement: PhantomData<fn() -> R>,
}

impl<'a, R: Requirement> ApiExtractor<'a> for Allowed<R> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];
    type ParamType = ();
    type ParamRawType = ();

    fn security_schemes() -> Vec<&'static str> {
        vec![R::MARKER]
    }

    async fn from_request(request: &'a Request, _body: &mut RequestBody, _options: ExtractParamOptions<()>) -> poem::Result<Self> {
        let context = RequestContext::of(request)?;
        let principal = context.principal.clone().ok_or_else(|| Problem::plain(Code::MissingCredentials))?;
        R::NEED.check(&principal)?;
        Ok(Self { principal, context, requirement: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked<R: Requirement>() -> bool {
        R::MARKER.strip_prefix(super::super::openapi::NEED_PREFIX).and_then(Need::parse) == Some(R::NEED)
    }

    #[test]
    fn every_marker_reads_back_as_its_need() {
        assert!(marked::<SignedIn>() && marked::<Operator>() && marked::<LocalOperator>());
        assert!(marked::<ApiKeysRead>() && marked::<ApiKeysWrite>() && marked::<EventsRead>());
        assert!(marked::<UsersRead>() && marked::<UsersWrite>() && marked::<IngestWrite>());
        assert!(marked::<TicketsRead>() && marked::<TicketsWrite>());
        assert!(marked::<WebhooksRead>() && marked::<WebhooksWrite>());
    }
}
