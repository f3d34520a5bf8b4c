//! `/api/directory/devices`: the collection and its records.

use poem::Request;
use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, TenantId},
    versions::ExpectedVersion,
};
use tenantd_http::{
    bulk::{Removed, refuse_one},
    idempotency::IdempotencyKey,
    input::{Filter, Lenient, OptionalBody, target},
    need::{Allowed, DirectoryRead, DirectoryWrite},
    outgoing::{Exported, ListOrStream, Streams},
    page::Page,
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Empty, Found, Settled},
    wire::OneOrMany,
};
use tenantd_store::{Read, StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::DirectoryError,
        listing::{DeviceQuery, Labels},
        model,
        service::{Directory, Subject, device_labels, find_device},
    },
    Area,
    bodies::{CreateDevice, CreateDevices, DeleteDevice, DeleteDevices, DeviceResults, UpdateDevice, UpdateDevices},
    device::Device,
    device_filters::QueryContext,
    lists::{ListDevices, ListView, answer},
    resource::{RecordService, Resource},
};

/// A page of devices.
#[derive(Debug, Object, Serialize)]
pub(super) struct DeviceList {
    /// The devices on this page.
    data: Vec<Device>,
    /// The position of this page in the list.
    page: Page,
}

impl Exported for DeviceList {
    const CSV_EXAMPLE: &'static str = "id,name\r\ndev_01k9z7w3v5e8g9m2n4p6r8t0x1,ACME-PC-7\r\n";
    const LINES_EXAMPLE: &'static str = "{\"name\":\"ACME-PC-7\"}\n{\"_end\":true,\"count\":1}\n";
}

impl ListView for DeviceQuery {
    type Shown = Device;
    type List = DeviceList;

    const NAME: &'static str = "devices";
    const FILES: [&'static str; 2] = ["devices.csv", "devices.ndjson"];
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "external_id",
        "name",
        "class",
        "lifecycle",
        "organization.id",
        "organization.name",
        "site",
        "owner.id",
        "owner.name",
        "tags",
        "custom_fields",
        "agent.status",
        "agent.version",
        "agent.last_seen_at",
        "health",
        "hardware.manufacturer",
        "hardware.model",
        "hardware.serial",
        "hardware.cpu.model",
        "hardware.cpu.cores",
        "hardware.memory_bytes",
        "hardware.disks.model",
        "hardware.disks.bytes",
        "hardware.disks.kind",
        "hardware.volumes.name",
        "hardware.volumes.bytes",
        "hardware.volumes.free_bytes",
        "hardware.volumes.encrypted",
        "os.family",
        "os.name",
        "os.version",
        "os.build",
        "os.reboot_required",
        "os.eol_at",
        "os.last_boot_at",
        "network.hostname",
        "network.primary_ip",
        "network.public_ip",
        "network.interfaces.name",
        "network.interfaces.mac",
        "network.interfaces.ips",
        "security.antivirus",
        "security.firewall",
        "security.disk_encryption",
        "patch.status",
        "patch.missing_critical",
        "patch.missing_other",
        "patch.last_scan_at",
        "software.name",
        "software.version",
        "software.publisher",
        "warranty.status",
        "warranty.ends_at",
        "backup.eligible",
        "backup.protected",
        "backup.last_success_at",
        "collected_at",
        "created_at",
        "updated_at",
        "version",
    ];

    fn tenant_id(&self) -> TenantId {
        self.tenant_id
    }

    fn show(&self, tx: &impl Read, labels: &mut Labels, (device, _): (model::Device, usize)) -> Result<Device, StoreError> {
        let organization = labels.organization(tx, device.organization_id)?;
        let owner = match device.owner_id {
            Some(id) => labels.person(tx, id)?,
            None => None,
        };
        let status = self.status(&device);
        Ok(Device::new(device, organization, owner, status))
    }

    fn list(data: Vec<Device>, page: Page) -> DeviceList {
        DeviceList { data, page }
    }
}

pub(super) struct Devices;

impl Resource for Devices {
    type Id = DeviceId;
    type New = model::NewDevice;
    type Change = model::DeviceChange;
    type Record = model::Device;
    type Shown = Device;
    type Results = DeviceResults;

