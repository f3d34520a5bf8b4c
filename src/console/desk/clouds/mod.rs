//! Clouds: the providers, their VMs, orders of new VMs, and the operations that carry them out.

mod edit;
mod fields;
mod filters;
mod kinds;
mod list;
mod new;
mod one;
mod operation;
mod order;
mod plan;
mod record;
mod refresh;
mod verification;
mod vm;
mod vm_page;
mod vms;

use super::routes::Route;

/// The pages of the providers.
const PATH: &str = "/clouds";
const API: &str = "/api/cloud/providers";
/// The pages of the VMs.
const VMS_PATH: &str = "/vms";
const VMS_API: &str = "/api/cloud/vms";
const OPERATIONS_PATH: &str = "/operations";
const OPERATIONS_API: &str = "/api/operations";

pub(super) const ROUTES: &[Route] = &[
    Route::shows("/clouds", "list_cloud_providers", |visitor| Box::pin(list::show(visitor))),
    Route::both(
        "/clouds/new",
        "create_cloud_provider",
        |visitor| Box::pin(new::show(visitor)),
        |visitor| Box::pin(new::create(visitor)),
    ),
    Route::shows("/clouds/{id}", "read_cloud_provider", |visitor| Box::pin(one::show(visitor))),
    Route::acts("/clouds/{id}/verify", "verify_cloud_provider", |visitor| Box::pin(one::verify(visitor))),
    Route::both(
        "/clouds/{id}/edit",
        "update_cloud_provider_by_id",
        |visitor| Box::pin(edit::show(visitor)),
        |visitor| Box::pin(edit::change(visitor)),
    ),
    Route::both(
        "/clouds/{id}/delete",
        "delete_cloud_provider_by_id",
        |visitor| Box::pin(edit::show_deletion(visitor)),
        |visitor| Box::pin(edit::delete(visitor)),
    ),
    Route::shows("/vms", "list_vms", |visitor| Box::pin(vms::show(visitor))),
    Route::both("/vms/new", "provision_vms", |visitor| Box::pin(order::show(visitor)), |visitor| Box::pin(order::send(visitor))),
    Route::acts("/vms/refresh", "list_vms", |visitor| Box::pin(refresh::start(visitor))),
    Route::shows("/vms/{id}", "read_vm", |visitor| Box::pin(vm_page::show(visitor))),
    Route::shows("/operations/{id}", "read_operation", |visitor| Box::pin(operation::show(visitor))),
];
