//! What clients send to create, change and delete records of the directory, and what becomes of several at once.

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
    /// The name.
    name: Text<200>,
    /// The id in the system that the organization comes from. No other organization can have it.
    external_id: Option<Text<200>>,
}

impl From<CreateOrganization> for model::NewOrganization {
    fn from(body: CreateOrganization) -> Self {
        Self { name: body.name.into_string(), external_id: body.external_id.mirror() }
    }
}

/// What changes in an organization.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct OrganizationPatch {
    /// The name.
    name: Option<Text<200>>,
    /// The id in the system that the organization comes from.
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
    /// The name.
    name: Text<200>,
    /// The e-mail address. No other contact or user can have it.
    email: Option<Text<254>>,
    /// The organization that the contact belongs to. A key that is restricted to organizations must give it.
    organization_id: Option<OrganizationId>,
    /// The id in the system that the contact comes from. No other contact can have it.
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

/// What changes in a contact.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ContactPatch {
    /// The name.
    name: Option<Text<200>>,
    /// The e-mail address.
    email: Change<Text<254>>,
    /// The organization that the contact belongs to.
    organization_id: Change<OrganizationId>,
    /// Whether the contact is still active.
    status: Option<Word<UserStatus>>,
    /// The id in the system that the contact comes from.
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

/// The agent on a device. Its status follows from `last_seen_at`.
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
    /// The name.
    name: Text<200>,
    /// The organization that the device belongs to.
    organization_id: OrganizationId,
    /// The id in the system that the device comes from. No other device can have it.
    external_id: Option<Text<200>>,
    /// The kind of device. `other` when absent.
    class: Option<Word<DeviceClass>>,
    /// Where the device is in its life. `active` when absent.
    lifecycle: Option<Word<Lifecycle>>,
    /// The place where the device is.
    site: Option<Text<200>>,
    /// The person who uses the device.
    owner_id: Option<UserId>,
    /// Labels of your own.
    tags: Option<List<Text<50>, MAX_TAGS>>,
    /// Fields of your own.
    custom_fields: Option<CustomFields<false>>,
    /// The agent on the device.
    agent: Option<CreateAgent>,
    /// What the device is made of.
    hardware: Option<Hardware>,
    /// The operating system.
    os: Option<OperatingSystem>,
    /// How the device is reached.
    network: Option<Network>,
    /// How the device is protected.
    security: Option<Security>,
    /// Updates of the operating system.
    patch: Option<Patch>,
    /// The installed packages.
    software: Option<List<Software, MAX_SOFTWARE>>,
    /// The warranty.
    warranty: Option<Warranty>,
    /// How the device is doing. `unknown` when absent.
    health: Option<Word<Health>>,
    /// When this was found out. The time of the request when absent.
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

/// A change of the agent on a device.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct AgentPatch {
    /// The version of the agent.
    version: Change<Text<100>>,
    /// When the agent was last seen.
    last_seen_at: Change<Timestamp>,
}

/// What changes in a device. `backup` is not among it: backup jobs decide whether a device is protected.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct DevicePatch {
    /// The name.
    name: Option<Text<200>>,
    /// The organization that the device belongs to.
    organization_id: Option<OrganizationId>,
    /// The id in the system that the device comes from.
    external_id: Change<Text<200>>,
    /// The kind of device.
    class: Option<Word<DeviceClass>>,
    /// Where the device is in its life.
    lifecycle: Option<Word<Lifecycle>>,
    /// The place where the device is.
    site: Change<Text<200>>,
    /// The person who uses the device.
    owner_id: Change<UserId>,
    /// Labels of your own. The list is replaced.
    tags: Option<List<Text<50>, MAX_TAGS>>,
    /// Fields of your own. They change one by one, and `null` removes one.
    custom_fields: Change<CustomFields<true>>,
    /// The agent on the device.
    agent: Change<AgentPatch>,
    /// What the device is made of.
    hardware: Change<HardwareChange>,
    /// The operating system.
    os: Change<OperatingSystemChange>,
    /// How the device is reached.
    network: Change<NetworkChange>,
    /// How the device is protected.
    security: Change<SecurityChange>,
    /// Updates of the operating system.
    patch: Change<PatchChange>,
    /// The installed packages. The list is replaced.
    software: Option<List<Software, MAX_SOFTWARE>>,
    /// The warranty.
    warranty: Change<WarrantyChange>,
    /// How the device is doing.
    health: Option<Word<Health>>,
    /// When this was found out.
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

/// The status that a request for one record would have had, with the record, if there is one, or why it failed.
pub(super) type Outcome<T> = (u16, Result<Option<T>, Problem>);

/// What became of several records, of whichever kind.
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
        /// Several records to create.
        #[derive(Clone, Debug, Object)]
        #[oai(skip_serializing_if_is_none)]
        pub(super) struct $create_many {
            /// The records.
            #[oai(validator(min_items = 1, max_items = 100))]
            pub(super) $plural: Vec<$create>,
            /// Creates all or none, which is the default; else each by itself.
            pub(super) atomic: Option<bool>,
        }

        impl Many for $create_many {
            const MEMBER: &'static str = stringify!($plural);
        }

        /// A change of a record, as a JSON merge patch (RFC 7396). What is absent stays as it is, `null` clears, lists are replaced.
        #[derive(Clone, Debug, Object)]
        #[oai(skip_serializing_if_is_none, example)]
        pub(super) struct $update {
            /// The record, unless the path or the query names it.
            pub(super) id: Option<$id>,
            #[oai(flatten)]
            pub(super) patch: $patch,
        }

        /// One change of several records: of all or of none.
        #[derive(Clone, Debug, Object)]
        pub(super) struct $update_many {
            /// The records, each once.
            #[oai(validator(min_items = 1, max_items = 100, unique_items))]
            pub(super) ids: Vec<$id>,
            /// The change.
            pub(super) patch: $patch,
        }

        impl Many for $update_many {
            const MEMBER: &'static str = "ids";
        }

        /// The record to delete.
        #[derive(Clone, Debug, Object)]
        #[oai(skip_serializing_if_is_none, example)]
        pub(super) struct $remove {
            /// The record, unless the query names it.
            pub(super) id: Option<$id>,
        }

        /// Several records to delete: all or none.
        #[derive(Clone, Debug, Object)]
        pub(super) struct $remove_many {
            /// The records, each once.
            #[oai(validator(min_items = 1, max_items = 100, unique_items))]
            pub(super) ids: Vec<$id>,
        }

        impl Many for $remove_many {
            const MEMBER: &'static str = "ids";
        }

        /// What became of one of several records.
        #[skip_serializing_none]
        #[derive(Debug, Object, Serialize)]
        #[oai(skip_serializing_if_is_none)]
        pub(super) struct $result {
            /// The place in the request.
            index: usize,
            /// The status that a request for this record alone would have had.
            status: u16,
            /// The record. Absent when it was deleted, or on a failure.
            $member: Option<$record>,
            /// Why it failed: `code`, `detail` and, for input, `errors`.
            error: Option<ItemProblem>,
        }

        /// What became of several records.
        #[derive(Debug, Object, Serialize)]
        pub(super) struct $results {
            /// A result for each record, in order.
            results: Vec<$result>,
            /// How many succeeded.
            succeeded: usize,
            /// How many failed.
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
