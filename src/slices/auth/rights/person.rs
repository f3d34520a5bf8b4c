//! The rights of a user: what the role gives, and what remains of it at their next sign-in or in an open session.

use tenantd_base::access::{Grants, StaffRole};
use tenantd_directory::{self as directory, User, role_grants, staff_authority};
use tenantd_store::{ReadTx, StoreError};

use super::{
    super::{
        holders::{Block, of_account},
        model::{Session, SignInMethod},
        repo::{self, factors::factors_of},
    },
    Closed, Explained, Explainer, Place, ReasonCode, words,
};

/// What is known about the sign-ins of a user.
struct SignIns {
    /// Whether an open session lacks nothing.
    has_open: bool,
    /// Whether the next sign-in lacks a second factor that the policy requires.
    lacks_factor: bool,
}

impl Explainer {
    pub(super) fn person_with(
        &self,
        tx: &ReadTx,
        place: &Place,
        closed: Option<Closed>,
        user: &User,
    ) -> Result<Explained, StoreError> {
        let mut explained = Explained::new();
        let Some(role) = user.role() else {
            explained.block(Grants::all(), Block::Contact);
            return Ok(explained);
        };
        let given = role_grants(tx, place.tenant, role, place.kind)?;
        name_role(tx, place, role, given, &mut explained)?;
        let within = staff_authority(tx, user, place.kind)?.map_or(Grants::NONE, |authority| authority.scopes());
        explained.takes(given.without(within), ReasonCode::TenantWide, words::TENANT_WIDE_USER);
        let account = match of_account(tx, user, place.kind)? {
            Ok(account) => account,
            Err(block) => {
                explained.block(within, block);
                return Ok(explained);
            }
        };
        let (next, sign_ins) = (self.rights.of_person(tx, user, place.kind, place.now)?, self.sign_ins(tx, place, user, role)?);
        let mut missing = Vec::new();
        missing.extend(next.as_ref().err().map(|block| words::of_block(*block)));
        missing.extend(sign_ins.lacks_factor.then_some((ReasonCode::SecondFactorMissing, words::FACTOR_MISSING)));
        if missing.is_empty() || sign_ins.has_open {
            for (code, text) in missing {
                explained.limit(code, format!("{text} A session that is still open works until it ends."));
            }
            Self::settle(tx, place, &mut explained, &next.unwrap_or(account), closed)?;
        } else {
            for (code, text) in missing {
                explained.takes(within, code, text);
            }
        }
        Ok(explained)
    }

    /// Looks at the open sessions of a user, and at what the next one would begin with.
    fn sign_ins(&self, tx: &ReadTx, place: &Place, user: &User, role: StaffRole) -> Result<SignIns, StoreError> {
        let key = (user.tenant_id, user.id);
        let policy = repo::factors::policy_of(tx, place.tenant)?;
        let sessions = repo::sessions_of(tx, key, None, usize::MAX)?;
        let is_open = |session: &Session| !self.sessions.is_over(session, session.last_seen_at, place.guard_now);
        let has_open = sessions.iter().any(|(session, _)| is_open(session) && !policy.is_lacking(role, &session.methods));
        // People who are linked to a provider sign in there.
        let first = if user.sso.is_some() { SignInMethod::Sso } else { SignInMethod::Password };
        let lacks_factor = policy.is_lacking(role, &[first]) && factors_of(tx, key)?.is_empty();
        Ok(SignIns { has_open, lacks_factor })
    }
}

/// Adds what the role gives and what it does not.
fn name_role(tx: &ReadTx, place: &Place, role: StaffRole, given: Grants, explained: &mut Explained) -> Result<(), StoreError> {
    let beyond = Grants::all().without(given);
    match role {
        StaffRole::BuiltIn(role) => {
            explained.gives(given, ReasonCode::BuiltInRole, format!("The built-in role {} includes it.", role.name()));
            explained.takes(beyond, ReasonCode::NotInRole, format!("The built-in role {} does not include it.", role.name()));
        }
        StaffRole::Custom(id) => match directory::role(tx, place.tenant, id)? {
            Some(role) => {
                explained.gives(given, ReasonCode::CustomRole, format!("The role {} of your tenant includes it.", role.name));
                explained.takes(beyond, ReasonCode::NotInRole, format!("The role {} does not include it.", role.name));
            }
            None => explained.takes(beyond, ReasonCode::RoleMissing, format!("The role {id} no longer exists.")),
        },
    }
    Ok(())
}
