//! The request bodies that create, change and delete directory records, and the results of bulk requests.

use poem_openapi::Object;
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{DeviceId, OrganizationId, UserId},
};
use tenantd_http::{
    bounded::{List, Text},
    bulk,
    problem::Problem,
    wire::{ItemProblem, Many, Word},
};

use super::{
    super::model::{self, DeviceClass, Health, Lifecycle, Reference, Standing, UserStatus},
    custom_fields::CustomFields,
    device::{
        Device, Hardware, HardwareChange, MAX_SOFTWARE, MAX_TAGS, Network, NetworkChange, OperatingSystem, OperatingSystemChange,
        Patch, PatchChange, Security, SecurityChange, Software, Warranty, WarrantyChange,
    },
    mirror::Mirror,
    wire::{Contact, Organization},
};

/// An organization to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateOrganization {
    /// The name of the organization.
    name: Text<200>,
    /// The ID of the organization in its source system. Unique in the tenant.
    external_id: Option<Text<200>>,
}

impl From<CreateOrganization> for model::NewOrganization {
    fn from(body: CreateOrganization) -> Self {
        Self { name: body.name.into_string(), external_id: body.external_id.mirror() }
    }
}

/// A change to an organization.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct OrganizationPatch {
    /// The name of the organization.
    name: Option<Text<200>>,
    /// The ID of the organization in its source system. Unique in the tenant.
    external_id: Change<Text<200>>,
}

impl From<OrganizationPatch> for model::OrganizationChange {
    fn from(patch: OrganizationPatch) -> Self {
        Self { name: patch.name.mirror(), external_id: patch.external_id.mirror() }
    }
}

/// A contact to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateContact {
    /// The full name of the contact.
    name: Text<200>,
    /// The email address. Unique among the contacts and users of the tenant.
    email: Option<Text<254>>,
    /// The ID of the contact's organization. Required for a key that is restricted to organizations.
    organization_id: Option<OrganizationId>,
    /// The ID of the contact in its source system. Unique in the tenant.
    external_id: Option<Text<200>>,
}

impl From<CreateContact> for model::NewUser {
    fn from(body: CreateContact) -> Self {
        Self {
            external_id: body.external_id.mirror(),
            email: body.email.mirror(),
            name: body.name.into_string(),
            standing: Standing::Contact { organization_id: body.organization_id },
        }
    }
}

/// A change to a contact.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ContactPatch {
    /// The full name of the contact.
    name: Option<Text<200>>,
    /// The email address. Unique among the contacts and users of the tenant.
    email: Change<Text<254>>,
    /// The ID of the contact's organization.
    organization_id: Change<OrganizationId>,
    /// The status: `active` or `disabled`.
    status: Option<Word<UserStatus>>,
    /// The ID of the contact in its source system. Unique in the tenant.
    external_id: Change<Text<200>>,
}

impl From<ContactPatch> for model::ContactChange {
    fn from(patch: ContactPatch) -> Self {
        Self {
            name: patch.name.mirror(),
            email: patch.email.mirror(),
            organization_id: patch.organization_id,
            status: patch.status.mirror(),
            external_id: patch.external_id.mirror(),
        }
    }
}

/// The agent on a device. tenantd derives its status from `last_seen_at`.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct CreateAgent {
    /// The version of the agent.
    version: Option<Text<100>>,
    /// When the agent was last seen.
    last_seen_at: Option<Timestamp>,
}

/// A device to create.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateDevice {
    /// The name of the device.
    name: Text<200>,
    /// The ID of the organization to which the device belongs.
    organization_id: OrganizationId,
    /// The ID of the device in its source system. Unique in the tenant.
    external_id: Option<Text<200>>,
    /// The kind of device. Defaults to `other`.
    class: Option<Word<DeviceClass>>,
    /// The stage of the device's life cycle. Defaults to `active`.
    lifecycle: Option<Word<Lifecycle>>,
    /// The location of the device.
    site: Option<Text<200>>,
    /// The ID of the person who uses the device.
    owner_id: Option<UserId>,
    /// Labels that you choose.
    tags: Option<List<Text<50>, MAX_TAGS>>,
    /// Fields that you define, by name.
    custom_fields: Option<CustomFields<false>>,
    /// The agent on the device.
    agent: Option<CreateAgent>,
    /// The hardware of the device.
    hardware: Option<Hardware>,
    /// The operating system.
    os: Option<OperatingSystem>,
    /// The network configuration.
    network: Option<Network>,
    /// The security software and settings.
    security: Option<Security>,
    /// The state of operating system updates.
    patch: Option<Patch>,
    /// The installed software packages.
    software: Option<List<Software, MAX_SOFTWARE>>,
    /// The warranty of the device.
    warranty: Option<Warranty>,
    /// The health of the device. Defaults to `unknown`.
    health: Option<Word<Health>>,
    /// When this data was collected. Defaults to the time of the request.
    collected_at: Option<Timestamp>,
}