    const PATH: &'static str = "/api/directory/devices";
    const MEMBER: &'static str = "devices";

    fn create(
        directory: &Directory,
        tx: &mut WriteTx,
        act: &mut Act,
        new: &model::NewDevice,
    ) -> Result<model::Device, DirectoryError> {
        let collected_at = new.collected_at.unwrap_or(act.now);
        directory.create_device(tx, act, model::Device { collected_at, ..new.device.clone() })
    }

    fn update(
        directory: &Directory,
        tx: &mut WriteTx,
        act: &mut Act,
        id: DeviceId,
        expected: &ExpectedVersion,
        change: &model::DeviceChange,
    ) -> Result<model::Device, DirectoryError> {
        directory.update_device(tx, act, id, expected, change)
    }

    fn subject(id: DeviceId) -> Subject {
        Subject::Device(id)
    }

    fn name(record: &model::Device) -> (DeviceId, u64) {
        (record.id, record.version)
    }

    fn show(directory: &Directory, tx: &impl Read, now: Timestamp, record: model::Device) -> Result<Device, DirectoryError> {
        let (organization, owner) = device_labels(tx, &record)?;
        let status = directory.agent_status(record.last_seen_at, now);
        Ok(Device::new(record, organization, owner, status))
    }
}

#[derive(Debug, Object)]
struct DeviceTarget {
    /// The ID of the device. Required unless the body has it.
    id: Option<DeviceId>,
}

#[derive(Debug, Object)]
struct RemoveDeviceTarget {
    /// The ID of the device. Required unless the body has it.
    id: Option<DeviceId>,
    /// The ID of another device that replaces this one in open tickets.
    reassign_to: Option<DeviceId>,
}

#[derive(Debug, Object)]
struct ReassignDevice {
    /// The ID of another device that replaces this one in open tickets.
    reassign_to: Option<DeviceId>,
}

type Answer = OneOrMany<Device, DeviceResults>;

pub(crate) struct DevicesApi {
    pub(crate) records: RecordService,
    pub(crate) exports: Streams,
}

#[OpenApi(prefix_path = "/api/directory/devices", tag = "Area::Directory")]
impl DevicesApi {
    /// List devices
    ///
    /// Returns the devices that match all filters. `format=csv` and `format=ndjson`, or an `Accept` header with only `text/csv` or
    /// `application/x-ndjson`, stream all matches. The last line of `ndjson` is `{"_end":true,"count":…}`. A stream does not allow
    /// `limit`, `cursor` and `include_total`.
    #[oai(path = "/", method = "get", operation_id = "list_devices")]
    async fn list_devices(
        &self,
        auth: Allowed<DirectoryRead>,
        request: &Request,
        query: Filter<ListDevices>,
    ) -> Result<ListOrStream<DeviceList>, Problem> {
        let (filters, options) = query.0.parts();
        let (tenant_id, reach) = (auth.principal.tenant_id, auth.principal.reach.clone());
        let query_context = QueryContext { tenant_id, reach, now: auth.context.now, directory: self.records.directory };
        let wanted = filters.query(query_context)?;
        answer(&self.records.store, &self.exports, &auth, request, wanted, options).await
    }

    /// Create devices
    ///
    /// Creates one device, or up to 100 in `devices`. A bulk request creates all devices or none, unless `atomic` is false, and can
    /// read and write up to 4 MiB of records. `backup` is read-only.
    #[oai(path = "/", method = "post", operation_id = "create_devices")]
    async fn create_devices(
        &self,
        auth: Allowed<DirectoryWrite>,
        idempotency_key: IdempotencyKey,
        body: Lenient<OneOrMany<CreateDevice, CreateDevices>>,
    ) -> Result<Settled<Answer>, Problem> {
        match body.0 {
            OneOrMany::One(one) => self.records.create_one::<Devices, _>(&auth, idempotency_key, one.into()).await,
            OneOrMany::Many(many) => {
                let news = many.devices.into_iter().map(Into::into).collect();
                self.records.create_many::<Devices, _>(&auth, idempotency_key, news, many.atomic.unwrap_or(true)).await
            }
        }
    }

