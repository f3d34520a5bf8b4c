//! `/scim/v2/Groups`: reads and lists groups, and reads what clients send about them.

use serde_json::{Value, json};

use tenantd_base::id::{GroupId, TenantId, UserId};
use tenantd_store::{Read, StoreError};

use super::{
    super::{
        error::{Reason, ScimError},
        model::{
            Group, GroupEdit, MAX_MEMBERS,
            attribute::{Meaning, Resource, meaning, shown as shown_name, without_schema},
            patch, person, set,
        },
        repo,
    },
    listing::ListRequest,
    projection::Projection,
    protocol::{Shown, location, meta},
};

/// A group that a client sends.
#[derive(Clone, Debug)]
pub(super) struct GroupBody {
    pub(super) display_name: String,
    pub(super) external_id: Option<String>,
    /// `None` if the client says nothing about the members.
    pub(super) members: Option<Vec<UserId>>,
}

impl GroupBody {
    pub(super) fn read(value: &Value) -> Result<Self, ScimError> {
        let object = value.as_object().ok_or_else(|| ScimError::new(Reason::InvalidSyntax, "The body is not an object."))?;
        let (mut display_name, mut external_id, mut members) = (None, None, None);
        for (name, value) in object {
            let name = without_schema(Resource::Group, name);
            match meaning(name) {
                Meaning::Ignored | Meaning::ReadOnly => {}
                Meaning::Writable(_) if value.is_null() => {}
                Meaning::Writable("displayName") => display_name = Some(person::text(name, value)?),
                Meaning::Writable("externalId") => external_id = person::optional(name, value)?,
                Meaning::Writable("members") => members = Some(patch::members(value)?),
                Meaning::Writable(_) | Meaning::Unknown => {
                    let detail = format!("A Group has no attribute {}.", shown_name(name));
                    return Err(ScimError::new(Reason::InvalidSyntax, detail));
                }
            }
        }
        let display_name = display_name.ok_or_else(|| ScimError::value("displayName is required."))?;
        Ok(Self { display_name, external_id, members })
    }

    /// The changes that make a group equal to this one. Members that the client does not mention stay.
    pub(super) fn edits(self) -> Vec<GroupEdit> {
        let named = [GroupEdit::DisplayName(self.display_name), GroupEdit::ExternalId(self.external_id)];
        named.into_iter().chain(self.members.map(GroupEdit::Replace)).collect()
    }
}

pub(super) fn read(
    tx: &impl Read,
    tenant: TenantId,
    id: GroupId,
    (base, projection): (&str, &Projection),
) -> Result<Shown, ScimError> {
    let group = repo::group(tx, (tenant, id))?.ok_or(ScimError::NotFound)?;
    Ok(shown(tx, &group, base, projection)?)
}

pub(super) fn shown(tx: &impl Read, group: &Group, base: &str, projection: &Projection) -> Result<Shown, StoreError> {
    let mut value = resource(group, base);
    if projection.shows("members") {
        let one = |user: UserId| {
            let id = user.to_string();
            json!({"value": id, "$ref": location(base, Resource::User, &id), "type": Resource::User.name()})
        };
        let members = repo::members(tx, (group.tenant_id, group.id))?.into_iter().map(one);
        set(&mut value, "members", members.collect::<Value>());
    }
    let (version, id) = (group.version, group.id.to_string());
    Ok(Shown { value: projection.apply(value), version, location: location(base, Resource::Group, &id) })
}

/// The resource without its members.
fn resource(group: &Group, base: &str) -> Value {
    let id = group.id.to_string();
    let mut value = json!({
        "schemas": [Resource::Group.schema()],
        "displayName": group.display_name,
        "meta": meta(base, Resource::Group, &id, (group.created_at, group.updated_at, group.version)),
    });
    if let Some(external_id) = &group.external_id {
        set(&mut value, "externalId", external_id.as_str());
    }
    set(&mut value, "id", id);
    value
}

/// A page ends early when its groups have many members. A client asks for the rest with `startIndex`.
pub(super) fn list(tx: &impl Read, tenant: TenantId, base: &str, request: &ListRequest) -> Result<Value, ScimError> {
    let named = request.filter.as_ref().and_then(|filter| filter.equal_text("displayname"));
    let mut found = match named {
        Some(name) => repo::group_named(tx, tenant, name)?.into_iter().collect(),
        None => repo::groups(tx, tenant)?,
    };
    found.retain(|group| request.filter.is_none() || request.matches(&resource(group, base)));
    let (total, mut resources, mut members) = (found.len(), Vec::new(), 0);
    for group in request.page(found) {
        members += group.member_count as usize;
        if request.projection.shows("members") && members > MAX_MEMBERS && !resources.is_empty() {
            break;
        }
        resources.push(shown(tx, &group, base, &request.projection)?.value);
    }
    Ok(request.answer(total, &resources))
}
