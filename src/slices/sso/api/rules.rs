//! The wire form of the rules of an identity provider: enforcement, freshness and strength of sign-ons, and groups.

use poem_openapi::Object;
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{access::Role, change::Change, id::UserId};
use tenantd_http::wire::word_type;

use super::super::model::{self, Enforcement, Unmapped};

word_type! {
    Enforcement, "SignOnEnforcement", "Who must sign in through the provider. `off`: nobody. `domains`: staff with an address of its proven domains. `tenant`: all staff of\nthe tenant. Break-glass accounts are exempt.";
    Unmapped, "UnmappedPeople", "What happens to a person whose groups are in no mapping. `default_role`: they get `default_role`. `refuse`: they cannot sign in.";
}

/// The role that a group of the provider gives.
#[derive(Clone, Debug, PartialEq, Eq, Object, Serialize)]
pub(super) struct RoleMapping {
    /// The group exactly as the provider sends it: its name or its id.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) group: String,
    pub(super) role: Role,
}

/// The rules of an identity provider for the people who sign in.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct IdentityProviderRules {
    /// Who must sign in through the provider. It also applies while the provider is disabled or does not respond.
    pub(super) enforcement: Enforcement,
    /// Staff who can sign in with a password or a passkey although single sign-on is enforced. Each use is an event `auth.break_glass_used`.
    pub(super) break_glass_user_ids: Vec<UserId>,
    /// The claim with the groups of a person, or the path to it, such as `realm_access.roles`.
    pub(super) groups_claim: String,
    /// The roles that groups give at every sign-on. The first entry whose group the person has decides. If the list is empty,
    /// groups change no role.
    pub(super) role_mappings: Vec<RoleMapping>,
    pub(super) unmapped: Unmapped,
    /// How many seconds ago a person may have authenticated at the provider. Absent if it does not matter.
    pub(super) max_age_seconds: Option<u32>,
    /// The accepted classes of authentication (`acr`), the preferred one first. If the list is empty, any is accepted.
    pub(super) required_acr: Vec<String>,
    /// Whether the provider has a redirect URI of its own. Providers from older releases share one until you change this.
    pub(super) own_redirect_uri: bool,
}

impl From<model::Rules> for IdentityProviderRules {
    fn from(rules: model::Rules) -> Self {
        let mapping = |model::RoleMapping { group, role }| RoleMapping { group, role };
        Self {
            enforcement: rules.enforcement,
            break_glass_user_ids: rules.break_glass_user_ids,
            groups_claim: rules.groups_claim,
            role_mappings: rules.role_mappings.into_iter().map(mapping).collect(),
            unmapped: rules.unmapped,
            max_age_seconds: rules.max_age_seconds,
            required_acr: rules.required_acr,
            own_redirect_uri: rules.own_redirect_uri,
        }
    }
}

/// The rules to set. An absent field keeps its value.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ChangeIdentityProviderRules {
    /// Who must sign in through the provider. Defaults to `off`. You can enforce it once the provider is enabled and somebody has
    /// signed in through it, or in a test, and if an active administrator keeps a password to use.
    pub(super) enforcement: Option<Enforcement>,
    /// Staff who can sign in with a password or a passkey although single sign-on is enforced.
    #[oai(validator(max_items = 5, unique_items))]
    pub(super) break_glass_user_ids: Option<Vec<UserId>>,
    /// The claim with the groups of a person, or the path to it, such as `realm_access.roles`. Defaults to `groups`.
    #[oai(validator(min_length = 1, max_length = 255))]
    pub(super) groups_claim: Option<String>,
    /// The roles that groups give at every sign-on. The first entry whose group the person has decides. Replaces the whole list.
    #[oai(validator(max_items = 100))]
    pub(super) role_mappings: Option<Vec<RoleMapping>>,
    /// What happens to a person whose groups are in no mapping. Defaults to `default_role`.
    pub(super) unmapped: Option<Unmapped>,
    /// How many seconds ago a person may have authenticated at the provider. `0` makes them authenticate at every sign-on. `null`
    /// removes the limit.
    #[oai(validator(minimum(value = "0"), maximum(value = "86400")))]
    pub(super) max_age_seconds: Change<u32>,
    /// The accepted classes of authentication (`acr`), the preferred one first. Replaces the whole list.
    #[oai(validator(max_items = 10, unique_items))]
    pub(super) required_acr: Option<Vec<String>>,
    /// Whether the provider has a redirect URI of its own. Register it at the provider before you change this.
    pub(super) own_redirect_uri: Option<bool>,
}

impl ChangeIdentityProviderRules {
    /// Whether the request leaves all rules as they are.
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            enforcement,
            break_glass_user_ids,
            groups_claim,
            role_mappings,
            unmapped,
            max_age_seconds,
            required_acr,
            own_redirect_uri,
        } = self;
        let keeps_ways = enforcement.is_none() && break_glass_user_ids.is_none() && own_redirect_uri.is_none();
        let keeps_roles = groups_claim.is_none() && role_mappings.is_none() && unmapped.is_none();
        keeps_ways && keeps_roles && *max_age_seconds == Change::Keep && required_acr.is_none()
    }
}

impl From<ChangeIdentityProviderRules> for model::RulesChange {
    fn from(body: ChangeIdentityProviderRules) -> Self {
        let mapping = |RoleMapping { group, role }| model::RoleMapping { group, role };
        Self {
            enforcement: body.enforcement,
            break_glass_user_ids: body.break_glass_user_ids,
            groups_claim: body.groups_claim,
            role_mappings: body.role_mappings.map(|mappings| mappings.into_iter().map(mapping).collect()),
            unmapped: body.unmapped,
            max_age_seconds: body.max_age_seconds,
            required_acr: body.required_acr,
            own_redirect_uri: body.own_redirect_uri,
        }
    }
}
