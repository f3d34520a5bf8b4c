//! `/api/admin/…/rights`: who can do what, and why.

use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_api_keys::{self as api_keys, ApiKeyError};
use tenantd_base::{
    access::Scope,
    clock::Timestamp,
    id::{ApiKeyId, UserId},
    vocabulary::{nearest, vocabulary},
};
use tenantd_directory as directory;
use tenantd_http::{
    input::Filter,
    need::{Allowed, ApiKeysRead, Need, RightsRead, UsersRead},
    page::{PageQuery, PageRequest, UncountedPageQuery},
    problem::{FieldError, Problem},
    reply::{Answer, Listed},
    wire::word_type,
};
use tenantd_store::Store;

use super::{
    super::{
        error::AuthError,
        rights::{self, Effect, Explained, Explainer, Place, ReasonCode, Subject, Wanted},
    },
    Area,
};

vocabulary! {
    /// The kind of a subject.
    RightsKind:
    User "user", ApiKey "api_key",
}

word_type! {
    RightsKind, "RightsKind", "`user`: a member of staff or a contact. `api_key`: an API key.";
    Effect, "RightsEffect", "What a reason does. `gives`: it gives a scope. `limits`: it limits where, from where or how long a scope counts. `takes_away`: because of it, a scope does not count.";
    ReasonCode, "RightsReasonCode", "Why a user or a key has a scope, or does not have it.";
}

/// A reason for a right, or against it.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct RightsReason {
    /// The reason as a code.
    code: ReasonCode,
    /// What the reason does.
    effect: Effect,
    /// The reason in words. It names an organization by its id if you cannot read it with `directory:read`.
    text: String,
    /// When the rights end. Only a reason with the code `until` has it.
    until: Option<Timestamp>,
}

impl From<&rights::Reason> for RightsReason {
    fn from(reason: &rights::Reason) -> Self {
        let rights::Reason { code, effect, text, until } = reason.clone();
        Self { code, effect, text, until }
    }
}

/// One scope, and whether the user or key has it.
#[derive(Debug, Object, Serialize)]
struct ScopeRight {
    /// The name of the scope.
    scope: String,
    /// What the scope permits.
    description: String,
    /// Whether the user or key has the scope now.
    allowed: bool,
    /// What gives the scope, and what takes it away.
    reasons: Vec<RightsReason>,
}

/// What a user or a key can do now, and why.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct Rights {
    /// What has the rights.
    kind: RightsKind,
    /// The id of the user or the key.
    id: String,
    /// The name of the user or the key.
    name: String,
    /// What limits all scopes that it has: organizations, networks, and when it ends.
    limits: Vec<RightsReason>,
    /// All scopes of the installation.
    scopes: Vec<ScopeRight>,
}

impl Rights {
    fn new(subject: &Subject, explained: &Explained) -> Self {
        let (kind, id, name) = named(subject);
        let right = |scope: Scope| ScopeRight {
            scope: scope.name().to_owned(),
            description: scope.description().to_owned(),
            allowed: explained.held.allows(scope),
            reasons: explained.of_scope(scope).map(Into::into).collect(),
        };
        let scopes = Scope::ALL.iter().copied().map(right).collect();
        Self { kind, id, name, limits: explained.limits.iter().map(Into::into).collect(), scopes }
    }
}

/// A user or a key that has a scope.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RightsHolder {
    /// What has the scope.
    kind: RightsKind,
    /// The id of the user or the key.
    id: String,
    /// The name of the user or the key.
    name: String,
    /// The id of the person that a personal key acts for. Absent for others.
    person_id: Option<UserId>,
    /// What gives the scope, and what limits it.
    reasons: Vec<RightsReason>,
}

impl RightsHolder {
    fn new(subject: &Subject, explained: &Explained, scope: Scope) -> Self {
        let (kind, id, name) = named(subject);
        let person_id = match subject {
            Subject::User(_) => None,
            Subject::Key(key) => key.person,
        };
        let reasons = explained.of_scope(scope).chain(&explained.limits).map(Into::into).collect();
        Self { kind, id, name, person_id, reasons }
    }
}

fn named(subject: &Subject) -> (RightsKind, String, String) {
    match subject {
        Subject::User(user) => (RightsKind::User, user.id.to_string(), user.name.clone()),
        Subject::Key(key) => (RightsKind::ApiKey, key.id.to_string(), key.name.clone()),
    }
}

#[derive(Debug, Object)]
struct ListRightsHolders {
    /// The name of the scope, such as `tickets:write`.
    #[oai(validator(min_length = 1, max_length = 64))]
    scope: String,
    /// Returns only users, or only API keys. Absent: what you may read of both.
    kind: Option<RightsKind>,
    #[oai(flatten)]
    page: UncountedPageQuery,
}

