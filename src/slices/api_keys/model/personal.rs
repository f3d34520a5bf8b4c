//! What a key may do: why it does not work now, the scopes of a request with it, and the rules of personal keys.
//!
//! **Invariant:** a personal key never has a scope over credentials, so it cannot create or change keys and users.

use tenantd_base::{
    access::{self, Grants, Scope, TenantKind},
    clock::Timestamp,
    fault::Fault,
};

use super::{ApiKey, granted, within_tenant};

/// How many personal keys of one person are stored, including those that have ended. A new key removes the oldest ended one.
pub const MOST_PERSONAL_RECORDS: usize = 100;

/// Why a key does not work now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBlock {
    Revoked,
    Expired,
    Disabled,
}

impl ApiKey {
    /// Returns why the key does not work now. `None` if it works.
    pub fn block(&self, now: Timestamp) -> Option<KeyBlock> {
        if self.revoked_at.is_some() {
            Some(KeyBlock::Revoked)
        } else if now >= self.expires_at {
            Some(KeyBlock::Expired)
        } else if !self.enabled {
            Some(KeyBlock::Disabled)
        } else {
            None
        }
    }

    /// The scopes that the key lists, before any limit.
    pub fn listed(&self, tenant_kind: TenantKind) -> Grants {
        granted(&self.scopes, self.generation, tenant_kind)
    }

    /// The scopes of a request with the current secret while the key works. Those of a personal key also depend on its person.
    pub fn request_scopes(&self, tenant_kind: TenantKind) -> Grants {
        within_tenant(self.grants(), tenant_kind)
    }

    /// Removes the scopes that a key of this kind can never have.
    pub(super) fn permitted(&self, grants: Grants) -> Grants {
        if self.person.is_some() { grants.without(Grants::OVER_CREDENTIALS) } else { grants }
    }
}

/// Returns a fault if a personal key names scopes over credentials. A wildcard over all areas does not include them.
pub fn personal_fault(scopes: &[String]) -> Option<Fault> {
    let named = scopes.iter().filter(|pattern| !pattern.starts_with('*')).filter_map(|pattern| access::expand(pattern));
    let beyond = named.fold(Grants::NONE, Grants::union).intersection(Grants::OVER_CREDENTIALS);
    if beyond == Grants::NONE {
        return None;
    }
    let names: Vec<&str> = beyond.iter().map(Scope::name).collect();
    let message = format!("a personal key cannot change keys and users; remove {}", names.join(", "));
    Some(Fault::new("/scopes", "not_allowed", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_personal_key_names_no_scope_over_credentials() {
        let fault = |scopes: &[&str]| personal_fault(&scopes.iter().map(|scope| (*scope).to_owned()).collect::<Vec<_>>());
        for allowed in [&["*"] as &[_], &["*:write", "tickets:*"], &["api_keys:read", "users:read"]] {
            assert_eq!(fault(allowed), None, "{allowed:?}");
        }
        for (refused, named) in [("api_keys:*", "api_keys:write"), ("users:write", "users:write")] {
            assert!(fault(&["tickets:read", refused]).is_some_and(|fault| fault.message.contains(named)), "{refused}");
        }
    }
}
