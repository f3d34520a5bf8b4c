//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId},
};
use tenantd_directory::OrganizationReference;
use tenantd_http::page::Page;

use super::wire::{SearchHit, SearchMatch, SearchMatchKind, SearchResults, SearchType};

/// 2026-01-31T09:30:00Z
const UPDATED_AT: i64 = 1_769_851_800_000;

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x23, last]
}

impl Example for SearchHit {
    fn example() -> Self {
        let serial = SearchMatch { field: "serial".to_owned(), value: "5CG1234XYZ".to_owned(), kind: SearchMatchKind::Exact };
        Self {
            kind: SearchType::Device,
            id: DeviceId::from_bytes(id_bytes(1)).to_string(),
            title: "ACME-LT-042".to_owned(),
            subtitle: Some("HP EliteBook 840 G10 · Windows 11 Pro 24H2".to_owned()),
            organization: Some(OrganizationReference { id: OrganizationId::from_bytes(id_bytes(2)), name: "Acme".to_owned() }),
            status: Some("active".to_owned()),
            score: 4096.25,
            matched_on: vec![serial],
            highlights: Some([("serial".to_owned(), "<mark>5CG1234XYZ</mark>".to_owned())].into()),
            updated_at: Timestamp::from_millis(UPDATED_AT),
        }
    }
}

impl Example for SearchResults {
    fn example() -> Self {
        let page = Page::example_of(1, 12);
        Self { data: vec![SearchHit::example()], page, facets: None, did_you_mean: None }
    }
}
