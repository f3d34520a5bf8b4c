//! The backup history of a device: its jobs by day, for readers that reach the device.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    backup::{device, ids, job, organization},
    harness::with_app,
    inventory::ingest,
};

#[tokio::test]
async fn the_history_counts_the_jobs_of_each_day() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["ingest:write", "backup:read", "directory:read"]).await;
        let mut running = job("4", "srv", "running", "2025-12-31T22:00:00Z");
        running.as_object_mut().unwrap().remove("ended_at");
        let lines = [
            organization("acme"),
            device("srv", "acme", "server"),
            device("other", "acme", "server"),
            job("1", "srv", "success", "2025-12-31T00:00:00Z"),
            job("2", "srv", "failed", "2025-12-31T23:59:59Z"),
            job("3", "srv", "warning", "2025-12-29T12:00:00Z"),
            job("5", "srv", "cancelled", "2025-12-29T13:00:00Z"),
            running,
            job("1", "other", "failed", "2025-12-30T12:00:00Z"),
        ];
        let made = ingest(&key, &lines).await;
        let srv = ids(&made)[1].clone();
        let path = format!("/api/backup/devices/{srv}/history");
        let history = key.get(&format!("{path}?days=4")).send().await.ok(200).clone();
        let day = |start: &str, [succeeded, warning, failed, cancelled, running]: [u32; 5], bytes: Option<u64>| {
            let mut day = json!({"start": format!("{start}T00:00:00.000Z"), "succeeded": succeeded, "warning": warning, "failed": failed,
                "cancelled": cancelled, "running": running, "more": false});
            if let Some(bytes) = bytes {
                day["bytes"] = bytes.into();
            }
            day
        };
        let expected = json!({"device_id": srv, "days": [
            day("2025-12-29", [0, 1, 0, 1, 0], history["days"][0]["bytes"].as_u64()),
            day("2025-12-30", [0; 5], None),
            day("2025-12-31", [1, 0, 1, 0, 1], history["days"][2]["bytes"].as_u64()),
            day("2026-01-01", [0; 5], None),
        ]});
        assert_eq!(history, expected);
        assert_eq!(history["days"][2]["bytes"], 1000, "a job that failed made no restore point");
        assert_eq!(key.get(&path).send().await.ok(200)["days"].as_array().unwrap().len(), 30);
        for wrong in ["days=0", "days=121", "days=x", "day=1"] {
            assert!(matches!(key.get(&format!("{path}?{wrong}")).send().await.status, 400 | 422), "{wrong}");
        }
        // A day later, the same days are one further back.
        app.advance(Duration::from_hours(24));
        let later = key.get(&format!("{path}?days=4")).send().await.ok(200).clone();
        assert_eq!(later["days"][1], history["days"][2]);

        let unknown = "/api/backup/devices/dev_01k9z7w3v5e8g9m2n4p6r8t0x1/history";
        let stranger = app.tenant("beta").await.key(&["backup:read"]).await;
        let lacking = tenant.key(&["directory:read"]).await;
        let elsewhere = tenant.organization("Elsewhere").await;
        let restricted = json!({"name": "Restricted", "scopes": ["backup:read"], "organization_ids": [elsewhere]});
        let restricted: Value = tenant.admin().await.post("/api/admin/api-keys").json(restricted).send().await.ok(201).clone();
        let restricted = app.anonymous().bearer(restricted["key"].as_str().unwrap());
        for (actor, path, status) in
            [(&key, unknown, 404), (&stranger, path.as_str(), 404), (&restricted, path.as_str(), 404), (&lacking, path.as_str(), 403)]
        {
            assert_eq!(actor.get(path).send().await.status, status, "{path}");
        }
        let page = key.clone().with("accept", "text/html").get(&format!("/devices/{srv}")).send().await;
        assert!(page.text.contains("The last 30 days"), "{}", page.text);
        assert!(page.text.contains("31 Dec 2025: backed up, 3 jobs, 1 failed") && page.text.contains("30 Dec 2025: no backup"), "{}", page.text);
    })
    .await;
}
