//! The query parameters of a report.

use poem_openapi::{Enum, Object};

use tenantd_directory::devices::DeviceFilters;
use tenantd_http::{page::PageQuery, wire::word_type};

use super::super::{listing::RowKind, tally::Field};

/// A part of a device that rows can contain. `id`, `name` and `organization` are always present.
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
    Field, "InventoryGroupBy", "The field to count devices by.";
    RowKind, "InventoryRows", "`devices`: one row per device. `software`: one row per package on a device.";
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
    /// The parts of a device that rows contain. Defaults to `summary`. `id`, `name` and `organization` are always present.
    #[oai(validator(min_items = 1, max_items = 9, unique_items))]
    pub(super) sections: Option<Vec<Section>>,
    /// Counts the devices by this field instead of listing them.
    pub(super) group_by: Option<Field>,
    /// Adds `totals` over all matching devices. Defaults to `false`.
    pub(super) summary: Option<bool>,
    /// What a row is. `software` returns one row per package of a device, in `package`. With the filter `software`, only the
    /// packages that match it. Defaults to `devices`.
    pub(super) rows: Option<RowKind>,
    /// The format of the response. `csv` and `ndjson` stream the whole report without pages. Defaults to the `Accept` header, then
    /// to `json`.
    pub(super) format: Option<InventoryFormat>,
    #[oai(flatten)]
    pub(super) page: PageQuery,
}
