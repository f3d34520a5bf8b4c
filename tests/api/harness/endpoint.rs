//! A webhook endpoint, observed by a test.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Actor, Reply, Tenant};

pub const WEBHOOKS: &str = "/api/admin/webhooks";

/// An endpoint, and an actor that may read it.
pub struct Endpoint {
    pub admin: Actor,
    pub path: String,
}

impl Endpoint {
    /// An endpoint for `api_key.created`, unless `more` overrides it, and a key to read it.
    pub async fn new(tenant: &Tenant<'_>, url: &str, more: Value) -> Self {
        Self::of(tenant.key(&["*"]).await, url, more).await
    }

    /// Like [`Self::new`], for an existing actor.
    pub async fn of(admin: Actor, url: &str, more: Value) -> Self {
        let mut body = json!({"name": "Test", "url": url, "events": ["api_key.created"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let created = admin.post(WEBHOOKS).json(body).send().await;
        let path = format!("{WEBHOOKS}/{}", created.ok(201)["id"].as_str().unwrap());
        Self { admin, path }
    }

    pub async fn read(&self) -> Value {
        self.admin.get(&self.path).send().await.ok(200).clone()
    }

    /// Calls `pause`, `resume`, `enable`, `test` and so on.
    pub async fn ask(&self, operation: &str) -> Reply {
        self.admin.post(&format!("{}/{operation}", self.path)).send().await
    }

    pub async fn stats(&self, range: &str) -> Value {
        self.admin.get(&format!("{}/stats?range={range}", self.path)).send().await.ok(200)["total"].clone()
    }

    pub async fn deliveries(&self) -> Vec<Value> {
        self.admin.get(&format!("{}/deliveries?limit=200", self.path)).send().await.ok(200)["data"].as_array().unwrap().clone()
    }

    pub async fn attempts(&self, delivery: &Value) -> Vec<Value> {
        let path = format!("{}/deliveries/{}", self.path, delivery["id"].as_str().unwrap());
        self.admin.get(&path).send().await.ok(200)["attempts"].as_array().unwrap().clone()
    }

    /// Reads the deliveries until the condition is true. They are stored after the receiver got them.
    pub async fn until(&self, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let asking = async {
            loop {
                let found = self.deliveries().await;
                if wanted(&found) {
                    return found;
                }
            }
        };
        if let Ok(found) = tokio::time::timeout(Duration::from_secs(30), asking).await {
            return found;
        }
        panic!("the deliveries did not become what they should: {:#?}", self.deliveries().await);
    }

    /// The newest delivery, once it has this number of attempts.
    pub async fn until_attempts(&self, count: u64) -> Value {
        self.until(|found| found.first().is_some_and(|first| first["attempt_count"] == count)).await[0].clone()
    }

    /// All deliveries, once each has this status.
    pub async fn until_all(&self, count: usize, status: &str) -> Vec<Value> {
        self.until(|found| found.len() == count && found.iter().all(|delivery| delivery["status"] == status)).await
    }
}
