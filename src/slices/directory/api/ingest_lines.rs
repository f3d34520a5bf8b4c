//! The lines of an import, parsed directly into their types. There are too many lines to validate each against the OpenAPI document
//! first; that document is generated from the same types.

use std::borrow::Cow;

use poem_openapi::{
    Enum, Object,
    registry::{MetaSchema, MetaSchemaRef},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_with::skip_serializing_none;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    fault::pointer_part,
    id::{OrganizationId, UserId},
    vocabulary::nearest,
};
use tenantd_http::{
    bounded::{List, Text},
    problem::{MAX_MESSAGE, MAX_PLACE, clipped},
    wire::{Word, document_type},
};

use super::{
    super::model::{self, DeviceClass, Health, JobStatus, Lifecycle, RecordKind, Reference, SentLine},
    custom_fields::CustomFields,
    device::{
        HardwareChange, MAX_SOFTWARE, MAX_TAGS, NetworkChange, OperatingSystemChange, PatchChange, SecurityChange, Software,
        WarrantyChange,
    },
    mirror::Mirror,
};

const KINDS: [&str; 4] = ["organization", "user", "device", "backup_job"];

#[derive(Clone, Copy, Debug, Enum, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum OrganizationLineKind {
    Organization,
}

#[derive(Clone, Copy, Debug, Enum, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum UserLineKind {
    User,
}

#[derive(Clone, Copy, Debug, Enum, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum DeviceLineKind {
    Device,
}

/// An organization. Absent fields keep their values. `name` is required for a new organization.
#[derive(Debug, Object, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OrganizationLine {
    #[allow(dead_code, reason = "it has led here already")]
    kind: OrganizationLineKind,
    /// The ID of the organization in its source system. tenantd identifies the organization by it.
    external_id: Text<200>,
    /// Whether to remove the organization. It must not have devices or contacts. Defaults to false.
    #[oai(default)]
    #[serde(default)]
    deleted: bool,
    name: Option<Text<200>>,
}

/// A contact at an organization. Absent fields keep their values, and `null` clears a field. `name` is required for a new contact.
#[derive(Debug, Object, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserLine {
    #[allow(dead_code, reason = "it has led here already")]
    kind: UserLineKind,
    /// The ID of the contact in its source system. tenantd identifies the contact by it.
    external_id: Text<200>,
    /// Whether to remove the contact. Defaults to false.
    #[oai(default)]
    #[serde(default)]
    deleted: bool,
    name: Option<Text<200>>,
    #[serde(default)]
    email: Change<Text<254>>,
    /// The ID of the contact's organization. Use this or `organization_external_id`.
    #[serde(default)]
    organization_id: Change<OrganizationId>,
    /// The ID of the organization in its source system.
    #[serde(default)]
    organization_external_id: Change<Text<200>>,
}

/// The agent on a device.
#[derive(Debug, Object, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentLine {
    /// The version of the agent.
    #[serde(default)]
    version: Change<Text<100>>,
    /// When the agent was last seen.
    #[serde(default)]
    last_seen_at: Change<Timestamp>,
}

impl Mirror<model::AgentChange> for AgentLine {
    fn mirror(self) -> model::AgentChange {
        model::AgentChange { version: self.version.mirror(), last_seen_at: self.last_seen_at.mirror() }
    }
}

