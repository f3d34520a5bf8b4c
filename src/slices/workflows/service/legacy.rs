//! Workflows of releases that did not check the rights of authors.
//!
//! tenantd checks each of them once, at its first start. If the author has the rights that the newest version needs, the workflow
//! has an owner like any other. Otherwise it is [`Origin::Legacy`]: the versions of that time act with the scopes that they need
//! until the grace period ends. **Invariant:** only a caller with these rights can change such a workflow, and becomes its owner by
//! doing so.

use tenantd_base::{authority::Authority, clock::Timestamp};
use tenantd_store::ReadTx;

use super::{
    super::{
        error::WorkflowError,
        model::{Origin, Workflow},
        repo,
    },
    Service, VersionKey,
};

impl Service {
    /// The origin of a workflow whose authors were never checked.
    pub(crate) fn origin_of(&self, tx: &ReadTx, workflow: &Workflow, now: Timestamp) -> Result<Origin, WorkflowError> {
        let newest = (workflow.tenant_id, workflow.id, workflow.version);
        let (needs, author) = (self.needs(&*self.outline(tx, newest)?), self.author(tx, newest)?);
        let rights = self.holder_rights(tx, workflow.tenant_id, &author, now)?;
        let is_owned = rights.is_some_and(|rights| rights.scopes().covers(needs));
        Ok(if is_owned { Origin::Checked } else { Origin::Legacy { since: now, version: workflow.version } })
    }

    /// The current rights of a version's author. During the grace period of a legacy workflow, a version has the rights that it
    /// needs.
    pub(super) fn author_rights(&self, tx: &ReadTx, key: VersionKey, now: Timestamp) -> Result<Option<Authority>, WorkflowError> {
        let author = self.author(tx, key)?;
        let own = self.holder_rights(tx, key.0, &author, now)?;
        let needs = self.needs(&*self.outline(tx, key)?);
        if own.as_ref().is_some_and(|rights| rights.scopes().covers(needs)) {
            return Ok(own);
        }
        let origin = repo::workflows::get(tx, key.0, key.1)?.map(|workflow| workflow.origin);
        let Some(Origin::Legacy { since, version }) = origin else { return Ok(own) };
        let until = self.holders.grace_ends(since);
        if key.2 > version || now >= until {
            return Ok(own);
        }
        Ok(Some(Authority::new(key.0, needs).with_until(Some(until))))
    }
}
