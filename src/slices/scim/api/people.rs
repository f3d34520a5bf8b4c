//! `/scim/v2/Users`: reads and lists people, and reads what clients send about them.

use serde_json::{Value, json};

use tenantd_base::{
    id::{TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::ScimError,
        model::{Group, MAX_MEMBERS, Person, attribute::Resource, patch, set},
        repo,
        service::{self, Account, Service},
    },
    listing::{ListRequest, MAX_SCAN, too_many},
    projection::Projection,
    protocol::{Shown, location, meta},
};

/// What a request changes.
#[derive(Clone, Debug)]
pub(super) enum PersonChange {
    Replace(Value),
    Patch(Vec<patch::Operation>),
}

impl PersonChange {
    fn apply(&self, before: &Person) -> Result<Person, ScimError> {
        match self {
            Self::Replace(body) => Person::read(body, before.active),
            Self::Patch(operations) => {
                let mut value = before.to_value();
                patch::apply(&mut value, operations)?;
                Person::read(&value, before.active)
            }
        }
    }
}

pub(super) fn create(
    service: &Service,
    tx: &mut WriteTx,
    act: &mut Act,
    person: &Person,
    (base, projection): (&str, &Projection),
) -> Result<Shown, ScimError> {
    let account = service.create_person(tx, act, person)?;
    Ok(shown(tx, &account, base, projection)?)
}

pub(super) fn update(
    service: &Service,
    tx: &mut WriteTx,
    act: &mut Act,
    (id, expected, change): (UserId, &ExpectedVersion, &PersonChange),
    (base, projection): (&str, &Projection),
) -> Result<Shown, ScimError> {
    let account = service.update_person(tx, act, id, expected, |before| change.apply(before))?;
    Ok(shown(tx, &account, base, projection)?)
}

pub(super) fn read(
    tx: &impl Read,
    tenant: TenantId,
    id: UserId,
    (base, projection): (&str, &Projection),
) -> Result<Shown, ScimError> {
    let account = service::person(tx, tenant, id)?.ok_or(ScimError::NotFound)?;
    Ok(shown(tx, &account, base, projection)?)
}

fn shown(tx: &impl Read, account: &Account, base: &str, projection: &Projection) -> Result<Shown, StoreError> {
    let (user, _) = account;
    let groups = service::groups_of(tx, user.tenant_id, user.id)?;
    Ok(shown_in(account, &groups, base, projection))
}

/// The resource of a person who is in these groups.
fn shown_in(account: &Account, groups: &[Group], base: &str, projection: &Projection) -> Shown {
    let (user, _) = account;
    let version = service::shown_version(user, groups);
    let mut value = resource(account, version, base);
    if projection.shows("groups") {
        let one = |group: &Group| {
            let id = group.id.to_string();
            json!({"value": id, "$ref": location(base, Resource::Group, &id), "display": group.display_name, "type": "direct"})
        };
        set(&mut value, "groups", groups.iter().map(one).collect::<Value>());
    }
    Shown { value: projection.apply(value), version, location: location(base, Resource::User, &user.id.to_string()) }
}

/// The resource without its groups.
fn resource(account: &Account, version: u64, base: &str) -> Value {
    let (user, profile) = account;
    let (id, mut value) = (user.id.to_string(), Person::of(user, profile.as_ref()).to_value());
    set(&mut value, "schemas", json!([Resource::User.schema()]));
    set(&mut value, "meta", meta(base, Resource::User, &id, (user.created_at, user.updated_at, version)));
    set(&mut value, "id", id);
    value
}

/// A page ends early when its people are in many groups. A client asks for the rest with `startIndex`.
pub(super) fn list(tx: &impl Read, tenant: TenantId, base: &str, request: &ListRequest) -> Result<Value, ScimError> {
    let mut found = Vec::new();
    for account in candidates(tx, tenant, request)? {
        if request.filter.is_none() || request.matches(&resource(&account, account.0.version, base)) {
            found.push(account);
        }
    }
    // The version depends on the groups too.
    let reads_groups = request.projection.shows("groups") || request.projection.shows("meta");
    let (total, mut resources, mut memberships) = (found.len(), Vec::new(), 0);
    for account in request.page(found) {
        let groups = if reads_groups { service::groups_of(tx, tenant, account.0.id)? } else { Vec::new() };
        memberships += groups.len();
        if memberships > MAX_MEMBERS && !resources.is_empty() {
            break;
        }
        resources.push(shown_in(&account, &groups, base, &request.projection).value);
    }
    Ok(request.answer(total, &resources))
}

/// The people that may match: those that an index finds, or all.
fn candidates(tx: &impl Read, tenant: TenantId, request: &ListRequest) -> Result<Vec<Account>, ScimError> {
    let equal = |name: &str| request.filter.as_ref().and_then(|filter| filter.equal_text(name));
    let ids = if let Some(id) = equal("id") {
        Some(id.parse::<UserId>().into_iter().collect())
    } else if let Some(name) = equal("username") {
        Some(service::people_named(tx, tenant, name)?)
    } else if let Some(external_id) = equal("externalid") {
        Some(repo::by_external_id(tx, tenant, external_id)?)
    } else {
        None
    };
    if let Some(ids) = ids {
        let found: Result<Vec<Option<Account>>, StoreError> =
            ids.into_iter().map(|id: UserId| service::person(tx, tenant, id)).collect();
        return Ok(found?.into_iter().flatten().collect());
    }
    let staff = directory::staff(tx, tenant, MAX_SCAN + 1)?;
    if staff.len() > MAX_SCAN {
        return Err(too_many());
    }
    let with_profile = |user: directory::User| -> Result<Account, StoreError> {
        let profile = repo::profile(tx, (tenant, user.id))?;
        Ok((user, profile))
    };
    Ok(staff.into_iter().map(with_profile).collect::<Result<Vec<Account>, StoreError>>()?)
}
