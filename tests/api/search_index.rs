//! The index follows the log: a client finds its own writes immediately, and damaged files lose no data.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::{
    harness::{Actor, Setup, Tenant, TestApp, with_app},
    search::{search, titles},
    workflows::Desk,
};

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Waits until all searchable documents are also on disk.
async fn settled(app: &TestApp) {
    let written = async {
        let mut wanted = 0;
        loop {
            let status = app.local().get("/internal/admin/search").send().await.ok(200).clone();
            wanted = wanted.max(status["seq"].as_u64().unwrap());
            if status["durable_seq"].as_u64().unwrap() >= wanted {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), written).await.expect("the index is written");
}

async fn restarted(app: TestApp, between: impl FnOnce(&Path)) -> TestApp {
    let (directory, now) = app.stop().await;
    between(&directory.path().join("search"));
    TestApp::start(directory, &setup(), now).await
}

/// Damage to the index while no server runs.
type Damage = (&'static str, fn(&Path));

fn setup() -> Setup {
    Setup::default().with("rate_limits.enabled", false)
}

async fn started() -> TestApp {
    let now = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    TestApp::start(tempfile::tempdir().unwrap(), &setup(), now).await
}

async fn put(key: &Actor, id: &str, name: &str) {
    let lines = format!(
        "{}\n{}\n",
        json!({"kind": "organization", "external_id": "acme", "name": "Acme"}),
        json!({"kind": "device", "external_id": id, "name": name, "organization_external_id": "acme"})
    );
    key.post("/internal/ingest").text("application/x-ndjson", lines).send().await.lines(200);
}

async fn key_of(app: &TestApp) -> (String, Actor) {
    let tenant: Tenant<'_> = app.tenant("acme").await;
    let (key, record) = tenant.new_key("all", &["*"]).await;
    (record["key"].as_str().unwrap().to_owned(), key)
}

async fn rebuilds(app: &TestApp) -> u64 {
    app.local().get("/internal/admin/search").send().await.ok(200)["rebuilds"].as_u64().unwrap()
}

#[tokio::test]
async fn writes_are_searchable_immediately() {
    with_app(async |app| {
        let (_, key) = key_of(app).await;
        for round in 0..60 {
            put(&key, &format!("d{round}"), &format!("walrus-{round}")).await;
            assert_eq!(search(&key, "walrus", "").await["page"]["total"], round + 1);
        }
        for round in 0..30 {
            put(&key, &format!("d{round}"), &format!("otter-{round}")).await;
            assert_eq!(titles(&search(&key, &format!("otter-{round}"), "&types=device").await)[0], format!("otter-{round}"));
            assert_eq!(search(&key, "walrus", "").await["page"]["total"], 59 - round, "the old name is found no more");
        }
        let gone = json!({"kind": "device", "external_id": "d0", "deleted": true});
        let answers = key.post("/internal/ingest").text("application/x-ndjson", format!("{gone}\n")).send().await.lines(200);
        assert_eq!(answers[0]["status"], "removed", "{answers:?}");
        assert_eq!(search(&key, "otter", "").await["page"]["total"], 29);
    })
    .await;
}

#[tokio::test]
async fn flushed_documents_are_changed_and_removed() {
    let app = started().await;
    let (_, key) = key_of(&app).await;
    for number in 0..20 {
        put(&key, &format!("d{number}"), &format!("heron-{number}")).await;
    }
    assert_eq!(search(&key, "heron", "").await["page"]["total"], 20);
    settled(&app).await;
    put(&key, "d3", "stork-3").await;
    assert_eq!(search(&key, "heron", "").await["page"]["total"], 19);
    assert_eq!(titles(&search(&key, "stork", "").await), ["stork-3"]);
    settled(&app).await;
    assert_eq!(search(&key, "heron", "").await["page"]["total"], 19);
    assert_eq!(titles(&search(&key, "stork", "").await), ["stork-3"]);
    drop(app.stop().await);
}

#[tokio::test]
async fn an_index_is_reused_after_a_restart() {
    let app = started().await;
    let (secret, key) = key_of(&app).await;
    put(&key, "d1", "heron-1").await;
    assert_eq!(search(&key, "heron", "").await["page"]["total"], 1);
    settled(&app).await;
    put(&key, "d2", "heron-2").await;
    let app = restarted(app, |_| {}).await;
    let key = app.anonymous().bearer(&secret);
    assert_eq!(search(&key, "heron", "").await["page"]["total"], 2);
    assert_eq!(rebuilds(&app).await, 0, "it went on from where it was");
    drop(app.stop().await);
}

#[tokio::test]
async fn a_damaged_index_is_rebuilt_automatically() {
    let mut app = started().await;
    let (secret, key) = key_of(&app).await;
    for number in 0..30 {
        put(&key, &format!("d{number}"), &format!("heron-{number}")).await;
    }
    assert_eq!(search(&key, "heron", "").await["page"]["total"], 30);
    settled(&app).await;
    let damages: [Damage; 5] = [
        ("the directory is gone", |root| std::fs::remove_dir_all(root).unwrap()),
        ("bytes are flipped", |root| {
            let largest =
                files(root).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "term" || kind == "idx"));
            for path in largest {
                let mut bytes = std::fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0xff;
                std::fs::write(&path, bytes).unwrap();
            }
        }),
        ("files are cut", |root| {
            for path in files(root).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "fast")) {
                std::fs::write(&path, b"x").unwrap();
            }
        }),
        ("the list of segments is nonsense", |root| {
            for path in files(root).into_iter().filter(|path| path.ends_with("meta.json")) {
                std::fs::write(path, "{}").unwrap();
            }
        }),
        ("it has read further than the log goes", |root| {
            for path in files(root).into_iter().filter(|path| path.ends_with("meta.json")) {
                let text = std::fs::read_to_string(&path).unwrap().replace("\\\"seq\\\":", "\\\"seq\\\":9");
                std::fs::write(path, text).unwrap();
            }
        }),
    ];
    for (what, damage) in damages {
        app = restarted(app, damage).await;
        let key = app.anonymous().bearer(&secret);
        assert_eq!(search(&key, "heron", "").await["page"]["total"], 30, "{what}");
        assert_eq!(rebuilds(&app).await, 1, "{what}");
        settled(&app).await;
    }
    drop(app.stop().await);
}

