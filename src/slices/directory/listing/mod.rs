//! Lists of organizations, people and devices: filters, sort orders and pagination.

mod contacts;
mod devices;
mod filters;
mod labels;
mod order;
mod organizations;
mod users;
mod version;

pub(crate) use contacts::ContactQuery;
pub use devices::{DetailsQuery, DeviceQuery, patch_status, reboot_required, warranty_status};
pub use filters::{AddressFilter, Folded, MacFilter, SoftwareFilter};
pub use labels::Labels;
pub(crate) use order::{Listing, Order, SortField, page, slice, total};
pub(crate) use organizations::OrganizationQuery;
pub use users::{UserPage, UserQuery, list_users};
