//! Devices: the inventory with its filters and counts, and one device.

mod edit;
mod filters;
mod groups;
mod history;
mod list;
mod one;
mod packages;
mod record;
mod sections;

pub(super) use edit::{change, create, delete, edit, new, show_deletion};
pub(super) use filters::{any_of, chosen, pairs, select, software_filter, without_pair};
pub(super) use list::{delete_view, device_rows, list, save_view};
pub(super) use one::show;
pub(super) use record::{Backup as BackupState, DeviceRow, memory_size, size};

pub(super) const DEVICES_API: &str = "/api/directory/devices";
const INVENTORY_API: &str = "/api/rmm/reports/asset-inventory";
const PATH: &str = "/devices";
