//! Changes to the roll-ups, collected so that each row is written once, no matter how many values it receives.

use std::collections::BTreeMap;

use tenantd_base::{clock::Timestamp, id::TenantId};

use super::{
    OTHER, QUARTER_MILLIS, QUARTERS_PER_DAY, Series,
    cells::{Cells, Measure},
    series::Kind,
};

/// The id under which the metrics of the whole installation are stored.
pub(crate) const INSTALLATION: TenantId = TenantId::from_bytes([0; 16]);

/// The number of groups in a row. Further groups count as `other`.
const MAX_GROUPS: usize = 1_000;

/// Tenant, code of the series, and the hour or the day since 1970.
pub(crate) type RowKey = (TenantId, u8, u32);

/// Returns the number of quarters of an hour since 1970.
pub(crate) fn quarter_of(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis().div_euclid(QUARTER_MILLIS)).unwrap_or_default()
}

fn hour_of(quarter: u64) -> u32 {
    u32::try_from(quarter / 4).unwrap_or(u32::MAX)
}

/// The cells of a row, by group.
pub(crate) type Groups = BTreeMap<String, Cells>;

/// Values to add, by tenant, series and hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) rows: BTreeMap<(TenantId, Series, u32), Groups>,
    /// The installation's metrics use its own clock. Activity of a tenant whose clock is ahead counts at this time at the latest.
    latest: Option<Timestamp>,
}

impl Changes {
    /// Creates an empty set of changes at the installation's time `now`.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self { latest: Some(now), ..Self::default() }
    }

    pub(crate) fn of_rows(rows: BTreeMap<(TenantId, Series, u32), Groups>) -> Self {
        Self { rows, latest: None }
    }

    /// Adds to the metrics of one tenant, or of the installation.
    pub(crate) fn add_to(&mut self, tenant: TenantId, series: Series, group: &str, at: Timestamp, measure: &Measure) {
        let quarter = quarter_of(at);
        let of_day = u8::try_from(quarter % QUARTERS_PER_DAY).unwrap_or_default();
        let groups = self.rows.entry((tenant, series, hour_of(quarter))).or_default();
        if !groups.contains_key(group) {
            groups.insert(group.to_owned(), Cells::new());
        }
        if let Some(cells) = groups.get_mut(group) {
            combine(cells, series.kind(), of_day, measure);
        }
    }

    /// Adds to a tenant's metrics, and also to those of the installation if the series is shared.
    pub(crate) fn add(&mut self, tenant: TenantId, series: Series, group: &str, at: Timestamp, measure: &Measure) {
        self.add_to(tenant, series, group, at, measure);
        if series.is_shared() {
            let latest = self.latest.filter(|_| tenant.has_own_clock());
            self.add_to(INSTALLATION, series, group, latest.map_or(at, |latest| at.min(latest)), measure);
        }
    }

    pub(crate) fn count(&mut self, tenant: TenantId, series: Series, group: &str, at: Timestamp) {
        self.add(tenant, series, group, at, &Measure::counted(1));
    }

    pub(crate) fn spread(&mut self, tenant: TenantId, series: Series, group: &str, at: Timestamp, value: u64) {
        self.add(tenant, series, group, at, &Measure::spread(value));
    }
}

fn combine(cells: &mut Cells, kind: Kind, quarter: u8, measure: &Measure) {
    match kind {
        Kind::Count | Kind::Spread => cells.entry(quarter).or_default().add(measure),
        Kind::Gauge => drop(cells.insert(quarter, measure.clone())),
    }
}

/// Adds the cells of a group to a row.
pub(crate) fn add_cells(groups: &mut Groups, kind: Kind, group: &str, cells: &Cells) {
    let full = groups.len() >= MAX_GROUPS && !groups.contains_key(group);
    let into = groups.entry(if full { OTHER } else { group }.to_owned()).or_default();
    for (quarter, measure) in cells {
        combine(into, kind, *quarter, measure);
    }
}