#[tokio::test]
async fn searches_work_during_a_rebuild() {
    with_app(async |app| {
        let (_, key) = key_of(app).await;
        put(&key, "d1", "heron-1").await;
        assert_eq!(search(&key, "heron", "").await["page"]["total"], 1);
        let before = rebuilds(app).await;
        app.local().post("/internal/admin/search/reindex").send().await.ok(200);
        for number in 2..200 {
            put(&key, &format!("d{number}"), &format!("heron-{number}")).await;
            assert_eq!(search(&key, "heron", "").await["page"]["total"], number);
            if rebuilds(app).await > before {
                return;
            }
        }
        panic!("the index was not rebuilt");
    })
    .await;
}

#[tokio::test]
async fn a_step_of_a_workflow_searches() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let steps = json!([
            {"id": "ticket", "type": "ticket.create", "with": {"subject": "Capybara loose", "organization_id": desk.organization}},
            {"id": "look", "type": "search.query", "with": {"q": "{{ inputs.what }} type:ticket", "limit": 5}},
            {"id": "end", "type": "return", "with": {"output": {"total": "{{ steps.look.output.total }}", "first": "{{ steps.look.output.hits[0].title }}"}}},
        ]);
        desk.workflow("finder", steps).await;
        let run = desk.start("finder", json!({"what": "capibara"})).await;
        let ended = desk.status(&run, "succeeded").await;
        assert_eq!(ended["output"], json!({"total": 1, "first": "Capybara loose"}), "its own ticket is found");
        let wrong = desk.start("finder", json!({"what": "colour:red"})).await;
        assert_eq!(desk.status(&wrong, "failed").await["error"]["code"], "invalid_input");
    })
    .await;
}
