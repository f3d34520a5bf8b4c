//! Answers as they were rendered, for as long as they are true: clients poll far more often than anything changes.
//!
//! An answer counts while none of its tables has changed, and until the second is over, for what time alone changes. **Boundary:**
//! only for what depends on nothing but tenant, path, query, tables, time and, where that is said, the caller.

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

/// What all answers of a cache have together at most.
const MOST_BYTES: u64 = 8 << 20;

/// For whom an answer is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Audience {
    /// For whoever may ask.
    Tenant,
    /// For who is this person, or none, and sees as much.
    Caller(Option<UserId>, Reach),
}

impl Audience {
    pub fn of(principal: &Principal) -> Self {
        let person = match &principal.identity {
            Identity::User { id, .. } => Some(*id),
            Identity::ApiKey { .. } | Identity::LocalOperator => None,
        };
        Self::Caller(person, principal.reach.clone())
    }
}

/// What is kept: how much memory it takes.
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
    answers: VersionedCache<Asked, A, TABLES>,
}

type Asked = (TenantId, Audience, i64, String);

impl<A, const TABLES: usize> std::fmt::Debug for AnswerCache<A, TABLES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerCache")
    }
}

fn asked(tenant: TenantId, audience: Audience, context: &RequestContext) -> Asked {
    let second = context.now.as_millis().div_euclid(1000);
    (tenant, audience, second, context.target().to_owned())
}

impl<A: Answer, const TABLES: usize> AnswerCache<A, TABLES> {
    pub fn new(tables: [TableName; TABLES]) -> Self {
        // The question and what keeps the entry count as well.
        let weigh = |asked: &Asked, answer: &A| u32::try_from(answer.bytes() + asked.3.len() + 512).unwrap_or(u32::MAX);
        Self { answers: VersionedCache::weighed(tables, MOST_BYTES, weigh) }
    }

    /// What a request asks for that anyone who may ask is answered alike, rendered anew if need be.
    pub fn get(
        &self,
        store: &Store,
        tenant: TenantId,
        context: &RequestContext,
        render: impl FnOnce() -> Result<A, Problem>,
    ) -> Result<A, Problem> {
        if context.anew {
            return render();
        }
        let answer = self.answers.get(store, asked(tenant, Audience::Tenant, context), render)?;
        Ok(answer.as_ref().clone())
    }

    /// What a request asks for, as this caller sees it.
    pub async fn get_for(
        &self,
        store: &Store,
        principal: &Principal,
        context: &RequestContext,
        render: impl Future<Output = Result<A, Problem>>,
    ) -> Result<A, Problem> {
        if context.anew {
            return render.await;
        }
        let asked = asked(principal.tenant_id, Audience::of(principal), context);
        let versions = match self.answers.look_up(store, &asked) {
            Ok(answer) => return Ok(answer.as_ref().clone()),
            Err(versions) => versions,
        };
        let answer = render.await?;
        self.answers.keep(asked, versions, answer.clone());
        Ok(answer)
    }
}
