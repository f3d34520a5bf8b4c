//! A webhook endpoint as a test looks at it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Actor, Reply, Tenant};

pub const WEBHOOKS: &str = "/api/admin/webhooks";

/// An endpoint, and who may look at it.
pub struct Endpoint {
    pub admin: Actor,
    pub path: String,
}

impl Endpoint {
    /// An endpoint for `api_key.created`, unless `more` says otherwise, and a key to look at it.
    pub async fn new(tenant: &Tenant<'_>, url: &str, more: Value) -> Self {
        Self::of(tenant.key(&["*"]).await, url, more).await
    }

    /// As [`Self::new`], for somebody who is there already.
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

    /// `pause`, `resume`, `enable`, `test` and the like.
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

    /// Asks until the deliveries are as wanted: what is written down comes after what was received.
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

    /// The newest delivery, once it has had so many attempts.
    pub async fn until_attempts(&self, count: u64) -> Value {
        self.until(|found| found.first().is_some_and(|first| first["attempt_count"] == count)).await[0].clone()
    }

    /// All deliveries, once each is in this state.
    pub async fn until_all(&self, count: usize, status: &str) -> Vec<Value> {
        self.until(|found| found.len() == count && found.iter().all(|delivery| delivery["status"] == status)).await
    }
}
