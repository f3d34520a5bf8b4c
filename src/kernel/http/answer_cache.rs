//! Rendered answers, kept for as long as they are valid. Clients poll far more often than data changes.
//!
//! An answer is valid until one of its tables changes, or until the current second ends, because some answers change with time
//! alone. **Boundary:** only for answers that depend on nothing but tenant, path, query, tables, time and, with
//! [`Audience::Caller`], the caller.

use tenantd_base::{
    access::{Identity, Principal, Reach},
    id::{TenantId, UserId},
};
use tenantd_store::{Store, VersionedCache, catalog::TableName};

use super::{
    context::RequestContext,
    problem::Problem,
    reply::{Found, Listed, Rendered},
};

/// The most bytes that all answers of a cache have together.
const MOST_BYTES: u64 = 8 << 20;

/// The callers for whom an answer is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Every caller of the tenant who may make the request.
    Tenant,
    /// Callers that are the same person (or no person) and have the same reach.
    Caller(Option<UserId>, Reach),
}

impl Audience {
    pub fn of(principal: &Principal) -> Self {
        let person = match &principal.identity {
            Identity::User { id, .. } | Identity::Contact { id, .. } => Some(*id),
            Identity::ApiKey { .. } | Identity::LocalOperator => None,
        };
        Self::Caller(person, principal.reach.clone())
    }
}

/// A cached value that knows how much memory it takes.
pub trait Answer: Clone + Send + Sync + 'static {
    fn bytes(&self) -> usize;
}

impl Answer for Rendered {
    fn bytes(&self) -> usize {
        self.body.len()
    }
}

impl<T: 'static> Answer for Listed<T> {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// A record with its version.
impl<T: 'static> Answer for (u64, Found<T>) {
    fn bytes(&self) -> usize {
        self.1.0.bytes()
    }
}

pub struct AnswerCache<A, const TABLES: usize> {
    answers: VersionedCache<CacheKey, A, TABLES>,
}

type CacheKey = (TenantId, Audience, i64, String);

impl<A, const TABLES: usize> std::fmt::Debug for AnswerCache<A, TABLES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerCache")
    }
}

fn cache_key(tenant: TenantId, audience: Audience, context: &RequestContext) -> CacheKey {
    let second = context.now.as_millis().div_euclid(1000);
    (tenant, audience, second, context.target().to_owned())
}

impl<A: Answer, const TABLES: usize> AnswerCache<A, TABLES> {
    pub fn new(tables: [TableName; TABLES]) -> Self {
        // The key and the overhead of an entry count as well.
        let weigh = |key: &CacheKey, answer: &A| u32::try_from(answer.bytes() + key.3.len() + 512).unwrap_or(u32::MAX);
        Self { answers: VersionedCache::weighed(tables, MOST_BYTES, weigh) }
    }

    /// The answer to a request that is the same for every caller. Renders it if the cache has none.
    pub fn get(
        &self,
        store: &Store,
        tenant: TenantId,
        context: &RequestContext,
        render: impl FnOnce() -> Result<A, Problem>,
    ) -> Result<A, Problem> {
        if context.no_cache {
            return render();
        }
        let answer = self.answers.get(store, cache_key(tenant, Audience::Tenant, context), render)?;
        Ok(answer.as_ref().clone())
    }

    /// The answer to a request as this caller sees it.
    pub async fn get_for(
        &self,
        store: &Store,
        principal: &Principal,
        context: &RequestContext,
        render: impl Future<Output = Result<A, Problem>>,
    ) -> Result<A, Problem> {
        if context.no_cache {
            return render.await;
        }
        let key = cache_key(principal.tenant_id, Audience::of(principal), context);
        let versions = match self.answers.look_up(store, &key) {
            Ok(answer) => return Ok(answer.as_ref().clone()),
            Err(versions) => versions,
        };
        let answer = render.await?;
        self.answers.keep(key, versions, answer.clone());
        Ok(answer)
    }
}