/// A device. Absent fields keep their values, including the fields of sections and of `custom_fields`. `null` clears a field, and
/// lists are replaced. A new device requires `name` and an organization. `backup` is not allowed, because `backup_job` lines
/// determine the backup state.
#[derive(Debug, Object, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceLine {
    #[allow(dead_code, reason = "it has led here already")]
    kind: DeviceLineKind,
    /// The ID of the device in its source system. tenantd identifies the device by it.
    external_id: Text<200>,
    /// Whether to remove the device. Defaults to false.
    #[oai(default)]
    #[serde(default)]
    deleted: bool,
    name: Option<Text<200>>,
    /// The kind of device. Defaults to `other` for a new device.
    class: Option<Word<DeviceClass>>,
    /// The stage of the device's life cycle. Defaults to `active` for a new device.
    lifecycle: Option<Word<Lifecycle>>,
    /// The ID of the device's organization. Use this or `organization_external_id`.
    organization_id: Option<OrganizationId>,
    /// The ID of the organization in its source system.
    organization_external_id: Option<Text<200>>,
    /// The location of the device.
    #[serde(default)]
    site: Change<Text<200>>,
    /// The ID of the user who owns the device.
    #[serde(default)]
    owner_id: Change<UserId>,
    /// The ID of the owner in the source system.
    #[serde(default)]
    owner_external_id: Change<Text<200>>,
    /// Labels that you choose. Replaces the whole list.
    tags: Option<List<Text<50>, MAX_TAGS>>,
    /// Fields that you define, by name: at most 64, with names of at most 100 characters and values of at most 1,000.
    #[serde(default)]
    custom_fields: Change<CustomFields<true>>,
    #[serde(default)]
    agent: Change<AgentLine>,
    #[serde(default)]
    hardware: Change<HardwareChange>,
    #[serde(default)]
    os: Change<OperatingSystemChange>,
    #[serde(default)]
    network: Change<NetworkChange>,
    #[serde(default)]
    security: Change<SecurityChange>,
    #[serde(default)]
    patch: Change<PatchChange>,
    /// The installed software packages. Replaces the whole list.
    software: Option<List<Software, MAX_SOFTWARE>>,
    #[serde(default)]
    warranty: Change<WarrantyChange>,
    #[oai(skip)]
    #[serde(default, deserialize_with = "refuse_backup")]
    #[allow(dead_code, reason = "it cannot be given")]
    backup: (),
    /// The health of the device. Defaults to `unknown` for a new device.
    health: Option<Word<Health>>,
    /// When this data was collected. For a new device, defaults to its creation time.
    collected_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Enum, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
enum BackupJobLineKind {
    BackupJob,
}

/// A backup job of a device. tenantd identifies the job by its device, its `external_id` and the UTC day of `started_at`. A job
/// that has ended cannot change, except that `verified` can be added.
#[derive(Debug, Object, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupJobLine {
    #[allow(dead_code, reason = "it has led here already")]
    kind: BackupJobLineKind,
    /// The ID of the job in the backup system.
    external_id: Text<200>,
    /// The device: its ID (`dev_…`) or its `external_id`.
    device: Text<200>,
    /// When the job started.
    started_at: Timestamp,
    /// When the job ended. For a job that has ended, defaults to `started_at`.
    ended_at: Option<Timestamp>,
    /// The status of the job.
    status: Word<JobStatus>,
    /// The size of the restore point in bytes.
    bytes: Option<u64>,
    /// The name of the target that stores the restore point. Defaults to the device's first target.
    target: Option<Text<100>>,
    /// Whether a test restore from this job succeeded. Once true, it stays true.
    verified: Option<bool>,
}

/// One of the line types above, selected by `kind`.
#[derive(Debug)]
pub(super) struct Line;

document_type!(
    [] Line,
    "IngestLine",
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        one_of: vec![
            OrganizationLine::schema_ref(),
            UserLine::schema_ref(),
            DeviceLine::schema_ref(),
            BackupJobLine::schema_ref(),
        ],
        ..MetaSchema::ANY
    })),
    |registry| {
        OrganizationLine::register(registry);
        UserLine::register(registry);
        DeviceLine::register(registry);
        BackupJobLine::register(registry);
    }
);

/// Why a line failed.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Object, Serialize)]
pub(super) struct LineError {
    /// A stable error code for programs.
    pub(super) code: String,
    /// A description of the error.
    pub(super) message: String,
    /// A JSON pointer to the invalid field. Absent if the error concerns the whole line.
    pub(super) pointer: Option<String>,
}

impl LineError {
    pub(super) fn new(code: &str, message: impl Into<String>, pointer: Option<&str>) -> Self {
        let (message, pointer) = (clipped(&message.into(), MAX_MESSAGE), pointer.map(|text| clipped(text, MAX_PLACE)));
        Self { code: code.to_owned(), message, pointer }
    }
}

/// The kind of a line, which determines how to parse the rest.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
}

