//! Pages of a list as they were rendered, for as long as they are true: clients poll lists far more often than these change.
//!
//! A page counts while none of its tables has changed, and until the second is over, for what time alone changes. **Boundary:**
//! only for lists that depend on nothing but tenant, query, tables and time; what a caller may see must not differ by caller.

use super::{context::RequestContext, problem::Problem, reply::Listed};
use crate::kernel::{
    id::TenantId,
    store::{Store, VersionedCache, catalog::TableName},
};

/// A page has at most 200 records, so all of them together stay within some megabytes.
const PAGES: u64 = 64;

pub struct PageCache<T, const TABLES: usize> {
    pages: VersionedCache<(TenantId, i64, String), Listed<T>, TABLES>,
}

impl<T, const TABLES: usize> std::fmt::Debug for PageCache<T, TABLES> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageCache")
    }
}

impl<T: 'static, const TABLES: usize> PageCache<T, TABLES> {
    pub fn new(tables: [TableName; TABLES]) -> Self {
        Self { pages: VersionedCache::new(tables, PAGES) }
    }

    /// The page that the request asks for, rendered anew if need be.
    pub fn get(
        &self,
        store: &Store,
        tenant: TenantId,
        context: &RequestContext,
        render: impl FnOnce() -> Result<Listed<T>, Problem>,
    ) -> Result<Listed<T>, Problem> {
        let second = context.now.as_millis().div_euclid(1000);
        let page = self.pages.get(store, (tenant, second, context.target().to_owned()), render)?;
        Ok(page.as_ref().clone())
    }
}
