//! Lists workflows and runs, newest first. Uses the index that fits the filters, and checks the remaining filters record by record.
//! A call examines a bounded number of records; the next page continues from there.

use tenantd_base::{
    clock::Timestamp,
    fault::Fault,
    id::{TenantId, WorkflowId, is_id},
};
use tenantd_store::{Direction, Flow, Key, Read, ReadTx, StoreError};

use super::{
    IdByName,
    error::WorkflowError,
    model::{Run, RunStatus, Workflow},
    name_subject,
    repo::{
        self,
        runs::{BY_STATUS, BY_SUBJECT, BY_WORKFLOW, RUNS},
        workflows::WORKFLOWS,
    },
};

const MAX_EXAMINED: usize = 10_000;
pub(super) const UNKNOWN_SUBJECT: &str =
    "expected the id of a record, or a ticket such as T-1042 or 1042 that you can read; no run has this subject";

pub(super) struct Listed<T> {
    pub(super) found: Vec<T>,
    /// The position of the last examined record, if there are more.
    pub(super) last: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(super) struct WorkflowQuery {
    pub(super) tenant_id: TenantId,
    pub(super) enabled: Option<bool>,
    pub(super) archived: bool,
}

impl WorkflowQuery {
    fn matches(&self, workflow: &Workflow) -> bool {
        workflow.archived_at.is_some() == self.archived && self.enabled.is_none_or(|enabled| workflow.enabled == enabled)
    }
}

/// Collects matching records, up to a page.
struct Gathering<T> {
    found: Vec<T>,
    limit: usize,
    examined: usize,
    position: Vec<u8>,
    more: bool,
}

impl<T> Gathering<T> {
    fn new(limit: usize) -> Self {
        Self { found: Vec::new(), limit, examined: 0, position: Vec::new(), more: false }
    }

    fn take(&mut self, entry: &[u8], record: Option<T>) -> Flow {
        if self.found.len() == self.limit || self.examined == MAX_EXAMINED {
            self.more = true;
            return Flow::Stop;
        }
        self.examined += 1;
        self.position.clear();
        self.position.extend_from_slice(entry);
        self.found.extend(record);
        Flow::Continue
    }

    fn listed(self) -> Listed<T> {
        Listed { last: self.more.then_some(self.position), found: self.found }
    }
}

pub(super) fn workflows(
    tx: &impl Read,
    query: &WorkflowQuery,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Listed<Workflow>, StoreError> {
    let prefix = query.tenant_id.to_bytes();
    let mut gathering = Gathering::new(limit);
    WORKFLOWS.scan(tx, &repo::runs::after(&prefix, after, Direction::Backward), Direction::Backward, |key, workflow| {
        let entry = key.1.to_bytes();
        let matches = query.matches(&workflow);
        Ok(gathering.take(&entry, matches.then_some(workflow)))
    })?;
    Ok(gathering.listed())
}

pub(super) fn count_workflows(tx: &impl Read, query: &WorkflowQuery) -> Result<u64, StoreError> {
    let mut count = 0;
    WORKFLOWS.scan(
        tx,
        &repo::runs::after(&query.tenant_id.to_bytes(), None, Direction::Forward),
        Direction::Forward,
        |_, workflow| {
            count += u64::from(query.matches(&workflow));
            Ok(Flow::Continue)
        },
    )?;
    Ok(count)
}

#[derive(Clone, Debug)]
pub(super) struct RunQuery {
    pub(super) tenant_id: TenantId,
    pub(super) workflow_id: Option<WorkflowId>,
    pub(super) statuses: Vec<RunStatus>,
    pub(super) subject_id: Option<String>,
    pub(super) started_after: Option<Timestamp>,
}

impl RunQuery {
    /// Replaces the reference of a ticket with its id. Other texts are accepted if runs have them as their subject, because not
    /// every subject has an id.
    pub(super) fn name_subject(&mut self, tx: &ReadTx, id_by_name: Option<IdByName>) -> Result<(), WorkflowError> {
        let Some(subject) = &mut self.subject_id else { return Ok(()) };
        let is_found = name_subject(subject, tx, self.tenant_id, id_by_name)?;
        if is_found && is_id(subject) {
            return Ok(());
        }
        let (prefix, mut is_known) = ((self.tenant_id, subject.clone()).to_bytes(), false);
        BY_SUBJECT.scan(tx, &repo::runs::after(&prefix, None, Direction::Backward), Direction::Backward, |_, _| {
            is_known = true;
            Ok(Flow::Stop)
        })?;
        if is_found && is_known {
            return Ok(());
        }
        Err(WorkflowError::Invalid(vec![Fault::parameter("subject_id", "unknown_reference", UNKNOWN_SUBJECT)]))
    }

    fn matches(&self, run: &Run) -> bool {
        self.workflow_id.is_none_or(|id| run.workflow_id == id)
            && (self.statuses.is_empty() || self.statuses.contains(&run.status))
            && self.subject_id.as_ref().is_none_or(|id| run.subject_id.as_ref() == Some(id))
            && self.started_after.is_none_or(|after| run.created_at > after)
    }
}

/// Visits the runs of the narrowest index for the query, newest first. The visitor receives the index entry without its prefix.
fn walk(
    tx: &impl Read,
    query: &RunQuery,
    after: Option<&[u8]>,
    mut visit: impl FnMut(Run, &[u8]) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let tenant = query.tenant_id;
    let (index, prefix) = match (&query.subject_id, query.workflow_id, query.statuses.as_slice()) {
        (Some(subject), ..) => (Some(&BY_SUBJECT), (tenant, subject.clone()).to_bytes()),
        (None, _, [only]) if !only.has_ended() || query.workflow_id.is_none() => {
            (Some(&BY_STATUS), (tenant, only.code()).to_bytes())
        }
        (None, Some(workflow), _) => (Some(&BY_WORKFLOW), (tenant, workflow).to_bytes()),
        (None, None, _) => (None, tenant.to_bytes()),
    };
    let range = repo::runs::after(&prefix, after, Direction::Backward);
    let behind = |entry: &[u8]| entry.get(prefix.len()..).unwrap_or_default().to_vec();
    match index {
        None => RUNS.scan(tx, &range, Direction::Backward, |key, run| visit(run, &behind(&key.to_bytes()))),
        Some(index) => index.scan(tx, &range, Direction::Backward, |key, entry| match repo::runs::get(tx, key)? {
            Some(run) => visit(run, &behind(entry)),
            None => Err(StoreError::damaged(index.table.name(), entry, "the entry names a record that is missing")),
        }),
    }
}

pub(super) fn runs(tx: &impl Read, query: &RunQuery, after: Option<&[u8]>, limit: usize) -> Result<Listed<Run>, StoreError> {
    let mut gathering = Gathering::new(limit);
    walk(tx, query, after, |run, entry| {
        // Ids are ordered by creation, so no later entry is newer.
        if query.started_after.is_some_and(|after| run.created_at <= after) {
            return Ok(Flow::Stop);
        }
        let matches = query.matches(&run);
        Ok(gathering.take(entry, matches.then_some(run)))
    })?;
    Ok(gathering.listed())
}

pub(super) fn count_runs(tx: &impl Read, query: &RunQuery) -> Result<u64, StoreError> {
    let mut count = 0;
    walk(tx, query, None, |run, _| {
        count += u64::from(query.matches(&run));
        Ok(Flow::Continue)
    })?;
    Ok(count)
}
