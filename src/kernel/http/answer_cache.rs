//! Answers as they were rendered, for as long as they are true: clients poll far more often than anything changes.
//!
//! An answer counts while none of its tables has changed, and until the second is over, for what time alone changes. **Boundary:**
//! only for what depends on nothing but tenant, path, query, tables and time; what a caller may see must not differ by caller.

use super::{context::RequestContext, problem::Problem};
use crate::kernel::{
    id::TenantId,
    store::{Store, VersionedCache, catalog::TableName},
};

/// A page has at most 200 records, so all of them together stay within some megabytes.
const ANSWERS: u64 = 64;

pub struct AnswerCache<A, const TABLES: usize> {
    answers: VersionedCache<(TenantId, i64, String), A, TABLES>,
}

impl<A, const TABLES: usize> std::fmt::Debug for AnswerCache<A, TABLES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerCache")
    }
}

impl<A: Clone + Send + Sync + 'static, const TABLES: usize> AnswerCache<A, TABLES> {
    pub fn new(tables: [TableName; TABLES]) -> Self {
        Self { answers: VersionedCache::new(tables, ANSWERS) }
    }

    /// What the request asks for, rendered anew if need be.
    pub fn get(
        &self,
        store: &Store,
        tenant: TenantId,
        context: &RequestContext,
        render: impl FnOnce() -> Result<A, Problem>,
    ) -> Result<A, Problem> {
        let second = context.now.as_millis().div_euclid(1000);
        let answer = self.answers.get(store, (tenant, second, context.target().to_owned()), render)?;
        Ok(answer.as_ref().clone())
    }
}