impl From<CreateDevice> for model::NewDevice {
    fn from(body: CreateDevice) -> Self {
        let (agent_version, last_seen_at) =
            body.agent.map(|agent| (agent.version.mirror(), agent.last_seen_at)).unwrap_or_default();
        let details = model::Details {
            tags: body.tags.mirror().unwrap_or_default(),
            custom_fields: body.custom_fields.map(CustomFields::into_values).unwrap_or_default(),
            hardware: body.hardware.mirror(),
            os: body.os.mirror(),
            network: body.network.mirror(),
            security: body.security.mirror(),
            patch: body.patch.mirror(),
            software: body.software.mirror().unwrap_or_default(),
            warranty: body.warranty.mirror(),
        };
        let device = model::Device {
            name: body.name.into_string(),
            external_id: body.external_id.mirror(),
            class: body.class.mirror().unwrap_or_default(),
            lifecycle: body.lifecycle.mirror().unwrap_or_default(),
            organization_id: body.organization_id,
            site: body.site.mirror(),
            owner_id: body.owner_id,
            agent_version,
            last_seen_at,
            health: body.health.mirror().unwrap_or_default(),
            details,
            ..model::Device::default()
        };
        Self { device, collected_at: body.collected_at }
    }
}

/// A change to the agent on a device.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AgentPatch {
    /// The version of the agent.
    version: Change<Text<100>>,
    /// When the agent was last seen.
    last_seen_at: Change<Timestamp>,
}

/// A change to a device. `backup` is read-only: backup jobs determine whether a device is protected.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct DevicePatch {
    /// The name of the device.
    name: Option<Text<200>>,
    /// The ID of the organization to which the device belongs.
    organization_id: Option<OrganizationId>,
    /// The ID of the device in its source system. Unique in the tenant.
    external_id: Change<Text<200>>,
    /// The kind of device.
    class: Option<Word<DeviceClass>>,
    /// The stage of the device's life cycle.
    lifecycle: Option<Word<Lifecycle>>,
    /// The location of the device.
    site: Change<Text<200>>,
    /// The ID of the person who uses the device.
    owner_id: Change<UserId>,
    /// Labels that you choose. Replaces the whole list.
    tags: Option<List<Text<50>, MAX_TAGS>>,
    /// Fields that you define, by name. Only the named fields change; `null` removes a field.
    custom_fields: Change<CustomFields<true>>,
    /// The agent on the device.
    agent: Change<AgentPatch>,
    /// The hardware of the device.
    hardware: Change<HardwareChange>,
    /// The operating system.
    os: Change<OperatingSystemChange>,
    /// The network configuration.
    network: Change<NetworkChange>,
    /// The security software and settings.
    security: Change<SecurityChange>,
    /// The state of operating system updates.
    patch: Change<PatchChange>,
    /// The installed software packages. Replaces the whole list.
    software: Option<List<Software, MAX_SOFTWARE>>,
    /// The warranty of the device.
    warranty: Change<WarrantyChange>,
    /// The health of the device.
    health: Option<Word<Health>>,
    /// When this data was collected.
    collected_at: Option<Timestamp>,
}

impl From<DevicePatch> for model::DeviceChange {
    fn from(patch: DevicePatch) -> Self {
        let agent = |agent: AgentPatch| model::AgentChange { version: agent.version.mirror(), last_seen_at: agent.last_seen_at };
        Self {
            external_id: patch.external_id.mirror(),
            name: patch.name.mirror(),
            class: patch.class.mirror(),
            lifecycle: patch.lifecycle.mirror(),
            organization: patch.organization_id.map(Reference::Id),
            site: patch.site.mirror(),
            owner: patch.owner_id.map(Reference::Id),
            agent: patch.agent.map(agent),
            health: patch.health.mirror(),
            collected_at: patch.collected_at,
            tags: patch.tags.mirror(),
            custom_fields: patch.custom_fields.map(|fields| fields.0),
            hardware: patch.hardware.mirror(),
            os: patch.os.mirror(),
            network: patch.network.mirror(),
            security: patch.security.mirror(),
            patch: patch.patch.mirror(),
            software: patch.software.mirror(),
            warranty: patch.warranty.mirror(),
        }
    }
}

/// The status code that a request for this record alone would return, with the record or the error.
pub(super) type Outcome<T> = (u16, Result<Option<T>, Problem>);

/// The results of a bulk request, for any kind of record.
pub(super) trait Results: Serialize {
    type Record;

