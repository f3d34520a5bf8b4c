//! Wire types for the vocabulary of the directory: the model's own types with their schemas.

use tenantd_http::wire::word_type;

use super::super::model::{
    AgentStatus, DeviceClass, Health, JobStatus, Lifecycle, OsFamily, PatchStatus, PersonKind, UserStatus, WarrantyStatus,
};

word_type! {
    AgentStatus, "AgentStatus", "The status of an agent. `online`, `offline` and `overdue` depend on when it was last seen; `never` means that it was never seen.";
    PersonKind, "UserKind", "`staff` work for the tenant and sign in. A `contact` is a person at one of its organizations.";
}

word_type! {
    stored:
    UserStatus, "UserStatus", "The status of a user. A disabled user cannot sign in.";
    DeviceClass, "DeviceClass", "The kind of device.";
    Lifecycle, "Lifecycle", "The stage of the device's life cycle.";
    Health, "Health", "The health of the device.";
    OsFamily, "OsFamily", "The family of an operating system.";
    PatchStatus, "PatchStatus", "The state of operating system updates.";
    WarrantyStatus, "WarrantyStatus", "The status of the warranty.";
    JobStatus, "JobLineStatus", "The status of a job.";
}
