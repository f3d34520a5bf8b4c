//! Upgrades with the real binary: stores of every format open, a newer one is refused, and the plan is available in advance.

use std::path::{Path, PathBuf};

use tenantd_base::clock::Clock;
use tenantd_store::{DataDirectory, FORMAT, Installation, StoreSettings, Table, WriterSettings, catalog};

use crate::{Server, evaluation::until, refused, tenantd, text};

const SETTINGS: StoreSettings = StoreSettings {
    cache_bytes: 1 << 20,
    journal_bytes: 1 << 20,
    writer: WriterSettings { batch_size: 1, queue_length: 1 },
    clock: Clock::System,
};

/// The password of the administrator in the store of format 4.
const KEPT_PASSWORD: &str = "correct horse battery";

/// Restores an installation from the snapshot of a format.
fn installation_of(format: u32, directory: &Path) -> PathBuf {
    let kept = |name: &str| format!("{}/tests/formats/{format}.{name}", env!("CARGO_MANIFEST_DIR"));
    let (snapshot, data) = (directory.join("snapshot"), directory.join("data"));
    let unpacked = std::process::Command::new("gzip").args(["-dc", &kept("snapshot.gz")]).output().unwrap();
    assert!(unpacked.status.success(), "{}", text(&unpacked.stderr));
    std::fs::write(&snapshot, unpacked.stdout).unwrap();
    let (snapshot, target, key) = (snapshot.display().to_string(), data.display().to_string(), kept("installation.key"));
    let restored = tenantd(&["restore", &snapshot, "--data-dir", &target, "--installation-key", &key]).output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    data
}

