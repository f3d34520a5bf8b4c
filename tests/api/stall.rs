//! A stalled writer: probes, metrics and changes report it immediately, reads still work, and everything works again afterwards.

use std::time::Duration;

use serde_json::json;

use tenantd_store::{Store, StoreError};

use crate::harness::{TestApp, with_app};

/// Keeps the writer busy until it is dropped.
struct Hold {
    release: std::sync::mpsc::Sender<()>,
    writing: tokio::task::JoinHandle<Result<(), StoreError>>,
}

impl Hold {
    async fn start(store: &Store) -> Self {
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (release, held) = std::sync::mpsc::channel();
        let (store, mut began) = (store.clone(), Some(began));
        let writing = tokio::spawn(async move {
            let hold = move |_: &mut _| {
                let _ = began.take().map(|began| began.send(()));
                held.recv().map_err(StoreError::engine)
            };
            store.write(hold).await
        });
        has_begun.await.unwrap();
        Self { release, writing }
    }

    async fn end(self) {
        self.release.send(()).unwrap();
        self.writing.await.unwrap().unwrap();
    }
}

async fn metric(app: &TestApp, name: &str) -> f64 {
    let text = app.local().get("/metrics").send().await.text;
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn a_stalled_writer_refuses_changes_immediately() {
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["*"]).await;
        let store = &app.running().app.store;
        let hold = Hold::start(store).await;
        store.set_writer_patience(Duration::ZERO);

        let ready = app.anonymous().get("/readyz").send().await;
        assert_eq!(ready.ok(503)["failing"], json!(["storage"]));
        assert!(ready.body["reasons"]["storage"].as_str().unwrap().contains("accepts no writes"), "{}", ready.text);
        assert_eq!(app.status("storage").await, ("down".to_owned(), "down".to_owned()));
        assert!(metric(app, "tenantd_store_writer_stalled").await > 0.0);
        assert!(metric(app, "tenantd_store_writer_busy_seconds").await > 0.0);

        key.get("/api/admin/api-keys").send().await.ok(200);
        let body = json!({"name": "Late", "scopes": ["tickets:read"]});
        let refused = key.post("/api/admin/api-keys").json(body.clone()).send().await;
        assert_eq!((refused.problem(503), &refused.body["reason"]), ("unavailable", &json!("writer_stalled")));
        assert!(!refused.text.contains("--offline"), "a tenant cannot do anything about it: {}", refused.text);
        let refused = app.local().post("/api/platform/tenants").json(json!({"name": "Late"})).send().await;
        assert!(refused.problem(503) == "unavailable" && refused.text.contains("--offline"), "{}", refused.text);

        store.set_writer_patience(Duration::from_secs(10));
        hold.end().await;
        key.post("/api/admin/api-keys").json(body).send().await.ok(201);
        assert_eq!(app.anonymous().get("/readyz").send().await.ok(200)["status"], "ready");
    })
    .await;
}
