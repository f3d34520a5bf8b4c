//! The examples in the OpenAPI document. Each file holds the example of one schema.

use tenantd_http::examples;

use super::{
    bodies::{
        CreateContact, CreateDevice, CreateOrganization, DeleteContact, DeleteDevice, DeleteOrganization, UpdateContact,
        UpdateDevice, UpdateOrganization,
    },
    device::Device,
    wire::{Contact, Organization, RoleView, UserView},
};

examples! {
    Organization => "organization.json",
    UserView => "user.json",
    RoleView => "custom_role.json",
    Device => "device.json",
    Contact => "contact.json",
    CreateOrganization => "create_organization.json",
    UpdateOrganization => "update_organization.json",
    DeleteOrganization => "delete_organization.json",
    CreateContact => "create_contact.json",
    UpdateContact => "update_contact.json",
    DeleteContact => "delete_contact.json",
    CreateDevice => "create_device.json",
    UpdateDevice => "update_device.json",
    DeleteDevice => "delete_device.json",
}
