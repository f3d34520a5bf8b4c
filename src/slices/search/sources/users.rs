//! Staff and contacts: found by name and email address.

use tenantd_base::{
    access::StaffRole,
    id::{TenantId, UserId},
};
use tenantd_directory::{self as directory, User, UserStatus};
use tenantd_store::{ReadTx, StoreError};

use super::{
    super::model::{Document, Kind, RecordId, State},
    After, Scanned, Source, joined, scanned,
};

pub(super) struct Users;

/// What a person is in a result. The name of a custom role can change without the user, so it is not part of the document.
fn word(role: Option<StaffRole>) -> &'static str {
    match role {
        None => "contact",
        Some(StaffRole::BuiltIn(role)) => role.name(),
        Some(StaffRole::Custom(_)) => "staff",
    }
}

fn document(user: User) -> Document {
    let identifiers = [("email", user.email.clone()), ("external_id", user.external_id.clone())];
    Document {
        tenant_id: user.tenant_id,
        kind: Kind::User,
        id: *user.id.as_bytes(),
        shown_id: user.id.to_string(),
        subtitle: joined([user.email.as_deref(), Some(word(user.role()))]),
        texts: Vec::new(),
        identifiers: identifiers.into_iter().filter_map(|(field, value)| Some((field, value?))).collect(),
        attributes: Vec::new(),
        software: Vec::new(),
        organization_id: user.organization_id(),
        state: Some(match user.status {
            UserStatus::Active => State::Active,
            UserStatus::Disabled => State::Disabled,
        }),
        updated_at: user.updated_at,
        name: user.name,
    }
}

impl Source for Users {
    fn kind(&self) -> Kind {
        Kind::User
    }

    fn subject(&self) -> &'static str {
        "user"
    }

    fn read_id(&self, text: &str) -> Option<RecordId> {
        text.parse::<UserId>().ok().map(|id| *id.as_bytes())
    }

    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError> {
        Ok(directory::user(tx, tenant, UserId::from_bytes(id))?.map(document))
    }

    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError> {
        let after = after.map(|(tenant, id)| (tenant, UserId::from_bytes(id.to_be_bytes())));
        let records = directory::users_after(tx, after, limit)?;
        scanned(records, limit, |one| (one.tenant_id, u128::from_be_bytes(*one.id.as_bytes())), |one| Ok(Some(document(one))))
    }
}
