//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::{
    device::Device,
    wire::{Organization, UserView},
};

examples! {
    Organization => "organization.json",
    UserView => "user.json",
    Device => "device.json",
}
