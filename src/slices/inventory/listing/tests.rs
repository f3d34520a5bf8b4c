//! Tests that all pages together contain all matching rows for any limit and cost, and nothing outside of the caller's reach.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    config,
    id::{OrganizationId, TenantId},
};
use tenantd_directory::{
    Details, DeviceClass, Directory, NewOrganization,
    devices::{DetailsQuery, SoftwareFilter},
};
use tenantd_store::{
    RedbEngine, Store, WriterSettings,
    events::{Actor, Intent},
};

use super::*;
use crate::tally::{self, Field};

const TENANT: TenantId = TenantId::from_bytes([7; 16]);
const NOW: i64 = 1_767_225_600_000;

fn directory() -> Directory {
    Directory::new(&config::load(None, [], &[]).unwrap().directory, |_, _, _| Ok(()))
}

fn query(reach: Reach) -> DeviceQuery {
    DeviceQuery {
        tenant_id: TENANT,
        reach,
        now: Timestamp::from_millis(NOW),
        directory: directory(),
        organizations: Vec::new(),
        sites: Vec::new(),
        classes: Vec::new(),
        lifecycles: Vec::new(),
        healths: Vec::new(),
        agent_statuses: Vec::new(),
        last_seen_before: None,
        last_seen_after: None,
        names: Vec::new(),
        external_ids: Vec::new(),
        owners: Vec::new(),
        created_after: None,
        created_before: None,
        updated_after: None,
        updated_before: None,
        protected: None,
        details: DetailsQuery::default(),
        text: None,
    }
}

/// Creates 40 devices that alternate between two organizations. Every third is a server, and device n has n modulo 4 packages.
fn fleet() -> (Store, Vec<OrganizationId>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine = RedbEngine::create(&folder.path().join("store"), 1 << 20).unwrap();
    let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
    let intent = Intent::new(TENANT, Timestamp::from_millis(NOW), Actor::system("test"));
    let written = store.write(move |tx| {
        let (mut act, directory) = (intent.begin(), directory());
        let mut organizations = Vec::new();
        for name in ["Acme", "Beta"] {
            let new = NewOrganization { external_id: None, name: name.to_owned() };
            organizations.push(directory.create_organization(tx, &mut act, &new)?.id);
        }
        for number in 0..40_usize {
            let package =
                |place: usize| Software { name: format!("p{place}"), version: Some(format!("{number}")), publisher: None };
            let new = Device {
                name: format!("d{number}"),
                class: if number % 3 == 0 { DeviceClass::Server } else { DeviceClass::Workstation },
                organization_id: organizations[number % 2],
                collected_at: act.now,
                details: Details { software: (0..number % 4).rev().map(package).collect(), ..Details::default() },
                ..Device::default()
            };
            directory.create_device(tx, &mut act, new)?;
        }
        Ok::<_, directory::DirectoryError>(organizations)
    });
    let organizations = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(written).unwrap();
    (store, organizations, folder)
}

/// Returns the rows of all pages, by name and package.
fn walk(store: &Store, query: &DeviceQuery, kind: RowKind, limit: usize, effort: u64) -> Vec<(String, Option<Software>)> {
    let (mut rows, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let mut labels = Labels::new(TENANT);
        let page = store.read(|tx| list_within(tx, query, &mut labels, kind, after.as_deref(), limit, effort)).unwrap();
        let before = rows.len();
        for hit in page.hits {
            match hit.packages {
                None => rows.push((hit.device.name, None)),
                Some(packages) => rows.extend(packages.into_iter().map(|package| (hit.device.name.clone(), Some(package)))),
            }
        }
        assert!(rows.len() - before <= limit);
        match page.last {
            Some(last) => after = Some(last),
            None => return rows,
        }
    }
}

#[test]
fn pages_together_do_not_depend_on_limit_and_cost() {
    let (store, organizations, _folder) = fleet();
    let mut by_class = query(Reach::Everything);
    by_class.classes = vec![DeviceClass::Server];
    let mut by_organization = query(Reach::Everything);
    by_organization.organizations = vec![organizations[1]];
    let mut by_package = query(Reach::Everything);
    by_package.details.software = vec![SoftwareFilter::parse("p1>=20").unwrap(), SoftwareFilter::parse("p2").unwrap()];
    let expected = [(query(Reach::Everything), 40, 60), (by_class, 14, 21), (by_organization, 20, 40), (by_package, 15, 20)];
    for (query, devices, packages) in expected {
        for (kind, count) in [(RowKind::Device, devices), (RowKind::Package, packages)] {
            let whole = walk(&store, &query, kind, 1_000, u64::MAX);
            assert_eq!(whole.len(), count);
            let total = store.read(|tx| tally::rows(tx, &query, &mut Labels::new(TENANT), kind)).unwrap();
            assert_eq!(total, count as u64);
            for (limit, effort) in [(1, 1), (1, u64::MAX), (2, 3), (3, 20), (7, 11), (1_000, 1)] {
                assert_eq!(walk(&store, &query, kind, limit, effort), whole, "{kind:?} by {limit} with {effort}");
            }
        }
    }
}

#[test]
fn nothing_out_of_reach_is_listed_or_counted() {
    let (store, organizations, _folder) = fleet();
    let names = |query: &DeviceQuery| walk(&store, query, RowKind::Device, 1_000, u64::MAX).len();
    let within = query(Reach::new(vec![organizations[0]]));
    assert_eq!((names(&query(Reach::Everything)), names(&within)), (40, 20));
    let mut foreign = within.clone();
    foreign.organizations = vec![organizations[1]];
    assert_eq!(names(&foreign), 0);
    let groups = store.read(|tx| tally::group(tx, &within, &mut Labels::new(TENANT), Field::Organization, 10)).unwrap();
    assert_eq!((groups.devices, groups.values.len(), groups.others), (20, 1, 0));
    assert_eq!(groups.values[0].value, Some(organizations[0].to_string()));
    let totals = store.read(|tx| tally::totals(tx, &within, &mut Labels::new(TENANT))).unwrap();
    assert_eq!((totals.devices, totals.organizations), (20, 1));
}

#[test]
fn values_beyond_the_limit_are_counted_together() {
    let (store, _, _folder) = fleet();
    let query = query(Reach::Everything);
    let groups = store.read(|tx| tally::group(tx, &query, &mut Labels::new(TENANT), Field::Class, 1)).unwrap();
    assert_eq!((groups.values.len(), groups.values[0].count, groups.others, groups.devices), (1, 26, 14, 40));
}