    fn new(outcomes: Vec<Outcome<Self::Record>>) -> Self;
}

macro_rules! bodies {
    ($(
        $member:ident $plural:ident: $record:ident by $id:ident,
        $create:ident $create_many:ident, $update:ident $patch:ident $update_many:ident, $remove:ident $remove_many:ident,
        $result:ident $results:ident;
    )*) => {$(
        /// Several records to create in one request.
        #[derive(Clone, Debug, Object)]
        #[oai(skip_serializing_if_is_none)]
        pub(super) struct $create_many {
            /// The records to create.
            #[oai(validator(min_items = 1, max_items = 100))]
            pub(super) $plural: Vec<$create>,
            /// Whether to create all records or none. Defaults to true. If false, each record succeeds or fails on its own.
            pub(super) atomic: Option<bool>,
        }

        impl Many for $create_many {
            const MEMBER: &'static str = stringify!($plural);
        }

        /// A change to a record, as a JSON merge patch (RFC 7396). Absent fields keep their values, `null` clears a field, and
        /// lists are replaced.
        #[derive(Clone, Debug, Object)]
        #[oai(skip_serializing_if_is_none, example)]
        pub(super) struct $update {
            /// The ID of the record. Required unless the path or the query has it.
            pub(super) id: Option<$id>,
            #[oai(flatten)]
            pub(super) patch: $patch,
        }

        /// One change to several records. It applies to all of them or to none.
        #[derive(Clone, Debug, Object)]
        pub(super) struct $update_many {
            /// The IDs of the records, without duplicates.
            #[oai(validator(min_items = 1, max_items = 100, unique_items))]
            pub(super) ids: Vec<$id>,
            /// The change to apply to each record.
            pub(super) patch: $patch,
        }

        impl Many for $update_many {
            const MEMBER: &'static str = "ids";
        }

        /// The record to delete.
        #[derive(Clone, Debug, Object)]
        #[oai(skip_serializing_if_is_none, example)]
        pub(super) struct $remove {
            /// The ID of the record. Required unless the query has it.
            pub(super) id: Option<$id>,
        }

        /// Several records to delete. All are deleted or none.
        #[derive(Clone, Debug, Object)]
        pub(super) struct $remove_many {
            /// The IDs of the records, without duplicates.
            #[oai(validator(min_items = 1, max_items = 100, unique_items))]
            pub(super) ids: Vec<$id>,
        }

        impl Many for $remove_many {
            const MEMBER: &'static str = "ids";
        }

        /// The result for one record of a bulk request.
        #[skip_serializing_none]
        #[derive(Debug, Object, Serialize)]
        #[oai(skip_serializing_if_is_none)]
        pub(super) struct $result {
            /// The index of the record in the request, starting at 0.
            index: usize,
            /// The HTTP status that a request for this record alone would return.
            status: u16,
            /// The record. Absent if it was deleted or the operation failed.
            $member: Option<$record>,
            /// The error, with `code`, `detail` and, for invalid input, `errors`. Absent on success.
            error: Option<ItemProblem>,
        }

        /// The results of a bulk request.
        #[derive(Debug, Object, Serialize)]
        pub(super) struct $results {
            /// One result for each record, in the order of the request.
            results: Vec<$result>,
            /// The number of records that succeeded.
            succeeded: usize,
            /// The number of records that failed.
            failed: usize,
        }

        impl Results for $results {
            type Record = $record;

            fn new(outcomes: Vec<Outcome<$record>>) -> Self {
                let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
                let result = |(index, (status, outcome)): (usize, Outcome<$record>)| match outcome {
                    Ok(record) => $result { index, status, $member: record, error: None },
                    Err(problem) => {
                        let (status, error) = bulk::failure(index, &problem);
                        $result { index, status, $member: None, error: Some(ItemProblem(error)) }
                    }
                };
                let results: Vec<$result> = outcomes.into_iter().enumerate().map(result).collect();
                Self { succeeded: results.len() - failed, failed, results }
            }
        }
    )*};
}

bodies! {
    organization organizations: Organization by OrganizationId,
    CreateOrganization CreateOrganizations, UpdateOrganization OrganizationPatch UpdateOrganizations,
    DeleteOrganization DeleteOrganizations, OrganizationResult OrganizationResults;

    contact contacts: Contact by UserId,
    CreateContact CreateContacts, UpdateContact ContactPatch UpdateContacts,
    DeleteContact DeleteContacts, ContactResult ContactResults;

    device devices: Device by DeviceId,
    CreateDevice CreateDevices, UpdateDevice DevicePatch UpdateDevices,
    DeleteDevice DeleteDevices, DeviceResult DeviceResults;
}
