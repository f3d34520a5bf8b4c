//! Internal errors: clients get a code and the id of the request. Only the log has the cause.

use serde::{Deserialize, Serialize};
use serde_json::json;

use tenantd_base::id::{TenantId, WorkflowId};
use tenantd_store::{Counts, KeyRange, Table, catalog, codec::Record};

use crate::{
    harness::{Log, with_app},
    legacy::NEW_WORKFLOWS,
    workflows::{PATH, set},
};

/// A record that this release cannot read.
#[derive(Serialize, Deserialize)]
struct Damaged(String);

impl Record for Damaged {
    const VERSION: u8 = 250;

    /// The replaced record does not matter.
    fn upgrade(_: u8, _: &[u8]) -> Result<Self, String> {
        Ok(Self(String::new()))
    }
}

static DAMAGED: Table<(TenantId, WorkflowId), Damaged> = Table::new(catalog::WORKFLOWS, &[]).counting(Counts::Records);

#[tokio::test]
async fn internal_causes_are_only_in_the_log() {
    let log = Log::listen();
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let definition = json!({"key": "x", "name": "X", "steps": [set("a", json!(1))]});
        let made = admin.post(PATH).json(json!({"action": "create", "definition": definition})).send().await.ok(201).clone();
        let store = &app.running().app.store;
        let whole = store.read(|tx| NEW_WORKFLOWS.list(tx, &KeyRange::ALL, usize::MAX)).unwrap().remove(0);
        let key = whole.0;
        store.write(move |tx| DAMAGED.put(tx, &key, &Damaged("canary-of-the-record".to_owned()))).await.unwrap();

        let id = made["id"].as_str().unwrap();
        let read = admin.get(&format!("{PATH}?id={id}")).send().await;
        let change = admin.patch(&format!("{PATH}?id={id}")).json(json!({"name": "Y"})).send().await;
        let start = admin.post(PATH).json(json!({"workflow_key": "x"})).send().await;
        for reply in [read, change, start] {
            assert_eq!(reply.problem(500), "internal_error", "{}", reply.text);
            let members = reply.body.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>();
            assert_eq!(members, ["code", "detail", "instance", "request_id", "status", "title", "type"]);
            let directory = app.data_directory().display().to_string();
            for inside in ["damaged", "250", "canary", "redb", ".rs", "key ", "panicked", directory.as_str()] {
                assert!(!reply.text.contains(inside), "it tells {inside}: {}", reply.text);
            }
            let request = reply.body["request_id"].as_str().unwrap();
            let lines = log.text();
            let line = lines.lines().find(|line| line.contains(request)).expect("the log names the request");
            assert!(line.contains("format version 250"), "the log has the cause: {line}");
        }
        let restored = store.write(move |tx| {
            DAMAGED.remove(tx, &key)?;
            NEW_WORKFLOWS.put(tx, &key, &whole.1)
        });
        restored.await.unwrap();
    })
    .await;
}
