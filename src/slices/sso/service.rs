//! The use cases of identity providers. Every method runs one use case in the caller's transaction: check, write, append the event.
//!
//! **Invariant:** a provider can sign anyone in, so it counts as an administrator. The caller needs the rights of the strongest
//! account to create or extend a provider, but not to reduce or delete it.

use serde_json::json;

use tenantd_auth::{Manager, Users};
use tenantd_base::{
    access::{Grants, Role, Scope, TenantKind},
    fault::Fault,
    id::IdentityProviderId,
    secrets::{Sealed, Sealer, Secret},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    enforcement,
    error::{self, SsoError},
    model::{Claim, Domain, IdentityProvider, MAX_DOMAINS, MAX_PROVIDERS, Proof, ProvenBy, Rules, RulesChange, secret_target},
    repo::{self, ProviderKey, sealed_place},
};

pub(super) static CREATED: EventKind = EventKind {
    name: "identity_provider.created",
    summary: "An identity provider was created.",
    subject: "identity_provider",
    schema: "IdentityProvider",
    reads: Grants::of(&[Scope::UsersRead]),
    has_changes: false,
};
pub(super) static UPDATED: EventKind =
    EventKind { name: "identity_provider.updated", summary: "An identity provider was changed.", has_changes: true, ..CREATED };
pub(super) static DOMAIN_PROVEN: EventKind = EventKind {
    name: "identity_provider.domain_proven",
    summary: "A domain of an identity provider was proven by a record in DNS.",
    has_changes: true,
    ..CREATED
};
pub(super) static DOMAIN_APPROVED: EventKind = EventKind {
    name: "identity_provider.domain_approved",
    summary: "The operator approved a domain for an identity provider.",
    has_changes: true,
    ..CREATED
};
pub(super) static DELETED: EventKind =
    EventKind { name: "identity_provider.deleted", summary: "An identity provider was deleted.", ..CREATED };

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) sealer: Sealer,
    pub(super) users: Users,
}

/// The provider to create.
#[derive(Clone, Debug)]
pub(super) struct NewProvider {
    pub(super) name: String,
    pub(super) issuer: String,
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) domains: Vec<Domain>,
    pub(super) enabled: bool,
    pub(super) default_role: Role,
    pub(super) auto_provision: bool,
    pub(super) scopes: Vec<String>,
    pub(super) rules: RulesChange,
    /// Fields with an invalid form or a refused target. The service reports them together with its own findings.
    pub(super) faults: Vec<Fault>,
}

/// The changes to a provider.
#[derive(Clone, Debug)]
pub(super) struct ProviderChange {
    pub(super) name: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<Secret>,
    pub(super) domains: Option<Vec<Domain>>,
    pub(super) enabled: Option<bool>,
    pub(super) default_role: Option<Role>,
    pub(super) auto_provision: Option<bool>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) rules: RulesChange,
}

