//! What a report can be asked for.

use poem_openapi::{Enum, Object};

use tenantd_directory::devices::DeviceFilters;
use tenantd_http::{page::PageQuery, wire::word_type};

use super::super::{listing::RowKind, tally::Field};

/// The parts of a device that rows can have. `id`, `name` and `organization` are always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enum)]
#[oai(rename_all = "snake_case", rename = "InventorySection")]
pub(super) enum Section {
    Summary,
    Hardware,
    Os,
    Network,
    Security,
    Patch,
    Software,
    Warranty,
    Backup,
}

impl Section {
    pub(super) const DEFAULT: [Self; 1] = [Self::Summary];
}

word_type! {
    Field, "InventoryGroupBy", "What devices are counted by.";
    RowKind, "InventoryRows";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum InventoryFormat {
    Json,
    Csv,
    Ndjson,
}

#[derive(Debug, Object)]
pub(super) struct ReportAssetInventory {
    #[oai(flatten)]
    pub(super) filters: DeviceFilters,
    /// The parts of a device that rows have, `summary` when absent. `id`, `name` and `organization` are always there.
    #[oai(validator(min_items = 1, max_items = 9, unique_items))]
    pub(super) sections: Option<Vec<Section>>,
    /// Count the devices by this field, instead of listing them.
    pub(super) group_by: Option<Field>,
    /// Also count all devices that match by what a first look wants, in `totals`.
    pub(super) summary: Option<bool>,
    /// `software` has a row for each package of a device, in `package`; with the filter `software`, for each that it names.
    pub(super) rows: Option<RowKind>,
    /// `csv` and `ndjson` stream the whole report, without pages.
    pub(super) format: Option<InventoryFormat>,
    #[oai(flatten)]
    pub(super) page: PageQuery,
}
