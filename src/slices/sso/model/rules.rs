//! The rules of an identity provider for the people who sign in: whether it is the only way to sign in, how recent and how strong
//! a sign-on must be, and which roles its groups give.
//!
//! **Invariant:** rules that are enforced stay enforced while the provider is disabled or does not respond. Then only break-glass
//! accounts can sign in.

use serde::{Deserialize, Serialize};

use tenantd_auth::{PasswordAccess, RefusalReason, RequiredProvider};
use tenantd_base::{access::Role, change::Change, id::UserId, vocabulary::vocabulary};

use super::{Domain, IdentityProvider};

const MAX_BREAK_GLASS: usize = 5;
const MAX_MAPPINGS: usize = 100;
/// The maximum length of a group, of the path of a claim, and of a class of authentication, in characters.
pub(crate) const MAX_NAME: usize = 255;
const MAX_ACR: usize = 10;
/// A day, the longest life of a session.
const LONGEST_MAX_AGE: u32 = 86_400;
const GROUPS_CLAIM: &str = "groups";

vocabulary! {
    /// Who must sign in through the provider: nobody, staff with an address of its proven domains, or all staff of the tenant.
    #[derive(Default)]
    Enforcement: #[default] Off "off", Domains "domains", Tenant "tenant",
}

vocabulary! {
    /// What happens to a person whose groups are not mapped.
    #[derive(Default)]
    Unmapped: #[default] DefaultRole "default_role", Refuse "refuse",
}

/// The role that a group gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoleMapping {
    pub(crate) group: String,
    pub(crate) role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rules {
    pub(crate) enforcement: Enforcement,
    /// Staff who can sign in with a password although single sign-on is enforced.
    pub(crate) break_glass_user_ids: Vec<UserId>,
    /// The name of the claim with the groups, or the path to it, such as `realm_access.roles`.
    pub(crate) groups_claim: String,
    /// The first mapping whose group a person has decides. Empty: groups change no role.
    pub(crate) role_mappings: Vec<RoleMapping>,
    pub(crate) unmapped: Unmapped,
    /// How old the authentication at the provider may be.
    pub(crate) max_age_seconds: Option<u32>,
    /// The accepted classes of authentication. Empty: any.
    pub(crate) required_acr: Vec<String>,
    /// Whether the provider has a redirect URI of its own. Providers from older releases share one.
    pub(crate) own_redirect_uri: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            enforcement: Enforcement::Off,
            break_glass_user_ids: Vec::new(),
            groups_claim: GROUPS_CLAIM.to_owned(),
            role_mappings: Vec::new(),
            unmapped: Unmapped::DefaultRole,
            max_age_seconds: None,
            required_acr: Vec::new(),
            own_redirect_uri: false,
        }
    }
}

/// The changes of rules. An absent field keeps its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesChange {
    pub(crate) enforcement: Option<Enforcement>,
    pub(crate) break_glass_user_ids: Option<Vec<UserId>>,
    pub(crate) groups_claim: Option<String>,
    pub(crate) role_mappings: Option<Vec<RoleMapping>>,
    pub(crate) unmapped: Option<Unmapped>,
    pub(crate) max_age_seconds: Change<u32>,
    pub(crate) required_acr: Option<Vec<String>>,
    pub(crate) own_redirect_uri: Option<bool>,
}

impl RulesChange {
    pub(crate) fn apply(&self, before: &Rules) -> Rules {
        let change = self.clone();
        Rules {
            enforcement: change.enforcement.unwrap_or(before.enforcement),
            break_glass_user_ids: change.break_glass_user_ids.unwrap_or_else(|| before.break_glass_user_ids.clone()),
            groups_claim: change.groups_claim.unwrap_or_else(|| before.groups_claim.clone()),
            role_mappings: change.role_mappings.unwrap_or_else(|| before.role_mappings.clone()),
            unmapped: change.unmapped.unwrap_or(before.unmapped),
            max_age_seconds: change.max_age_seconds.apply(before.max_age_seconds),
            required_acr: change.required_acr.unwrap_or_else(|| before.required_acr.clone()),
            own_redirect_uri: change.own_redirect_uri.unwrap_or(before.own_redirect_uri),
        }
    }
}