impl Service {
    pub(super) fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        new: &NewProvider,
    ) -> Result<IdentityProvider, SsoError> {
        let manager = &manager.now(tx, act)?;
        manager.check_every_account()?;
        let mut faults = new.faults.clone();
        faults.extend(bad_role(manager, new.default_role));
        let rules = new.rules.apply(&Rules { own_redirect_uri: true, ..Rules::default() });
        faults.extend(bad_mappings(manager, &rules));
        if !faults.is_empty() {
            return Err(SsoError::Invalid(faults));
        }
        if repo::list(tx, act.tenant_id)?.len() >= MAX_PROVIDERS {
            return Err(SsoError::LimitReached { most: MAX_PROVIDERS });
        }
        let id = IdentityProviderId::new(act.now, &mut act.entropy);
        check_claims(tx, (act.tenant_id, id), &new.domains)?;
        let provider = IdentityProvider {
            id,
            tenant_id: act.tenant_id,
            name: new.name.clone(),
            issuer: new.issuer.clone(),
            client_id: new.client_id.clone(),
            client_secret: self.seal(act, id, &new.issuer, &new.client_secret)?,
            domains: claims(act, manager.tenant_kind(), &[], &new.domains),
            enabled: new.enabled,
            default_role: new.default_role,
            auto_provision: new.auto_provision,
            scopes: new.scopes.clone(),
            rules,
            created_at: act.now,
            updated_at: act.now,
            version: 1,
        };
        repo::put(tx, &provider)?;
        invalid(enforcement::faults(tx, &self.users, act.guard_time(), None, &provider)?)?;
        announce(tx, act, &CREATED, &provider, None)?;
        Ok(provider)
    }

    fn seal(&self, act: &mut Act, id: IdentityProviderId, issuer: &str, secret: &Secret) -> Result<Sealed, SsoError> {
        let key = (act.tenant_id, id);
        Ok(self.sealer.seal(sealed_place(&key, issuer), secret, &mut act.entropy)?)
    }

    pub(super) fn update(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        id: IdentityProviderId,
        expected: &ExpectedVersion,
        change: &ProviderChange,
    ) -> Result<IdentityProvider, SsoError> {
        let manager = &manager.now(tx, act)?;
        let before = find(tx, act, id)?;
        check_rights(manager, &before, change)?;
        expected.check(before.version)?;
        let mut after = before.clone();
        set(&mut after.name, change.name.as_ref());
        set(&mut after.issuer, change.issuer.as_ref());
        set(&mut after.client_id, change.client_id.as_ref());
        set(&mut after.enabled, change.enabled.as_ref());
        set(&mut after.auto_provision, change.auto_provision.as_ref());
        set(&mut after.scopes, change.scopes.as_ref());
        after.rules = change.rules.apply(&before.rules);
        invalid(bad_mappings(manager, &after.rules))?;
        if let Some(role) = change.default_role {
            if let Some(fault) = bad_role(manager, role) {
                return Err(SsoError::Invalid(vec![fault]));
            }
            after.default_role = role;
        }
        if let Some(domains) = &change.domains {
            let new: Vec<Domain> = domains.iter().filter(|domain| before.claim(domain).is_none()).cloned().collect();
            check_claims(tx, (act.tenant_id, id), &new)?;
            after.domains = claims(act, manager.tenant_kind(), &before.domains, domains);
        }
        match &change.client_secret {
            Some(secret) => after.client_secret = self.seal(act, id, &after.issuer, secret)?,
            None if secret_target(&after.issuer) == secret_target(&before.issuer) => {}
            None => return Err(SsoError::Invalid(vec![error::secret_needed()])),
        }
        if after == before {
            return Ok(before);
        }
        enforcement::check_same(tx, &self.users, act.guard_time(), &before, &after)?;
        after.updated_at = act.now;
        after.version += 1;
        if after.issuer != before.issuer || after.client_id != before.client_id {
            // What worked before says nothing about the changed provider.
            repo::history::remove(tx, (act.tenant_id, id))?;
        }
        repo::put(tx, &after)?;
        invalid(enforcement::faults(tx, &self.users, act.guard_time(), Some(&before), &after)?)?;
        announce_update(tx, act, &before, &after)?;
        if after.rules != before.rules || after.domains != before.domains {
            enforcement::take_effect(tx, act, &self.users, &after)?;
        }
        Ok(after)
    }

    /// Proves a claim with the TXT records of the domain.
    pub(super) fn prove_domain(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        id: IdentityProviderId,
        domain: &Domain,
        texts: &[String],
    ) -> Result<IdentityProvider, SsoError> {
        let provider = find(tx, act, id)?;
        manager.now(tx, act)?.check_every_account()?;
        let claim = provider.claim(domain).ok_or(SsoError::NotFound)?;
        if claim.proof.is_some() {
            return Ok(provider);
        }
        if !claim.is_proven_by(texts) {
            return Err(SsoError::DomainNotProven { name: claim.record_name(), value: claim.record_value() });
        }
        check_available(tx, (act.tenant_id, id), domain)?;
        self.record_proof(tx, act, &provider, domain, ProvenBy::Dns)
    }

    /// Approves a domain on behalf of the operator: for the named provider, else for the provider that claims the domain, else for
    /// the tenant's only provider. Staff of other tenants do not prevent it, so the tenant itself may be unable to claim the
    /// domain.
    pub(super) fn approve_domain(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        domain: &Domain,
        named: Option<IdentityProviderId>,
    ) -> Result<IdentityProvider, SsoError> {
        let mut providers = repo::list(tx, act.tenant_id)?;
        let place = match named {
            Some(id) => Some(providers.iter().position(|provider| provider.id == id).ok_or(SsoError::NotFound)?),
            None => providers.iter().position(|provider| provider.claim(domain).is_some()),
        };
        let provider = match place {
            Some(place) => providers.swap_remove(place),
            None => providers.pop().filter(|_| providers.is_empty()).ok_or(SsoError::DomainNotClaimed)?,
        };
        if provider.answers_for(domain) {
            return Ok(provider);
        }
        check_owner(tx, (act.tenant_id, provider.id), domain)?;
        if provider.claim(domain).is_none() && provider.domains.len() >= MAX_DOMAINS {
            return Err(SsoError::TooManyDomains { most: MAX_DOMAINS });
        }
        self.record_proof(tx, act, &provider, domain, ProvenBy::Operator)
    }

    fn record_proof(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        before: &IdentityProvider,
        domain: &Domain,
        by: ProvenBy,
    ) -> Result<IdentityProvider, SsoError> {
        let mut after = before.clone();
        if after.claim(domain).is_none() {
            after.domains.push(Claim::open(domain.clone(), &mut act.entropy));
        }
        for claim in after.domains.iter_mut().filter(|claim| claim.domain == *domain) {
            claim.proof = Some(Proof { by, at: act.now });
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        let kind = if by == ProvenBy::Operator { &DOMAIN_APPROVED } else { &DOMAIN_PROVEN };
        announce(tx, act, kind, &after, Some(changes(before, &after)))?;
        enforcement::take_effect(tx, act, &self.users, &after)?;
        Ok(after)
    }

    pub(super) fn delete(
        tx: &mut WriteTx,
        act: &mut Act,
        id: IdentityProviderId,
        expected: &ExpectedVersion,
    ) -> Result<(), SsoError> {
        let provider = find(tx, act, id)?;
        expected.check(provider.version)?;
        if provider.is_enforced() {
            return Err(SsoError::Enforced);
        }
        repo::remove(tx, (act.tenant_id, id))?;
        announce(tx, act, &DELETED, &provider, None)
    }
}