/// Parses one line.
pub(super) fn parse(bytes: &[u8]) -> Result<SentLine, LineError> {
    let kind: Kind<'_> = serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { "validation_failed" } else { "malformed_json" };
        LineError::new(code, error_text(&error), None)
    })?;
    match kind.kind.as_deref() {
        Some("organization") => Ok(SentLine::Record(read::<OrganizationLine>(bytes)?.into_model())),
        Some("user") => read::<UserLine>(bytes)?.into_model().map(SentLine::Record),
        Some("device") => read::<DeviceLine>(bytes)?.into_model().map(SentLine::Record),
        Some("backup_job") => Ok(SentLine::BackupJob(read::<BackupJobLine>(bytes)?.into_model())),
        Some(other) => {
            let meant = nearest(other, KINDS).map(|kind| format!("; did you mean {kind}?")).unwrap_or_default();
            let message = format!("{other} is not a kind of record; use one of {}{meant}", KINDS.join(", "));
            Err(LineError::new("validation_failed", message, Some("/kind")))
        }
        None => {
            let message = format!("kind is required: one of {}", KINDS.join(", "));
            Err(LineError::new("validation_failed", message, Some("/kind")))
        }
    }
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, LineError> {
    serde_json::from_slice(bytes).map_err(|error| {
        if !error.is_data() {
            return LineError::new("malformed_json", error_text(&error), None);
        }
        // Finding the position of the error is slower, so only invalid lines pay for it.
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Ok(_) => LineError::new("validation_failed", error_text(&error), None),
            Err(error) => {
                let message = error_text(error.inner());
                let pointer = format!("{}{}", pointer(error.path()), named_field(&message));
                LineError::new("validation_failed", message, Some(&pointer))
            }
        }
    })
}

/// serde reports a missing or duplicate field for its object. This adds the field to the pointer.
fn named_field(message: &str) -> String {
    let rest = ["missing field `", "duplicate field `"].iter().find_map(|beginning| message.strip_prefix(beginning));
    rest.and_then(|rest| rest.split('`').next()).map(|name| format!("/{name}")).unwrap_or_default()
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let segment = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", pointer_part(key)),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(segment).collect()
}

/// Removes the position in the text: in a short line, the pointer helps more.
fn error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

fn both(field: &str) -> LineError {
    let message = format!("use {field}_id or {field}_external_id, not both");
    LineError::new("validation_failed", message, Some(&format!("/{field}_external_id")))
}

/// A reference by ID or by external ID. Only one of them is allowed.
fn reference<T>(field: &str, id: Change<T>, external: Change<Text<200>>) -> Result<Change<Reference<T>>, LineError> {
    match (id, external) {
        (Change::Keep, Change::Keep) => Ok(Change::Keep),
        (Change::Keep | Change::Clear, Change::Clear) | (Change::Clear, Change::Keep) => Ok(Change::Clear),
        (Change::Set(id), Change::Keep) => Ok(Change::Set(Reference::Id(id))),
        (Change::Keep, Change::Set(external)) => Ok(Change::Set(Reference::External(external.into_string()))),
        (Change::Set(_), _) | (_, Change::Set(_)) => Err(both(field)),
    }
}

impl OrganizationLine {
    fn into_model(self) -> model::IngestLine {
        let external_id = self.external_id.into_string();
        if self.deleted {
            return model::IngestLine::Removal(RecordKind::Organization, external_id);
        }
        model::IngestLine::Organization(model::OrganizationLine { external_id, name: self.name.mirror() })
    }
}

impl UserLine {
    fn into_model(self) -> Result<model::IngestLine, LineError> {
        let external_id = self.external_id.into_string();
        if self.deleted {
            return Ok(model::IngestLine::Removal(RecordKind::User, external_id));
        }
        Ok(model::IngestLine::User(model::ContactLine {
            external_id,
            name: self.name.mirror(),
            email: self.email.map(Text::into_string),
            organization: reference("organization", self.organization_id, self.organization_external_id)?,
        }))
    }
}

impl DeviceLine {
    fn into_model(self) -> Result<model::IngestLine, LineError> {
        let external_id = self.external_id.into_string();
        if self.deleted {
            return Ok(model::IngestLine::Removal(RecordKind::Device, external_id));
        }
        let organization = match (self.organization_id, self.organization_external_id) {
            (Some(_), Some(_)) => return Err(both("organization")),
            (Some(id), None) => Some(Reference::Id(id)),
            (None, external) => external.map(|external| Reference::External(external.into_string())),
        };
        let change = model::DeviceChange {
            external_id: Change::Keep,
            name: self.name.mirror(),
            class: self.class.mirror(),
            lifecycle: self.lifecycle.mirror(),
            organization,
            site: self.site.mirror(),
            owner: reference("owner", self.owner_id, self.owner_external_id)?,
            agent: self.agent.mirror(),
            health: self.health.mirror(),
            collected_at: self.collected_at,
            tags: self.tags.mirror(),
            custom_fields: self.custom_fields.map(|fields| fields.0),
            hardware: self.hardware.mirror(),
            os: self.os.mirror(),
            network: self.network.mirror(),
            security: self.security.mirror(),
            patch: self.patch.mirror(),
            software: self.software.mirror(),
            warranty: self.warranty.mirror(),
        };
        Ok(model::IngestLine::Device(Box::new(model::DeviceLine { external_id, change })))
    }
}

