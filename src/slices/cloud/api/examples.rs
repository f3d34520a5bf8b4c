//! The examples in the OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    bodies::{CreateCloudProvider, UpdateCloudProvider, VerifyCloudProvider},
    vm_wire::{Operation, ProvisionVms, Vm},
    wire::{CloudProvider, ProviderVerification},
};

examples! {
    CreateCloudProvider => "create_cloud_provider.json",
    VerifyCloudProvider => "verify_cloud_provider.json",
    UpdateCloudProvider => "update_cloud_provider.json",
    ProviderVerification => "provider_verification.json",
    CloudProvider => "cloud_provider.json",
    Vm => "vm.json",
    Operation => "operation.json",
    ProvisionVms => "provision_vms.json",
}
