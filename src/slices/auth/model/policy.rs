//! The sign-in policy of a tenant: who needs a second factor, and whether people may have personal keys.

use serde::{Deserialize, Serialize};

use tenantd_base::{access::StaffRole, vocabulary::vocabulary};

use super::session::SignInMethod;

vocabulary! {
    /// Whether people may have personal API keys.
    #[derive(Default)]
    PersonalKeys as variants:
    #[default]
    Allowed "allowed", Forbidden "forbidden",
}

/// A tenant that has set none has the default one, with version 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInPolicy {
    /// The roles whose people need a second factor, sorted and without duplicates.
    pub required_for: Vec<StaffRole>,
    /// Whether people who sign in through an identity provider need a second factor of tenantd as well.
    pub with_sso: bool,
    pub version: u64,
    #[serde(default)]
    pub personal_keys: PersonalKeys,
}

impl SignInPolicy {
    pub fn requires(&self, role: StaffRole) -> bool {
        self.required_for.contains(&role)
    }

    /// Whether a session of this role that began with these methods lacks a second factor. Sign-in links of evaluation tenants need
    /// none. A session from a release that stored no methods began with a password, as far as is known.
    pub fn is_lacking(&self, role: StaffRole, methods: &[SignInMethod]) -> bool {
        let is_proven_elsewhere = methods.contains(&SignInMethod::Sso) && !self.with_sso;
        let is_exempt = methods.contains(&SignInMethod::Link) || is_proven_elsewhere;
        self.requires(role) && !is_exempt && !methods.iter().any(|method| method.is_second_factor())
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::access::Role;

    use super::*;

    #[test]
    fn a_session_lacks_a_factor_that_its_role_needs() {
        use SignInMethod::{Link, Password, RecoveryCode, Sso, Totp};
        let policy = |with_sso| SignInPolicy {
            required_for: vec![Role::Admin.into()],
            with_sso,
            version: 1,
            personal_keys: PersonalKeys::Allowed,
        };
        for (methods, lacks, lacks_with_sso) in [
            (&[Password] as &[_], true, true),
            (&[], true, true),
            (&[Sso], false, true),
            (&[Link], false, false),
            (&[Password, Totp], false, false),
            (&[Password, RecoveryCode], false, false),
            (&[Sso, Totp], false, false),
        ] {
            assert_eq!(policy(false).is_lacking(Role::Admin.into(), methods), lacks, "{methods:?}");
            assert_eq!(policy(true).is_lacking(Role::Admin.into(), methods), lacks_with_sso, "{methods:?}");
            assert!(!policy(true).is_lacking(Role::Viewer.into(), methods));
        }
        assert!(!SignInPolicy::default().is_lacking(Role::Admin.into(), &[Password]));
    }
}