    /// Change devices
    ///
    /// Applies a merge patch (RFC 7396) to the device in `?id=` or `id`. With `ids` and `patch`, changes up to 100 devices, all or
    /// none. A bulk request does not allow `If-Match`.
    #[oai(path = "/", method = "patch", operation_id = "update_devices")]
    async fn update_devices(
        &self,
        auth: Allowed<DirectoryWrite>,
        query: Filter<DeviceTarget>,
        if_match: IfMatch,
        body: Lenient<OneOrMany<UpdateDevice, UpdateDevices>>,
    ) -> Result<Changed<Answer>, Problem> {
        match body.0 {
            OneOrMany::One(one) => {
                let id = target(query.0.id, one.id)?;
                self.records.update_one::<Devices, _>(&auth, id, if_match, one.patch.into()).await
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                self.records.update_many::<Devices, _>(&auth, many.ids, many.patch.into()).await
            }
        }
    }

    /// Delete devices
    ///
    /// Deletes the device in `?id=` or `id`. With `ids`, deletes up to 100 devices, all or none. If other records refer to a
    /// device, the response is `409 in_use` with their counts in `dependents`. `reassign_to` first moves these records to another
    /// device, up to 10,000 per request. This requires the write scopes of these records. Restore points also count while the
    /// device is in use: set its `lifecycle` to `retired` first. Backup settings and restore points cannot move; they are deleted
    /// with the device.
    #[oai(path = "/", method = "delete", operation_id = "delete_devices")]
    async fn delete_devices(
        &self,
        auth: Allowed<DirectoryWrite>,
        query: Filter<RemoveDeviceTarget>,
        if_match: IfMatch,
        body: OptionalBody<OneOrMany<DeleteDevice, DeleteDevices>>,
    ) -> Result<Removed<DeviceResults>, Problem> {
        match body.0 {
            OneOrMany::One(one) => {
                let id = target(query.0.id, one.id)?;
                self.records.remove_one::<Devices>(&auth, id, if_match, query.0.reassign_to).await?;
                Ok(Removed::one())
            }
            OneOrMany::Many(many) => {
                refuse_one(query.0.id.is_some(), if_match.is_given())?;
                super::refuse_reassignment(query.0.reassign_to.is_some())?;
                self.records.remove_many::<Devices>(&auth, many.ids).await
            }
        }
    }
}

pub(crate) struct DeviceApi {
    pub(crate) records: RecordService,
}

#[OpenApi(prefix_path = "/api/directory/devices", tag = "Area::Directory")]
impl DeviceApi {
    /// Read a device
    ///
    /// Returns the complete device with its `ETag`. A change of `backup` does not change the version of the device.
    #[oai(path = "/:id", method = "get", operation_id = "read_device")]
    async fn read_device(
        &self,
        auth: Allowed<DirectoryRead>,
        id: Path<DeviceId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<Device>, Problem> {
        let found = self.records.store.read(|tx| {
            let device = find_device(tx, auth.principal.tenant_id, &auth.principal.reach, id.0)?;
            Devices::show(&self.records.directory, tx, auth.context.now, device)
        })?;
        let version = found.version;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&found, version) })
    }

    /// Change a device by its path
    ///
    /// Changes the device in the path. Works like `PATCH` with `?id=`.
    #[oai(path = "/:id", method = "patch", operation_id = "update_device_by_id")]
    async fn update_device_by_id(
        &self,
        auth: Allowed<DirectoryWrite>,
        id: Path<DeviceId>,
        if_match: IfMatch,
        body: Lenient<UpdateDevice>,
    ) -> Result<Changed<Device>, Problem> {
        let id = target(Some(id.0), body.0.id)?;
        self.records.update_one::<Devices, _>(&auth, id, if_match, body.0.patch.into()).await
    }

    /// Delete a device by its path
    ///
    /// Deletes the device in the path. Works like `DELETE` with `?id=`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_device_by_id")]
    async fn delete_device_by_id(
        &self,
        auth: Allowed<DirectoryWrite>,
        id: Path<DeviceId>,
        query: Filter<ReassignDevice>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        self.records.remove_one::<Devices>(&auth, id.0, if_match, query.0.reassign_to).await?;
        Ok(Empty::new())
    }
}
