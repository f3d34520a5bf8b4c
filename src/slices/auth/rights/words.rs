//! The sentences of reasons.

use tenantd_api_keys::KeyBlock;
use tenantd_base::{
    authority::{Authority, Within},
    id::OrganizationId,
};
use tenantd_store::StoreError;

use super::{super::holders::Block, Explained, ReasonCode};

pub(super) const TENANT_WIDE_USER: &str =
    "The person is limited to organizations, and this scope is not about records of organizations.";
pub(super) const TENANT_WIDE_KEY: &str =
    "The key is limited to organizations, and this scope is not about records of organizations.";
pub(super) const FACTOR_MISSING: &str = "The sign-in policy requires a second factor for the role, and the person has none.";
pub(super) const KEY_PAUSED: &str = "tenantd paused the key because of its owner.";
pub(super) const NEWER: &str = "A wildcard in the list of the key is older than this scope and does not include it.";
pub(super) const OVER_CREDENTIALS: &str = "A personal key cannot change keys and users.";
pub(super) const PLATFORM_ONLY: &str = "The scope works only in the tenant of the operator.";
pub(super) const CLOSED: &str = "The tenant is suspended or closed.";

/// How many organizations a sentence names.
const MOST_NAMED: usize = 10;

pub(super) fn of_block(block: Block) -> (ReasonCode, &'static str) {
    match block {
        Block::Contact => {
            (ReasonCode::Contact, "The person is a contact. A contact has no scopes, also with access to the portal.")
        }
        Block::UserDisabled => (ReasonCode::UserDisabled, "The account of the person is disabled."),
        Block::NeverSignedIn => (ReasonCode::NeverSignedIn, "The person must sign in through an identity provider, and never has."),
        Block::ProviderOff => (
            ReasonCode::IdentityProviderOff,
            "The person can sign in only through an identity provider that is disabled or no longer exists.",
        ),
        Block::SignOnLapsed => {
            (ReasonCode::SignOnLapsed, "The person can sign in only through an identity provider, and has not for 90 days.")
        }
        Block::NoWayIn => (
            ReasonCode::NoWayIn,
            "The person has no password, no passkey and no link to an identity provider, so they cannot sign in.",
        ),
        Block::Key(KeyBlock::Revoked) => (ReasonCode::KeyRevoked, "The key was revoked."),
        Block::Key(KeyBlock::Expired) => (ReasonCode::KeyExpired, "The key has expired."),
        Block::Key(KeyBlock::Disabled) => (ReasonCode::KeyDisabled, "Somebody disabled the key."),
        Block::PersonRemoved => (ReasonCode::PersonRemoved, "The person of the key was removed."),
        Block::PersonalKeysForbidden => (ReasonCode::PersonalKeysForbidden, "The sign-in policy forbids personal keys."),
    }
}

/// Adds the limits of an authority: organizations, networks and its end.
pub(super) fn add_limits(
    explained: &mut Explained,
    authority: &Authority,
    name: impl Fn(OrganizationId) -> Result<String, StoreError>,
) -> Result<(), StoreError> {
    if let Within::Only(ids) = authority.organizations() {
        let named: Result<Vec<String>, StoreError> = ids.iter().take(MOST_NAMED).map(|id| name(*id)).collect();
        let more = match ids.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = if ids.is_empty() {
            "It reaches no records, because the organizations of its limit no longer exist.".to_owned()
        } else {
            format!("Only records of {}{more}.", named?.join(", "))
        };
        explained.limit(ReasonCode::Organizations, text);
    }
    if let Within::Only(networks) = authority.networks() {
        let shown: Vec<String> = networks.as_slice().iter().map(ToString::to_string).collect();
        explained.limit(ReasonCode::Networks, format!("Only from {}.", shown.join(", ")));
    }
    if let Some(end) = authority.until() {
        explained.ends(end);
    }
    Ok(())
}
