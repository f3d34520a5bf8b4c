//! The words of the directory as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::model::{
    AgentStatus, DeviceClass, Health, JobStatus, Lifecycle, OsFamily, PatchStatus, PersonKind, UserStatus, WarrantyStatus,
};

word_type! {
    AgentStatus, "AgentStatus", "`offline` and `overdue` follow from how long ago the agent was last seen; `never` from its never having been.";
    PersonKind, "UserKind", "`staff` work for the tenant and sign in; a `contact` is someone at one of its organizations.";
}

word_type! {
    stored:
    UserStatus, "UserStatus", "A disabled user cannot sign in.";
    DeviceClass, "DeviceClass", "What kind of device it is.";
    Lifecycle, "Lifecycle", "Where the device is in its life.";
    Health, "Health", "How the device is doing.";
    OsFamily, "OsFamily", "The family of an operating system.";
    PatchStatus, "PatchStatus", "Whether updates are missing.";
    WarrantyStatus, "WarrantyStatus", "Whether there is a warranty.";
    JobStatus, "JobLineStatus", "How a job went.";
}
