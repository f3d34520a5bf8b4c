//! Runs random queries against an index. Each query is rejected, or finds only documents in the index.

use tenantd_base::{
    access::{Grants, Reach},
    clock::Timestamp,
    entropy::{
        Entropy,
        fuzz::{each_case, show, text},
    },
    id::TenantId,
};

use super::{
    super::{
        model::{Document, Facets, Kind, Mode, Options, Order, Visibility},
        query::{FIELDS, MOST_TERMS, Query},
    },
    *,
};

const DOCUMENTS: u64 = 120;
/// The maximum length of a query in the API.
const LONGEST: usize = 200;
const WORDS: [&str; 16] = [
    "heron",
    "herons",
    "her",
    "printer",
    "srv-dc",
    "srv",
    "SN7",
    "2026",
    "Latitude",
    "7440",
    "größe",
    "İstanbul",
    "東京",
    "a",
    "the",
    "fe80::1",
];
const VALUES: [&str; 12] = [
    "ticket",
    "open",
    "high",
    "10.0.*",
    "00:1a:2b",
    ">=2026-01-01",
    "<9999-12-31T23:59:59Z",
    "T-7",
    "99999999999999999999",
    "Acme Ltd",
    "*",
    "",
];

fn tenant(number: u8) -> TenantId {
    TenantId::from_bytes([number; 16])
}

fn document(number: u64, entropy: &mut Entropy) -> Document {
    let mut id = [0; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    let words: Vec<&str> = (0..4).map(|_| entropy.pick(&WORDS)).collect();
    Document {
        tenant_id: tenant(u8::try_from(number % 2).unwrap()),
        kind: Kind::Device,
        id,
        shown_id: format!("dev_{number}"),
        name: words.join(" "),
        subtitle: None,
        texts: vec![("model", text(entropy))],
        identifiers: vec![("serial", format!("SN{number}"))],
        attributes: Vec::new(),
        software: Vec::new(),
        organization_id: None,
        state: None,
        updated_at: Timestamp::from_millis(1_767_225_600_000),
    }
}

fn word(entropy: &mut Entropy) -> String {
    if entropy.once_in(8) { text(entropy) } else { entropy.pick(&WORDS).to_owned() }
}

fn term(entropy: &mut Entropy) -> String {
    match entropy.below(12) {
        0 | 1 => {
            let letters: String = word(entropy).chars().take(1 + entropy.place(4)).collect();
            format!("{letters}*")
        }
        2 => format!("\"{}\"", (0..entropy.count(20)).map(|_| word(entropy)).collect::<Vec<_>>().join(" ")),
        3 => format!("-{}", word(entropy)),
        4 => format!("{} OR {}", word(entropy), word(entropy)),
        5 => format!("{}:{}", entropy.pick(&FIELDS), entropy.pick(&VALUES)),
        6 => format!("{}:\"{}\"", entropy.pick(&FIELDS), text(entropy)),
        7 if entropy.once_in(6) => text(entropy),
        _ => word(entropy),
    }
}

fn query(entropy: &mut Entropy) -> String {
    let made = if entropy.once_in(15) {
        let (term, times) = (term(entropy), entropy.place(60));
        vec![term; times].join(" ")
    } else {
        (0..=entropy.count(30)).map(|_| term(entropy)).collect::<Vec<_>>().join(" ")
    };
    if entropy.once_in(10) { made } else { made.chars().take(LONGEST).collect() }
}

#[test]
fn a_random_query_is_rejected_or_finds_documents_of_its_tenant() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Disk::create(directory.path()).unwrap();
    disk.commit(disk::Position::new(0, None)).unwrap();
    let mut overlay = Overlay::new(1, disk.part().unwrap(), 0);
    let mut entropy = Entropy::from_seed(7);
    for number in 0..DOCUMENTS {
        let document = document(number, &mut entropy);
        overlay.put(document.key(), Some(&document));
    }
    let view = overlay.publish().unwrap();
    each_case("queries", 1_000, |entropy| {
        let made = query(entropy);
        show(&made);
        let Ok(parsed) = Query::parse(&made) else { return false };
        assert!(parsed.groups.iter().map(|group| group.any.len()).sum::<usize>() <= MOST_TERMS);
        let visibility = Visibility::new(tenant(0), Grants::all(), Reach::Everything);
        let options = Options {
            kinds: Vec::new(),
            organization_id: None,
            mode: if entropy.once_in(4) { Mode::Suggest } else { Mode::Full },
            fuzzy: entropy.once_in(2),
            order: if entropy.once_in(4) { Order::Recent } else { Order::Relevance },
            facets: Facets { kind: true, organization: true, state: true },
            limit: 10,
            after: None,
        };
        let Ok(plan) = Planner::new(&view, &visibility, &options).unwrap().plan(&parsed) else { return false };
        let mut best = Best::new(10, None);
        let Ok(counts) = run(&view, &plan, &options, &mut best) else { return false };
        let found = best.into_sorted();
        assert!(counts.total <= DOCUMENTS / 2 && found.len() <= 10, "{made} finds {}", counts.total);
        assert!(found.iter().all(|ranked| ranked.what.id[15] % 2 == 0), "{made} finds a document of another tenant");
        true
    });
}
