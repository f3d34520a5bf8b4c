//! What is done with identity providers. Every method is one use case in the caller's transaction: check, write, append the event.
//!
//! **Invariant:** a provider can sign anyone in, so it counts as an administrator: whoever creates or changes one covers the strongest
//! account. Reducing or ending one is free.

use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    error::{Fault, SsoError},
    model::{Domain, IdentityProvider, MAX_PROVIDERS, secret_target},
    repo::{self, sealed_place},
};
use crate::{
    kernel::{
        access::{Grants, Role, Scope},
        events::{self, Act, Draft, EventKind},
        http::precondition::IfMatch,
        id::IdentityProviderId,
        secrets::{Sealed, Sealer, Secret},
        store::WriteTx,
    },
    slices::auth::Manager,
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
pub(super) static DELETED: EventKind =
    EventKind { name: "identity_provider.deleted", summary: "An identity provider was deleted.", ..CREATED };

/// How a provider is shown in an event.
pub(super) type Describe = fn(&IdentityProvider) -> Result<Box<RawValue>, serde_json::Error>;

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) sealer: Sealer,
    pub(super) describe: Describe,
}

/// A provider that is to be created.
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
}

/// What changes in a provider.
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
}

impl Service {
    pub(super) fn create(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        manager: &Manager,
        new: &NewProvider,
    ) -> Result<IdentityProvider, SsoError> {
        manager.check_every_account()?;
        check_role(manager, new.default_role)?;
        if repo::list(tx, act.tenant_id)?.len() >= MAX_PROVIDERS {
            return Err(SsoError::LimitReached { most: MAX_PROVIDERS });
        }
        let id = IdentityProviderId::new(act.now, &mut act.entropy);
        check_domains(tx, id, &new.domains)?;
        let provider = IdentityProvider {
            id,
            tenant_id: act.tenant_id,
            name: new.name.clone(),
            issuer: new.issuer.clone(),
            client_id: new.client_id.clone(),
            client_secret: self.seal(act, id, &new.issuer, &new.client_secret)?,
            domains: new.domains.clone(),
            enabled: new.enabled,
            default_role: new.default_role,
            auto_provision: new.auto_provision,
            scopes: new.scopes.clone(),
            created_at: act.now,
            updated_at: act.now,
            version: 1,
        };
        repo::put(tx, &provider)?;
        self.announce(tx, act, &CREATED, &provider, None)?;
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
        if_match: &IfMatch,
        change: &ProviderChange,
    ) -> Result<IdentityProvider, SsoError> {
        let before = find(tx, act, id)?;
        if_match.check(before.version)?;
        let mut after = before.clone();
        set(&mut after.name, change.name.as_ref());
        set(&mut after.issuer, change.issuer.as_ref());
        set(&mut after.client_id, change.client_id.as_ref());
        set(&mut after.enabled, change.enabled.as_ref());
        set(&mut after.auto_provision, change.auto_provision.as_ref());
        set(&mut after.scopes, change.scopes.as_ref());
        if let Some(role) = change.default_role {
            check_role(manager, role)?;
            after.default_role = role;
        }
        if let Some(domains) = &change.domains {
            check_domains(tx, id, domains)?;
            after.domains.clone_from(domains);
        }
        match &change.client_secret {
            Some(secret) => after.client_secret = self.seal(act, id, &after.issuer, secret)?,
            None if secret_target(&after.issuer) == secret_target(&before.issuer) => {}
            None => return Err(SsoError::Invalid(vec![Fault::SecretNeeded])),
        }
        if after == before {
            return Ok(before);
        }
        if !reduces(&before, &after) {
            manager.check_every_account()?;
        }
        after.updated_at = act.now;
        after.version += 1;
        repo::put(tx, &after)?;
        self.announce(tx, act, &UPDATED, &after, Some(changes(&before, &after)))?;
        Ok(after)
    }

    pub(super) fn delete(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        id: IdentityProviderId,
        if_match: &IfMatch,
    ) -> Result<(), SsoError> {
        let provider = find(tx, act, id)?;
        if_match.check(provider.version)?;
        repo::remove(tx, (act.tenant_id, id))?;
        self.announce(tx, act, &DELETED, &provider, None)
    }

    fn announce(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: &'static EventKind,
        provider: &IdentityProvider,
        changes: Option<Value>,
    ) -> Result<(), SsoError> {
        let shown = (self.describe)(provider)?;
        let changes = changes.map(|changes| to_raw_value(&changes)).transpose()?;
        let draft = Draft::new(kind, provider.id.to_string(), provider.version, &shown).with_changes(changes.as_deref());
        events::append(tx, act, &draft)?;
        Ok(())
    }
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

fn find(tx: &WriteTx, act: &Act, id: IdentityProviderId) -> Result<IdentityProvider, SsoError> {
    repo::get(tx, (act.tenant_id, id))?.ok_or(SsoError::NotFound)
}

/// Whether a change lets nobody in who could not get in before, and gives nobody more. Names do not count.
fn reduces(before: &IdentityProvider, after: &IdentityProvider) -> bool {
    let same = IdentityProvider {
        name: before.name.clone(),
        domains: before.domains.clone(),
        enabled: before.enabled,
        default_role: before.default_role,
        auto_provision: before.auto_provision,
        ..after.clone()
    };
    same == *before
        && before.enabled >= after.enabled
        && before.auto_provision >= after.auto_provision
        && before.default_role.grants().covers(after.default_role.grants())
        && after.domains.iter().all(|domain| before.domains.contains(domain))
}

fn check_role(manager: &Manager, role: Role) -> Result<(), SsoError> {
    manager.check_place(role).map_err(|_| SsoError::Invalid(vec![Fault::DefaultRole]))
}

fn check_domains(tx: &WriteTx, id: IdentityProviderId, domains: &[Domain]) -> Result<(), SsoError> {
    for domain in domains {
        if repo::owner(tx, domain)?.is_some_and(|(_, owner)| owner != id) {
            return Err(SsoError::DomainTaken(domain.as_str().to_owned()));
        }
    }
    Ok(())
}

/// What a change changed, field by field. Of the secret only that it is another one.
fn changes(before: &IdentityProvider, after: &IdentityProvider) -> Value {
    let fields = |provider: &IdentityProvider| {
        [
            ("name", json!(provider.name)),
            ("issuer", json!(provider.issuer)),
            ("client_id", json!(provider.client_id)),
            ("domains", json!(provider.domains)),
            ("enabled", json!(provider.enabled)),
            ("default_role", json!(provider.default_role)),
            ("auto_provision", json!(provider.auto_provision)),
            ("scopes", json!(provider.scopes)),
        ]
    };
    let pairs = fields(before).into_iter().zip(fields(after)).filter(|((_, from), (_, to))| from != to);
    let mut changed: Map<String, Value> =
        pairs.map(|((name, from), (_, to))| (name.to_owned(), json!({"from": from, "to": to}))).collect();
    if before.client_secret != after.client_secret {
        changed.insert("client_secret".to_owned(), json!({"from": "hidden", "to": "hidden"}));
    }
    Value::Object(changed)
}
