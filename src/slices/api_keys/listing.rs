//! Lists keys with filters, a sort order and a position to continue from. Uses an index for orders that are worth one.

use tenantd_base::{access::Scope, clock::Timestamp, id::TenantId};
use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError};

use super::{
    model::{ApiKey, KeyRules, KeyStatus},
    repo::{BY_NAME, KEYS},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortField {
    Name,
    CreatedAt,
    ExpiresAt,
    LastUsedAt,
}

#[derive(Clone, Debug)]
pub(super) struct KeyQuery {
    pub(super) tenant_id: TenantId,
    pub(super) now: Timestamp,
    pub(super) statuses: Vec<KeyStatus>,
    /// Keys that have this scope, by name or through a wildcard.
    pub(super) scope: Option<Scope>,
    /// Part of the name or the description, in lowercase.
    pub(super) text: Option<String>,
    pub(super) created_by: Option<String>,
    /// Only personal keys, or only others.
    pub(super) personal: Option<bool>,
    pub(super) expires_before: Option<Timestamp>,
    /// Keys that have not been used since then.
    pub(super) unused_since: Option<Timestamp>,
    pub(super) sort: SortField,
    pub(super) direction: Direction,
}

impl KeyQuery {
    fn matches(&self, key: &ApiKey, rules: &KeyRules) -> bool {
        let contains = |text: &str| {
            let in_description = key.description.as_deref().is_some_and(|description| description.to_lowercase().contains(text));
            key.name.to_lowercase().contains(text) || in_description
        };
        (self.statuses.is_empty() || self.statuses.contains(&key.status(self.now, rules)))
            && self.scope.is_none_or(|scope| key.grants().allows(scope))
            && self.text.as_deref().is_none_or(contains)
            && self.created_by.as_ref().is_none_or(|id| key.created_by.id == *id)
            && self.personal.is_none_or(|personal| key.person.is_some() == personal)
            && self.expires_before.is_none_or(|end| key.expires_at < end)
            && self.unused_since.is_none_or(|since| key.last_used_at.unwrap_or(key.created_at) < since)
    }
}

pub(super) struct KeyPage {
    pub(super) keys: Vec<ApiKey>,
    /// The position of the last key, if more keys follow.
    pub(super) last: Option<Vec<u8>>,
    pub(super) total: Option<u64>,
}

pub(super) fn list(
    tx: &impl Read,
    query: &KeyQuery,
    rules: &KeyRules,
    after: Option<&[u8]>,
    limit: usize,
    count: bool,
) -> Result<KeyPage, StoreError> {
    let mut page = KeyPage { keys: Vec::with_capacity(limit.min(200)), last: None, total: None };
    let mut position = Vec::new();
    walk(tx, query, after, |key, entry| {
        if !query.matches(&key, rules) {
            return Ok(Flow::Continue);
        }
        if page.keys.len() == limit {
            page.last = Some(std::mem::take(&mut position));
            return Ok(Flow::Stop);
        }
        position.clear();
        position.extend_from_slice(entry);
        page.keys.push(key);
        Ok(Flow::Continue)
    })?;
    if count {
        let mut total = 0;
        walk(tx, query, None, |key, _| {
            total += u64::from(query.matches(&key, rules));
            Ok(Flow::Continue)
        })?;
        page.total = Some(total);
    }
    Ok(page)
}

/// Visits the tenant's keys in the order of the query, after a position. A position does not contain the tenant, so that a foreign
/// position cannot reach keys of another tenant.
fn walk(
    tx: &impl Read,
    query: &KeyQuery,
    after: Option<&[u8]>,
    mut visit: impl FnMut(ApiKey, &[u8]) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let prefix = query.tenant_id.to_bytes();
    let mut range = KeyRange::prefix(&prefix);
    if let Some(after) = after {
        range = range.after(&[&prefix, after].concat(), query.direction);
    }
    match query.sort {
        // Ids sort by creation time.
        SortField::CreatedAt => KEYS.scan(tx, &range, query.direction, |id, key| visit(key, position(&prefix, &id.to_bytes()))),
        SortField::Name => BY_NAME.scan(tx, &range, query.direction, |id, entry| match KEYS.get(tx, &id)? {
            Some(key) => visit(key, position(&prefix, entry)),
            None => Err(StoreError::damaged(BY_NAME.table.name(), entry, "the entry names a record that is missing")),
        }),
        SortField::ExpiresAt => walk_sorted(tx, query, after, |key| (key.expires_at, key.id).to_bytes(), visit),
        SortField::LastUsedAt => walk_sorted(tx, query, after, |key| (key.last_used_at, key.id).to_bytes(), visit),
    }
}

/// Sorts the tenant's keys in memory. A tenant has about a hundred live keys, a few for each person, and those that ended in recent
/// months. An index for each order would slow down every creation and every use for the sake of a rare list.
fn walk_sorted(
    tx: &impl Read,
    query: &KeyQuery,
    after: Option<&[u8]>,
    order: impl Fn(&ApiKey) -> Vec<u8>,
    mut visit: impl FnMut(ApiKey, &[u8]) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    let forward = query.direction == Direction::Forward;
    let behind = |at: &[u8]| after.is_none_or(|after| if forward { at > after } else { at < after });
    let mut keys = Vec::new();
    KEYS.scan(tx, &KeyRange::prefix(&query.tenant_id.to_bytes()), Direction::Forward, |_, key| {
        let at = order(&key);
        if behind(&at) {
            keys.push((at, key));
        }
        Ok(Flow::Continue)
    })?;
    keys.sort_by(|(left, _), (right, _)| if forward { left.cmp(right) } else { right.cmp(left) });
    for (at, key) in keys {
        if visit(key, &at)? == Flow::Stop {
            break;
        }
    }
    Ok(())
}

fn position<'a>(tenant: &[u8], entry: &'a [u8]) -> &'a [u8] {
    entry.get(tenant.len()..).unwrap_or_default()
}