fn announce(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    provider: &IdentityProvider,
    changes: Option<Changes>,
) -> Result<(), SsoError> {
    let shown = provider.describe(())?;
    let draft = Draft::new(kind, provider.id.to_string(), provider.version, &shown).with_changes(changes.as_ref());
    events::append(tx, act, &draft)?;
    Ok(())
}

/// Appends the event of a change.
pub(super) fn announce_update(
    tx: &mut WriteTx,
    act: &mut Act,
    before: &IdentityProvider,
    after: &IdentityProvider,
) -> Result<(), SsoError> {
    announce(tx, act, &UPDATED, after, Some(changes(before, after)))
}

fn invalid(faults: Vec<Fault>) -> Result<(), SsoError> {
    if faults.is_empty() { Ok(()) } else { Err(SsoError::Invalid(faults)) }
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

fn find(tx: &WriteTx, act: &Act, id: IdentityProviderId) -> Result<IdentityProvider, SsoError> {
    repo::get(tx, (act.tenant_id, id))?.ok_or(SsoError::NotFound)
}

/// Checks that the manager may make this change. It precedes all other checks, so that a refusal reveals nothing else.
pub(super) fn check_rights(manager: &Manager, before: &IdentityProvider, change: &ProviderChange) -> Result<(), SsoError> {
    if widens(before, change) { Ok(manager.check_every_account()?) } else { Ok(()) }
}

/// Whether a change could give anyone new access or more rights. Names do not count.
fn widens(before: &IdentityProvider, change: &ProviderChange) -> bool {
    let ProviderChange { name: _, issuer, client_id, client_secret, domains, enabled, default_role, auto_provision, scopes, rules } =
        change;
    issuer.as_ref().is_some_and(|issuer| *issuer != before.issuer)
        || client_id.as_ref().is_some_and(|client_id| *client_id != before.client_id)
        || client_secret.is_some()
        || domains.iter().flatten().any(|domain| before.claim(domain).is_none())
        || enabled.is_some_and(|enabled| enabled && !before.enabled)
        || default_role.is_some_and(|role| !before.default_role.grants().covers(role.grants()))
        || auto_provision.is_some_and(|provisions| provisions && !before.auto_provision)
        || scopes.as_ref().is_some_and(|scopes| *scopes != before.scopes)
        || rules.apply(&before.rules) != before.rules
}

/// The fault of a default role that does not fit the tenant.
fn bad_role(manager: &Manager, role: Role) -> Option<Fault> {
    manager.check_place(role.into()).err().map(|_| error::bad_default_role())
}

/// The faults of roles in mappings that do not fit the tenant.
fn bad_mappings(manager: &Manager, rules: &Rules) -> Vec<Fault> {
    let odd = rules.role_mappings.iter().enumerate().filter(|(_, mapping)| manager.check_place(mapping.role.into()).is_err());
    odd.map(|(place, _)| error::bad_mapped_role(place)).collect()
}

/// The claims to these domains. Existing claims keep their proofs.
fn claims(act: &mut Act, kind: TenantKind, before: &[Claim], domains: &[Domain]) -> Vec<Claim> {
    let known = |domain: &Domain| before.iter().find(|claim| claim.domain == *domain).cloned();
    let claim = |domain: &Domain| known(domain).unwrap_or_else(|| Claim::new(domain.clone(), kind, act.now, &mut act.entropy));
    domains.iter().map(claim).collect()
}

/// Checks that a provider may claim these domains. Within a tenant, a domain has one claim. Claims of other tenants count only once
/// they are proven.
fn check_claims(tx: &WriteTx, provider: ProviderKey, domains: &[Domain]) -> Result<(), SsoError> {
    let others: Vec<IdentityProvider> = repo::list(tx, provider.0)?.into_iter().filter(|other| other.id != provider.1).collect();
    for domain in domains {
        if others.iter().any(|other| other.claim(domain).is_some()) {
            return Err(taken(domain));
        }
        check_available(tx, provider, domain)?;
    }
    Ok(())
}

/// Checks that no other provider has proven the domain and no other tenant has staff with such addresses. The error does not reveal
/// which.
fn check_available(tx: &WriteTx, provider: ProviderKey, domain: &Domain) -> Result<(), SsoError> {
    check_owner(tx, provider, domain)?;
    if directory::has_staff_elsewhere(tx, provider.0, domain.as_str())? { Err(taken(domain)) } else { Ok(()) }
}

fn check_owner(tx: &WriteTx, provider: ProviderKey, domain: &Domain) -> Result<(), SsoError> {
    if repo::owner(tx, domain)?.is_some_and(|owner| owner != provider) { Err(taken(domain)) } else { Ok(()) }
}

fn taken(domain: &Domain) -> SsoError {
    SsoError::DomainTaken(domain.as_str().to_owned())
}

fn proven(provider: &IdentityProvider) -> Vec<&str> {
    provider.domains.iter().filter(|claim| claim.proof.is_some()).map(|claim| claim.domain.as_str()).collect()
}

/// The differences, field by field. For the secret they contain only that it changed.
fn changes(before: &IdentityProvider, after: &IdentityProvider) -> Changes {
    let fields = |provider: &IdentityProvider| {
        json!({
            "name": provider.name,
            "issuer": provider.issuer,
            "client_id": provider.client_id,
            "domains": provider.domains.iter().map(|claim| claim.domain.as_str()).collect::<Vec<_>>(),
            "proven_domains": proven(provider),
            "enabled": provider.enabled,
            "default_role": provider.default_role,
            "auto_provision": provider.auto_provision,
            "scopes": provider.scopes,
            "enforcement": provider.rules.enforcement,
            "break_glass_user_ids": provider.rules.break_glass_user_ids,
            "groups_claim": provider.rules.groups_claim,
            "role_mappings": provider.rules.role_mappings,
            "unmapped": provider.rules.unmapped,
            "max_age_seconds": provider.rules.max_age_seconds,
            "required_acr": provider.rules.required_acr,
            "own_redirect_uri": provider.rules.own_redirect_uri,
        })
    };
    let changes = Changes::between(&fields(before), &fields(after));
    if before.client_secret == after.client_secret { changes } else { changes.with("client_secret", "hidden", "hidden") }
}
