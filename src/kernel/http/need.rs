//! What an operation requires of its caller. The requirement is in the handler's signature as [`Allowed`] and from there in the
//! published document. It is checked before the input is examined.

use std::{marker::PhantomData, sync::Arc};

use poem::{Request, RequestBody};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use tenantd_base::access::{AUDIT_READ, Grants, Identity, Principal, Role, Scope, TenantKind};

use super::{
    context::RequestContext,
    problem::{Code, Problem},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any valid credential of the tenant itself: staff, keys and the admin socket.
    SignedIn,
    /// Any valid credential, and contacts in the portal too. For operations on the caller's own account.
    OwnAccount,
    /// A contact in the portal.
    Contact,
    Scope(Scope),
    /// One of several scopes. Which one depends on the request, so it is checked where that is known.
    AnyOf(Grants),
    /// All of several scopes.
    AllOf(Grants),
    /// The operator of the installation: a session of the platform tenant's operator, or the admin socket.
    Operator,
    /// Callers that may see metrics of the whole installation: its operator, or a key of the platform tenant with `platform:read`.
    Platform,
    /// The admin socket.
    LocalOperator,
}

impl Need {
    /// Parses the text of [`Requirement::MARKER`] without its prefix.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "signed_in" => Some(Self::SignedIn),
            "own_account" => Some(Self::OwnAccount),
            "contact" => Some(Self::Contact),
            "operator" => Some(Self::Operator),
            "platform" => Some(Self::Platform),
            "local_operator" => Some(Self::LocalOperator),
            _ => {
                let find = |name: &str| Scope::ALL.iter().copied().find(|scope| scope.name() == name);
                if let Some(names) = text.strip_prefix("all_scopes:") {
                    return names.split(',').map(find).collect::<Option<Grants>>().map(Self::AllOf);
                }
                if let Some(names) = text.strip_prefix("any_scope:") {
                    return names.split(',').map(find).collect::<Option<Grants>>().map(Self::AnyOf);
                }
                find(text.strip_prefix("scope:")?).map(Self::Scope)
            }
        }
    }

    pub fn check(self, principal: &Principal) -> Result<(), Problem> {
        match self {
            Self::OwnAccount => Ok(()),
            Self::Contact if principal.is_contact() => Ok(()),
            Self::Contact => Err(Problem::plain(Code::ContactRequired)),
            // A contact has no scopes, but not every need is a scope.
            _ if principal.is_contact() => Err(Problem::plain(Code::PortalOnly)),
            Self::SignedIn => Ok(()),
            Self::Operator if principal.is_operator() => Ok(()),
            Self::Platform if principal.tenant_kind == TenantKind::Platform && principal.grants.allows(Scope::PlatformRead) => {
                Ok(())
            }
            Self::LocalOperator if principal.identity == Identity::LocalOperator => Ok(()),
            Self::Operator | Self::Platform | Self::LocalOperator => Err(Problem::plain(Code::OperatorRequired)),
            Self::Scope(scope) if principal.grants.allows(scope) => Ok(()),
            Self::Scope(scope) => Err(refusal(principal, Grants::of(&[scope]), "")),
            Self::AnyOf(scopes) if principal.grants.overlaps(scopes) => Ok(()),
            Self::AnyOf(scopes) => Err(refusal(principal, scopes, "one of ")),
            Self::AllOf(scopes) if principal.grants.covers(scopes) => Ok(()),
            Self::AllOf(scopes) => Err(refusal(principal, scopes.without(principal.grants), "all of ")),
        }
    }
}

/// `lacking` says how several scopes combine.
fn refusal(principal: &Principal, scopes: Grants, lacking: &str) -> Problem {
    if principal.superseded && Grants::OVER_CREDENTIALS.overlaps(scopes) {
        return Problem::plain(Code::SupersededSecret);
    }
    let technician = Role::Technician.grants();
    let admin_only = Role::Admin.grants().overlaps(scopes) && !technician.overlaps(scopes);
    let names: Vec<&str> = scopes.iter().map(Scope::name).collect();
    match &principal.identity {
        Identity::User { .. } if admin_only => Problem::plain(Code::AdminRequired).with("required_scopes", names),
        _ => {
            let detail = match names.as_slice() {
                [only] => format!("This needs the scope {only}."),
                several => format!("This needs {lacking}the scopes {}.", several.join(", ")),
            };
            Problem::new(Code::InsufficientScope, detail).with("required_scopes", names)
        }
    }
}