#[test]
fn stores_of_every_format_are_upgraded() {
    for format in 1..=FORMAT {
        if !Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/{format}.snapshot.gz")).exists() {
            assert_eq!(format, FORMAT, "the store of format {format} is missing");
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let data = installation_of(format, directory.path());
        let path = data.display().to_string();
        let plan = tenantd(&["upgrade", "check", "--json", "--data-dir", &path]).output().unwrap();
        assert!(plan.status.success(), "{}", text(&plan.stderr));
        let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
        assert_eq!((&plan["found_format"], &plan["writes_format"]), (&format.into(), &FORMAT.into()), "{plan}");
        assert_eq!(plan["through_formats"].as_array().unwrap().len(), (FORMAT - format) as usize, "{plan}");

        let server = Server::start(&data);
        assert_eq!(server.json(&["tenant", "show", "kept"])["name"], "Kept");
        // Timers may have opened more tickets since.
        let tickets = server.get("/api/psa/tickets?limit=200")["data"].as_array().unwrap().clone();
        let kept = (1..=5).filter(|number| tickets.iter().any(|ticket| ticket["subject"] == format!("Ticket {number}")));
        assert_eq!(kept.count(), 5, "{tickets:?}");
        // The store of format 2 has a tenant that expired before tenants could be removed.
        until(&server, "trial", |status| status.is_none());
        // The creator of a key is its owner.
        let keys = server.get("/api/admin/api-keys?limit=200")["data"].as_array().unwrap().clone();
        assert!(keys.iter().all(|key| key["owner"] == key["created_by"]), "{keys:?}");
        if format == 4 {
            addresses_can_be_shared(&server);
            // Domains from before verification was required remain valid.
            let kept = server.post("/api/auth/sso", &serde_json::json!({"domain": "kept.example"}));
            assert_ne!(kept["code"], "sso_provider_not_found", "{kept}");
        }
        if format == 6 {
            a_run_that_waited_goes_on(&server);
        }
        if format == 7 {
            reports_agree_on_protection(&server);
        }
        if format == 8 {
            children_are_found(&server);
        }
        numbers_go_on(&server);
        assert!(text(&server.run(&["check"]).stdout).contains("The store is sound."));
        assert_eq!(server.stop(), Some(0));

        let before: Vec<PathBuf> = std::fs::read_dir(data.join("snapshots"))
            .map(|found| found.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        assert_eq!(before.len(), usize::from(format < FORMAT), "{before:?}");
        for snapshot in before {
            assert!(snapshot.display().to_string().contains(&format!("pre-upgrade-{format}-")), "{}", snapshot.display());
        }
        let after = tenantd(&["upgrade", "check", "--data-dir", &path]).output().unwrap();
        assert!(after.status.success() && text(&after.stdout).contains("There is nothing to do."), "{}", text(&after.stdout));
    }
}

/// Up to format 8 lists could not filter by parent.
fn children_are_found(server: &Server) {
    let parent = server.get("/api/psa/tickets?q=parent")["data"][0].clone();
    let found = server.get(&format!("/api/psa/tickets?parent_id={}", parent["id"].as_str().unwrap()))["data"].clone();
    let subjects: Vec<&str> = found.as_array().unwrap().iter().filter_map(|child| child["subject"].as_str()).collect();
    assert_eq!(subjects, ["Child 2", "Child 1"]);
}

/// Up to format 4 a staff address was unique on the installation. Its owner signs in as before, and other tenants can now use it
/// too.
fn addresses_can_be_shared(server: &Server) {
    let login = || server.post("/api/auth/login", &serde_json::json!({"email": "ada@kept.example", "password": KEPT_PASSWORD}));
    assert_eq!(login()["user"]["email"], "ada@kept.example");
    server.json(&["user", "create", "ada@kept.example", "--tenant", "demo"]);
    assert_eq!(login()["user"]["email"], "ada@kept.example");
    let both = refused(&server.run(&["user", "reset-password", "ada@kept.example"]), 1);
    assert!(both.contains("several tenants"), "{both}");
    server.json(&["user", "reset-password", "ada@kept.example", "--tenant", "demo"]);
}

/// In the store of format 6 a run waits for 20 seconds that are long over. Its entry was on the timeline that standard tenants
/// shared.
fn a_run_that_waited_goes_on(server: &Server) {
    let key = server.json(&["key", "create", "reader", "--tenant", "kept", "--scope", "workflows:read"])["key"].clone();
    let path = "/api/psa/workflows/trigger/runs/run_01m7mrz18eeffrpfba4j4ftd40";
    // The run times out a day after its start, and is removed months later.
    while server.get_as(key.as_str().unwrap(), path).contains(r#""status":"waiting""#) {}
}

/// Up to format 7 imports declared whether a device is backed up, regardless of its jobs.
fn reports_agree_on_protection(server: &Server) {
    let key = server.json(&["key", "create", "reports", "--tenant", "kept", "--scope", "*"])["key"].as_str().unwrap().to_owned();
    let read = |path: &str| serde_json::from_str::<serde_json::Value>(&server.get_as(&key, path)).unwrap();
    let inventory = read("/api/rmm/reports/asset-inventory?summary=true&sections=summary,backup&limit=200");
    let row = |name: &str| {
        let rows = inventory["data"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!((&row("told")["tags"], &row("told")["backup"]["protected"]), (&serde_json::json!(["kept"]), &false.into()));
    assert_eq!((&row("told")["backup"]["eligible"], row("told")["backup"].get("last_success_at")), (&true.into(), None));
    assert!(row("backed")["backup"]["last_success_at"].is_string());
    assert_eq!(row("printer")["backup"], serde_json::json!({"eligible": false, "protected": false}));
    let totals = |names: [&str; 3], of: &serde_json::Value| names.map(|name| of[name].as_u64().unwrap());
    // The passing of time may change devices between the two.
    let report = loop {
        let inventory = read("/api/rmm/reports/asset-inventory?summary=true&limit=1")["totals"].clone();
        let report = read("/api/backup/customer-aggregate")["summary"].clone();
        let found = totals(["total", "eligible", "protected"], &report["devices"]);
        if found == totals(["devices", "backup_eligible", "protected"], &inventory) {
            break report;
        }
    };
    let rpo = ["ok", "at_risk", "breached", "pending"].map(|name| report["rpo"][name].as_u64().unwrap());
    assert_eq!(rpo.iter().sum::<u64>(), 2, "{report}");
    let config = read("/api/backup/config?scope=tenant");
    assert_eq!(config["own"]["notifications"]["resolve_on_recovery"], true, "{config}");
}

/// Up to format 5 all tenants shared the numbers of events. The positions of clients stay valid, and later events of other tenants
/// are not counted.
fn numbers_go_on(server: &Server) {
    let feed = |after: u64| server.get(&format!("/api/events?limit=200&after={after}"));
    let seqs = |feed: &serde_json::Value| -> Vec<u64> {
        feed["data"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let kept = seqs(&feed(0));
    assert!(kept.windows(2).all(|pair| pair[0] < pair[1]), "{kept:?}");
    for (place, seq) in kept.iter().enumerate() {
        assert!(seqs(&feed(*seq)).starts_with(&kept[place + 1..]), "after {seq}: {kept:?}");
    }
    let key = |name: &str, tenant: &str| server.json(&["key", "create", name, "--tenant", tenant, "--scope", "tickets:read"]);
    let created = || server.get("/api/events?limit=200&types=api_key.created")["data"].as_array().unwrap().last().unwrap().clone();
    key("first", "demo");
    let first = created();
    key("elsewhere", "kept");
    key("elsewhere too", "kept");
    key("second", "demo");
    let between = seqs(&feed(first["seq"].as_u64().unwrap()));
    assert_eq!(created()["data"]["api_key"]["name"], "second");
    let expected: Vec<u64> = (first["seq"].as_u64().unwrap() + 1..).take(between.len()).collect();
    assert_eq!(between, expected, "no gap, whatever else happens in the tenant");
    assert_eq!(first["data"]["api_key"]["name"], "first");
}

/// Raises the format, as a future release would.
fn raise_format(data: &Path) {
    let data = DataDirectory::lock(data).unwrap();
    let (store, installation) = data.open_store(SETTINGS, None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let written = runtime.block_on(store.write(move |tx| {
        let meta: Table<u8, Installation> = Table::new(catalog::META, &[]);
        meta.put(tx, &0, &Installation { format: FORMAT + 7, ..installation.clone() })
    }));
    written.unwrap();
}

#[test]
fn a_newer_store_is_refused_with_the_needed_release() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let path = data.display().to_string();
    // A start stores its release.
    assert_eq!(Server::start(&data).stop(), Some(0));
    raise_format(&data);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &path];
    for arguments in [&serve[..], &["upgrade", "check", "--data-dir", &path], &["check", "--data-dir", &path]] {
        let error = refused(&tenantd(arguments).output().unwrap(), 1);
        let expected = format!("has format {} and was last opened by tenantd {}", FORMAT + 7, env!("CARGO_PKG_VERSION"));
        assert!(error.contains(&expected), "{arguments:?}: {error}");
        assert!(error.contains("or newer again, or restore a snapshot made before the upgrade"), "{arguments:?}: {error}");
    }
}

#[test]
fn an_upgrade_is_checked_on_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let plan = server.json(&["upgrade", "check"]);
    assert_eq!((&plan["found_format"], &plan["through_formats"]), (&FORMAT.into(), &serde_json::json!([])), "{plan}");
    assert!(text(&server.run(&["upgrade", "check"]).stdout).contains("There is nothing to do."));
}
