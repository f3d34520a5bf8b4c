//! The rows of a report, page by page, in order of device creation.
//!
//! No index fits every filter, so the listing visits the devices one by one. **Invariant:** a page costs a bounded amount of work.
//! At that bound, the page is returned short, with the position to continue from.

use std::ops::Bound;

use tenantd_base::{id::DeviceId, vocabulary::vocabulary};
use tenantd_directory::{
    self as directory, AgentStatus, Device, Software,
    devices::{DeviceQuery, Labels},
};
use tenantd_store::{Flow, Key, Read, StoreError};

/// The cost limit of a page. Each visited device costs 1; decoding its details costs [`DETAILS`] more.
pub(super) const EFFORT: u64 = 100_000;
const DETAILS: u64 = 4;

vocabulary! {
    /// What a row of the report is.
    RowKind:
    Device "devices",
    /// One row per package on a device.
    Package "software",
}

/// A device of the report.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) device: Device,
    pub(super) status: AgentStatus,
    /// If rows are packages: the packages that each become a row.
    pub(super) packages: Option<Vec<Software>>,
}

#[derive(Debug, Default)]
pub(super) struct InventoryPage {
    pub(super) hits: Vec<Hit>,
    /// Where the report continues. `None` at the end.
    pub(super) last: Option<Vec<u8>>,
}

/// The sort key of a package within its device: name, version and publisher.
type PackageKey = (String, String, String);

/// The position of the last returned row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Position {
    AfterDevice(DeviceId),
    /// After this package of the device.
    AfterPackage(DeviceId, PackageKey),
}

impl Position {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if let Some(device) = <DeviceId as Key>::from_bytes(bytes) {
            return Some(Self::AfterDevice(device));
        }
        let (device, name, version, publisher) = <(DeviceId, String, String, String)>::from_bytes(bytes)?;
        Some(Self::AfterPackage(device, (name, version, publisher)))
    }

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::AfterDevice(device) => device.to_bytes(),
            Self::AfterPackage(device, (name, version, publisher)) => {
                (*device, name.clone(), version.clone(), publisher.clone()).to_bytes()
            }
        }
    }
}

fn package_key(package: &Software) -> PackageKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (package.name.clone(), text(&package.version), text(&package.publisher))
}

/// Collects the rows of one page.
struct Collector {
    page: InventoryPage,
    kind: RowKind,
    room: usize,
    position: Option<Position>,
}

impl Collector {
    fn full(&mut self) -> Flow {
        self.page.last = self.position.as_ref().map(Position::to_bytes);
        Flow::Stop
    }

    fn take(&mut self, query: &DeviceQuery, device: Device) -> Flow {
        let (id, status) = (device.id, query.status(&device));
        let packages = match self.kind {
            RowKind::Device => {
                if self.room == 0 {
                    return self.full();
                }
                self.room -= 1;
                None
            }
            RowKind::Package => {
                let mut packages = query.packages(&device);
                if let Some(Position::AfterPackage(begun, behind)) = &self.position
                    && *begun == id
                {
                    packages.retain(|package| package_key(package) > *behind);
                }
                if packages.is_empty() {
                    self.position = Some(Position::AfterDevice(id));
                    return Flow::Continue;
                }
                if self.room == 0 {
                    return self.full();
                }
                if packages.len() > self.room {
                    packages.truncate(self.room);
                    self.position = packages.last().map(|last| Position::AfterPackage(id, package_key(last)));
                    self.page.hits.push(Hit { device, status, packages: Some(packages) });
                    return self.full();
                }
                self.room -= packages.len();
                Some(packages)
            }
        };
        self.page.hits.push(Hit { device, status, packages });
        self.position = Some(Position::AfterDevice(id));
        Flow::Continue
    }
}

/// Returns the rows after a position, at most `limit`.
pub(super) fn list(
    tx: &impl Read,
    query: &DeviceQuery,
    labels: &mut Labels,
    kind: RowKind,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<InventoryPage, StoreError> {
    list_within(tx, query, labels, kind, after, limit, EFFORT)
}

fn list_within(
    tx: &impl Read,
    query: &DeviceQuery,
    labels: &mut Labels,
    kind: RowKind,
    after: Option<&[u8]>,
    limit: usize,
    effort: u64,
) -> Result<InventoryPage, StoreError> {
    let position = after.and_then(Position::from_bytes);
    let from = match &position {
        Some(Position::AfterDevice(device)) => Bound::Excluded(*device),
        Some(Position::AfterPackage(device, _)) => Bound::Included(*device),
        None => Bound::Unbounded,
    };
    let mut collector = Collector { page: InventoryPage::default(), kind, room: limit, position };
    let mut spent = 0;
    directory::scan_devices(tx, query.tenant_id, from, |folded| {
        if spent >= effort {
            return Ok(collector.full());
        }
        spent += 1;
        let id = folded.id;
        if !query.admits(&folded) {
            collector.position = Some(Position::AfterDevice(id));
            return Ok(Flow::Continue);
        }
        spent += DETAILS;
        let device = folded.unfold()?;
        if !query.matches(tx, labels, &device)? {
            collector.position = Some(Position::AfterDevice(id));
            return Ok(Flow::Continue);
        }
        Ok(collector.take(query, device))
    })?;
    Ok(collector.page)
}

/// Calls `visit` with every device of the report.
pub(super) fn visit_all(
    tx: &impl Read,
    query: &DeviceQuery,
    labels: &mut Labels,
    mut visit: impl FnMut(&Device, AgentStatus),
) -> Result<(), StoreError> {
    directory::scan_devices(tx, query.tenant_id, Bound::Unbounded, |folded| {
        if query.admits(&folded) {
            let device = folded.unfold()?;
            if query.matches(tx, labels, &device)? {
                visit(&device, query.status(&device));
            }
        }
        Ok(Flow::Continue)
    })
}

#[cfg(test)]
mod tests;
