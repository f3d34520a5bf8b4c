//! The rights of a key: what its list names, what a key of its kind can have, and what remains of that now.

use tenantd_api_keys::{ApiKey, KeyBlock};
use tenantd_base::access::Grants;
use tenantd_store::{ReadTx, StoreError};

use super::{super::holders::Block, Closed, Explained, Explainer, Place, ReasonCode, person_name, words};

impl Explainer {
    pub(super) fn key_with(
        &self,
        tx: &ReadTx,
        place: &Place,
        closed: Option<Closed>,
        key: &ApiKey,
    ) -> Result<Explained, StoreError> {
        let mut explained = Explained::new();
        let can_have = key.request_scopes(place.kind);
        name_list(key, place, can_have, &mut explained);
        let rights = match self.rights.of_key(tx, key, place.kind, place.now)? {
            Ok(rights) => rights,
            // tenantd disables a key that it pauses.
            Err(Block::Key(KeyBlock::Disabled)) if key.paused.is_some() => {
                explained.takes(can_have, ReasonCode::KeyPaused, words::KEY_PAUSED);
                return Ok(explained);
            }
            Err(block) => {
                explained.block(can_have, block);
                return Ok(explained);
            }
        };
        let left = rights.scopes().intersection(can_have);
        if let Some(person) = key.person {
            let name = person_name(tx, place.tenant, person)?;
            let text = format!("The key acts for {name}, who does not have it over the same records.");
            explained.takes(can_have.without(left), ReasonCode::PersonLacks, text);
        }
        Self::settle(tx, place, &mut explained, &rights, closed)?;
        explained.held = explained.held.intersection(can_have);
        Ok(explained)
    }
}

/// Adds what the list of the key names, and why the key cannot have some of it.
fn name_list(key: &ApiKey, place: &Place, can_have: Grants, explained: &mut Explained) {
    let listed = key.listed(place.kind);
    let patterns = || key.scopes.iter().map(String::as_str);
    explained.gives(listed, ReasonCode::OwnList, "The list of the key includes it.");
    // The wildcards of the list stand for these in the tenant of the operator, and for those in a key that is created today.
    let expanded = Grants::from_patterns_of(key.generation, patterns());
    let newer = Grants::from_patterns(patterns()).without(expanded);
    explained.takes(newer, ReasonCode::NewerThanWildcard, words::NEWER);
    let not_named = Grants::all().without(expanded).without(newer);
    explained.takes(not_named, ReasonCode::NotInList, "The list of the key does not include it.");
    let mut out = expanded.without(can_have);
    if key.person.is_some() {
        let over = out.intersection(Grants::OVER_CREDENTIALS);
        explained.takes(over, ReasonCode::OverCredentials, words::OVER_CREDENTIALS);
        out = out.without(over);
    }
    if !key.organization_ids.is_empty() {
        let wide = out.without(Grants::BY_ORGANIZATION);
        explained.takes(wide, ReasonCode::TenantWide, words::TENANT_WIDE_KEY);
        out = out.without(wide);
    }
    explained.takes(out, ReasonCode::PlatformOnly, words::PLATFORM_ONLY);
}