impl BackupJobLine {
    fn into_model(self) -> model::JobLine {
        let device = self.device.into_string();
        model::JobLine {
            external_id: self.external_id.into_string(),
            device: device.parse().map_or_else(|_| Reference::External(device.clone()), Reference::Id),
            started_at: self.started_at,
            ended_at: self.ended_at,
            status: self.status.into(),
            bytes: self.bytes,
            target: self.target.map(Text::into_string),
            verified: self.verified.unwrap_or(false),
        }
    }
}

/// A device that is reported as backed up without a job would count as protected in one report and not in the next.
fn refuse_backup<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(D::Error::custom("not allowed, because backup jobs determine the backup state: send lines of the kind backup_job instead"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (String, Option<String>, String) {
        let error = parse(line.as_bytes()).unwrap_err();
        (error.code, error.pointer, error.message)
    }

    #[test]
    fn errors_point_to_the_invalid_field() {
        for (line, code, pointer, message) in [
            ("{\"kind\":", "malformed_json", None, "EOF"),
            ("[]", "validation_failed", None, "invalid"),
            ("{}", "validation_failed", Some("/kind"), "kind is required"),
            (
                r#"{"kind":"backup","external_id":"1"}"#,
                "validation_failed",
                Some("/kind"),
                "organization, user, device, backup_job",
            ),
            (r#"{"kind":"devise","external_id":"1"}"#, "validation_failed", Some("/kind"), "did you mean device?"),
            (
                r#"{"kind":"device","external_id":"1","backup":{"protected":true}}"#,
                "validation_failed",
                Some("/backup"),
                "send lines of the kind backup_job",
            ),
            (r#"{"kind":"device"}"#, "validation_failed", Some("/external_id"), "missing field `external_id`"),
            (r#"{"kind":"device","external_id":""}"#, "validation_failed", Some("/external_id"), "must not be empty"),
            (r#"{"kind":"device","external_id":"1","nam":"x"}"#, "validation_failed", Some("/nam"), "unknown field `nam`"),
            (
                r#"{"kind":"device","external_id":"1","os":{"family":"dos"}}"#,
                "validation_failed",
                Some("/os/family"),
                "unknown variant `dos`",
            ),
            (
                r#"{"kind":"device","external_id":"1","software":[{"name":"a"},{"name":5}]}"#,
                "validation_failed",
                Some("/software/1/name"),
                "invalid type",
            ),
            (
                r#"{"kind":"device","external_id":"1","organization_id":null,"owner_id":"org_1"}"#,
                "validation_failed",
                Some("/owner_id"),
                "expected a user id",
            ),
            (
                r#"{"kind":"device","external_id":"1","owner_id":"usr_01k9z7w3v5e8g9m2n4p6r8t0x1","owner_external_id":"x"}"#,
                "validation_failed",
                Some("/owner_external_id"),
                "not both",
            ),
            (r#"{"kind":"user","external_id":"1","external_id":"2"}"#, "validation_failed", Some("/external_id"), "duplicate"),
        ] {
            let found = refused(line);
            assert_eq!((found.0.as_str(), found.1.as_deref()), (code, pointer), "{line}: {}", found.2);
            assert!(found.2.contains(message), "{line}: {}", found.2);
        }
    }

    #[test]
    fn absent_fields_stay_and_null_clears() {
        let line = parse(br#"{"kind":"device","external_id":"1","site":null,"os":{"family":"linux"}}"#).unwrap();
        let SentLine::Record(model::IngestLine::Device(line)) = line else { panic!("{line:?}") };
        let change = line.change;
        assert_eq!((change.site, change.owner), (Change::Clear, Change::Keep));
        assert!(matches!((change.hardware, change.os), (Change::Keep, Change::Set(_))));
        let gone = parse(br#"{"kind":"user","external_id":"1","deleted":true}"#).unwrap();
        assert!(matches!(gone, SentLine::Record(model::IngestLine::Removal(RecordKind::User, id)) if id == "1"));
    }
}