impl Rules {
    /// Checks the limits of the API. Says which is broken.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let fits = |text: &String| !text.is_empty() && text.chars().count() <= MAX_NAME;
        let is_platform = self.role_mappings.iter().any(|mapping| mapping.role == Role::Operator);
        if !fits(&self.groups_claim) || !self.role_mappings.iter().all(|mapping| fits(&mapping.group)) {
            return Err("rules: a claim or a group must have 1 to 255 characters");
        }
        if is_platform {
            return Err("rules: operator is a role of the platform tenant");
        }
        if self.role_mappings.len() > MAX_MAPPINGS || self.break_glass_user_ids.len() > MAX_BREAK_GLASS {
            return Err("rules: too many mappings or break-glass accounts");
        }
        if self.required_acr.len() > MAX_ACR || !self.required_acr.iter().all(fits) {
            return Err("rules: too many or too long values of required_acr");
        }
        if self.max_age_seconds.is_some_and(|seconds| seconds > LONGEST_MAX_AGE) {
            return Err("rules: max_age_seconds is more than a day");
        }
        Ok(())
    }

    /// The role of a person with these groups. `None` leaves the role of an existing user as it is.
    pub(crate) fn role_of(&self, groups: &[String], default: Role) -> Result<Option<Role>, RefusalReason> {
        if self.role_mappings.is_empty() {
            return Ok(None);
        }
        let matched = self.role_mappings.iter().find(|mapping| groups.contains(&mapping.group));
        match (matched, self.unmapped) {
            (Some(mapping), _) => Ok(Some(mapping.role)),
            (None, Unmapped::DefaultRole) => Ok(Some(default)),
            (None, Unmapped::Refuse) => Err(RefusalReason::NoMappedGroup),
        }
    }
}

impl IdentityProvider {
    pub(crate) fn is_enforced(&self) -> bool {
        self.rules.enforcement != Enforcement::Off
    }

    /// Whether staff with this address must sign in through the provider.
    fn enforces_on(&self, domain: Option<&Domain>) -> bool {
        match self.rules.enforcement {
            Enforcement::Off => false,
            Enforcement::Domains => domain.is_some_and(|domain| self.answers_for(domain)),
            Enforcement::Tenant => true,
        }
    }
}

/// How a member of staff can sign in, given all providers of the tenant. A break-glass account of one enforcing provider is exempt
/// from all of them.
pub(crate) fn password_access(providers: &[IdentityProvider], user: UserId, email: Option<&str>) -> PasswordAccess {
    let domain = email.and_then(Domain::of_email);
    let enforcing: Vec<&IdentityProvider> = providers.iter().filter(|provider| provider.enforces_on(domain.as_ref())).collect();
    let own = enforcing.iter().find(|provider| domain.as_ref().is_some_and(|domain| provider.answers_for(domain)));
    let Some(required) = own.or(enforcing.first()) else { return PasswordAccess::Free };
    if enforcing.iter().any(|provider| provider.rules.break_glass_user_ids.contains(&user)) {
        return PasswordAccess::BreakGlass;
    }
    PasswordAccess::Refused(RequiredProvider { id: required.id, name: required.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(unmapped: Unmapped) -> Rules {
        let mapping = |group: &str, role| RoleMapping { group: group.to_owned(), role };
        let role_mappings = vec![mapping("helpdesk", Role::Technician), mapping("admins", Role::Admin)];
        Rules { role_mappings, unmapped, ..Rules::default() }
    }

    #[test]
    fn the_first_matching_mapping_decides() {
        let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let role = |names: &[&str]| mapped(Unmapped::DefaultRole).role_of(&groups(names), Role::Viewer);
        assert_eq!(role(&["admins", "helpdesk"]), Ok(Some(Role::Technician)));
        assert_eq!(role(&["admins"]), Ok(Some(Role::Admin)));
        assert_eq!(role(&["Admins"]), Ok(Some(Role::Viewer)), "groups are compared exactly");
        assert_eq!(mapped(Unmapped::Refuse).role_of(&groups(&["x"]), Role::Viewer), Err(RefusalReason::NoMappedGroup));
        assert_eq!(Rules::default().role_of(&groups(&["admins"]), Role::Viewer), Ok(None));
    }
}
