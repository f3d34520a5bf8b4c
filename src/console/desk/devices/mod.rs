//! Devices: the inventory with its filters and counts, and one device.

mod edit;
mod filters;
mod groups;
mod list;
mod one;
mod packages;
mod record;
mod sections;

pub(super) use edit::{change, create, delete, edit, new, show_deletion};
pub(super) use filters::software_filter;
pub(super) use list::{delete_view, device_rows, list, save_view};
pub(super) use one::show;
pub(super) use record::DeviceRow;

pub(super) const DEVICES_API: &str = "/api/directory/devices";
const INVENTORY_API: &str = "/api/rmm/reports/asset-inventory";
const PATH: &str = "/devices";