fn parse_scope(name: &str) -> Result<Scope, Problem> {
    Scope::ALL.iter().copied().find(|scope| scope.name() == name).ok_or_else(|| {
        let names = || Scope::ALL.iter().map(|scope| scope.name());
        let error = FieldError::parameter("scope", "unknown_scope", format!("the scope {name} does not exist; see allowed"))
            .with_allowed(names().map(str::to_owned).collect())
            .with_suggestion(nearest(name, names()));
        Problem::invalid(vec![error])
    })
}

pub(crate) struct RightsApi {
    pub(crate) explainer: Explainer,
    pub(crate) store: Store,
}

fn place<R>(auth: &Allowed<R>) -> Place {
    Place {
        tenant: auth.principal.tenant_id,
        kind: auth.principal.tenant_kind,
        now: auth.context.now,
        guard_now: auth.context.clocks.installation(),
        named: auth.principal.grants.allows(Scope::DirectoryRead).then(|| auth.principal.reach.clone()),
    }
}

#[OpenApi(prefix_path = "/api/admin", tag = "Area::Users")]
impl RightsApi {
    /// Explain the rights of a user
    ///
    /// Returns for every scope of the installation whether the user has it now, and why: the role that gives it, what limits it, and what
    /// takes it away. The answer comes from the same checks as every request. A user has a scope if an open session has it, or if the
    /// next sign-in would.
    #[oai(path = "/users/:id/rights", method = "get", operation_id = "read_user_rights")]
    async fn read_user_rights(&self, auth: Allowed<UsersRead>, id: Path<UserId>) -> Result<Answer<Rights>, Problem> {
        let place = place(&auth);
        let shown = self.store.read(|tx| {
            let user = directory::user(tx, place.tenant, id.0)?.ok_or(AuthError::NotFound)?;
            let explained = self.explainer.person(tx, &place, &user)?;
            Ok::<_, AuthError>(Rights::new(&Subject::User(Box::new(user)), &explained))
        })?;
        Ok(Answer::new(&shown))
    }

    /// Explain the rights of an API key
    ///
    /// Returns for every scope of the installation whether the key has it now, and why: its own list, what limits it, and what takes it
    /// away. A personal key has only what its person has too.
    #[oai(path = "/api-keys/:id/rights", method = "get", operation_id = "read_api_key_rights")]
    async fn read_api_key_rights(&self, auth: Allowed<ApiKeysRead>, id: Path<ApiKeyId>) -> Result<Answer<Rights>, Problem> {
        let place = place(&auth);
        let shown = self.store.read(|tx| {
            let key = api_keys::find(tx, place.tenant, id.0)?.ok_or(ApiKeyError::NotFound)?;
            let explained = self.explainer.key(tx, &place, &key)?;
            Ok::<_, AuthError>(Rights::new(&Subject::Key(Box::new(key)), &explained))
        })?;
        Ok(Answer::new(&shown))
    }

    /// List who has a scope
    ///
    /// Returns the users and API keys that have the scope now, with the reasons: users first, then keys, each in the order of their
    /// creation. Users need `users:read`, and keys need `api_keys:read`. With one of these scopes you get only that part.
    #[oai(path = "/rights", method = "get", operation_id = "list_rights_holders")]
    async fn list_rights_holders(
        &self,
        auth: Allowed<RightsRead>,
        query: Filter<ListRightsHolders>,
    ) -> Result<Listed<RightsHolder>, Problem> {
        let ListRightsHolders { scope, kind, page } = query.0;
        let scope = parse_scope(&scope)?;
        match kind {
            Some(RightsKind::User) => Need::Scope(Scope::UsersRead).check(&auth.principal)?,
            Some(RightsKind::ApiKey) => Need::Scope(Scope::ApiKeysRead).check(&auth.principal)?,
            None => {}
        }
        let may = |own: RightsKind, need: Scope| kind.is_none_or(|kind| kind == own) && auth.principal.grants.allows(need);
        let users = may(RightsKind::User, Scope::UsersRead);
        let wanted = Wanted { scope, users, keys: may(RightsKind::ApiKey, Scope::ApiKeysRead) };
        let request = PageRequest::new(&auth.context, &PageQuery::from(page))?;
        let (explainer, reading, place) = (self.explainer.clone(), request.clone(), place(&auth));
        let found = self
            .store
            .scan_for(place.tenant, move |tx| explainer.who_has(tx, &place, wanted, reading.after.as_deref(), reading.limit));
        let found = found.await?;
        let data: Vec<RightsHolder> =
            found.found.iter().map(|(subject, explained)| RightsHolder::new(subject, explained, scope)).collect();
        Ok(Listed::new(&data, &request.page(found.last, None)))
    }
}