/// A need as a type, for use in a signature.
pub trait Requirement: Send + Sync + 'static {
    const NEED: Need;
    /// The need as the draft document carries it.
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
    OwnAccount Need::OwnAccount, "own_account";
    ContactOnly Need::Contact, "contact";
    Operator Need::Operator, "operator";
    PlatformRead Need::Platform, "platform";
    AnalyticsRead Need::Scope(Scope::AnalyticsRead), "scope:analytics:read";
    LocalOperator Need::LocalOperator, "local_operator";
    ApiKeysRead Need::Scope(Scope::ApiKeysRead), "scope:api_keys:read";
    ApiKeysWrite Need::Scope(Scope::ApiKeysWrite), "scope:api_keys:write";
    EventsRead Need::Scope(Scope::EventsRead), "scope:events:read";
    AuditRead
        Need::AllOf(AUDIT_READ),
        "all_scopes:api_keys:read,webhooks:read,events:read,users:read";
    UsersRead Need::Scope(Scope::UsersRead), "scope:users:read";
    RightsRead Need::AnyOf(Grants::of(&[Scope::ApiKeysRead, Scope::UsersRead])), "any_scope:api_keys:read,users:read";
    UsersWrite Need::Scope(Scope::UsersWrite), "scope:users:write";
    SearchRead Need::Scope(Scope::SearchRead), "scope:search:read";
    IngestWrite Need::Scope(Scope::IngestWrite), "scope:ingest:write";
    InventoryRead Need::Scope(Scope::InventoryRead), "scope:inventory:read";
    TicketsRead Need::Scope(Scope::TicketsRead), "scope:tickets:read";
    TicketsWrite Need::Scope(Scope::TicketsWrite), "scope:tickets:write";
    QuotasRead Need::Scope(Scope::QuotasRead), "scope:quotas:read";
    DirectoryRead Need::Scope(Scope::DirectoryRead), "scope:directory:read";
    DirectoryWrite Need::Scope(Scope::DirectoryWrite), "scope:directory:write";
    SecretsWrite Need::Scope(Scope::SecretsWrite), "scope:secrets:write";
    WebhooksRead Need::Scope(Scope::WebhooksRead), "scope:webhooks:read";
    WebhooksWrite Need::Scope(Scope::WebhooksWrite), "scope:webhooks:write";
    ProvidersRead Need::Scope(Scope::ProvidersRead), "scope:providers:read";
    ProvidersWrite Need::Scope(Scope::ProvidersWrite), "scope:providers:write";
    VmsRead Need::Scope(Scope::VmsRead), "scope:vms:read";
    VmsWrite Need::Scope(Scope::VmsWrite), "scope:vms:write";
    BackupRead Need::Scope(Scope::BackupRead), "scope:backup:read";
    BackupWrite Need::Scope(Scope::BackupWrite), "scope:backup:write";
    WorkflowsRead Need::Scope(Scope::WorkflowsRead), "scope:workflows:read";
    WorkflowsTrigger Need::AnyOf(Grants::of(&[Scope::WorkflowsWrite, Scope::WorkflowsRun])), "any_scope:workflows:write,workflows:run";
    WorkflowsSteer
        Need::AnyOf(Grants::of(&[Scope::WorkflowsWrite, Scope::WorkflowsRun, Scope::WorkflowsApprove])),
        "any_scope:workflows:write,workflows:run,workflows:approve";
    WorkflowsWrite Need::Scope(Scope::WorkflowsWrite), "scope:workflows:write";
    WorkflowsRun Need::Scope(Scope::WorkflowsRun), "scope:workflows:run";
    WorkflowsDecide
        Need::AnyOf(Grants::of(&[Scope::WorkflowsRun, Scope::WorkflowsApprove])),
        "any_scope:workflows:run,workflows:approve";
}

/// Proof in a handler's signature that the caller may use the operation. It holds the identity of the caller.
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
        assert!(marked::<OwnAccount>() && marked::<ContactOnly>());
        assert!(marked::<SignedIn>() && marked::<Operator>() && marked::<LocalOperator>());
        assert!(marked::<ApiKeysRead>() && marked::<ApiKeysWrite>() && marked::<EventsRead>());
        assert!(marked::<UsersRead>() && marked::<UsersWrite>() && marked::<IngestWrite>());
        assert!(marked::<RightsRead>());
        assert!(marked::<PlatformRead>() && marked::<AnalyticsRead>());
        assert!(marked::<AuditRead>());
        assert!(marked::<InventoryRead>() && marked::<SearchRead>());
        assert!(marked::<TicketsRead>() && marked::<TicketsWrite>());
        assert!(marked::<SecretsWrite>());
        assert!(marked::<DirectoryRead>() && marked::<DirectoryWrite>());
        assert!(marked::<WebhooksRead>() && marked::<WebhooksWrite>());
        assert!(marked::<ProvidersRead>() && marked::<ProvidersWrite>());
        assert!(marked::<VmsRead>() && marked::<VmsWrite>());
        assert!(marked::<BackupRead>() && marked::<BackupWrite>());
        assert!(marked::<WorkflowsRead>() && marked::<WorkflowsTrigger>() && marked::<WorkflowsSteer>());
        assert!(marked::<WorkflowsWrite>() && marked::<WorkflowsRun>() && marked::<WorkflowsDecide>());
    }
}
