//! Events without readers, to make a log long.

use serde_json::value::RawValue;

use tenantd_base::access::Grants;
use tenantd_store::{
    StoreError, WriteTx,
    events::{self, Actor, Draft, EventKind, Intent},
};

use super::{Tenant, TestApp};

static KIND: EventKind = EventKind {
    name: "organization.updated",
    summary: "",
    subject: "organization",
    schema: "Organization",
    reads: Grants::NONE,
    has_changes: false,
};

impl Tenant<'_> {
    /// Appends this number of irrelevant events to the log.
    pub async fn fill_log(&self, app: &TestApp, count: usize) {
        let intent = Intent::new(self.id.parse().unwrap(), app.now(), Actor::system("test"));
        let mut left = count;
        while left > 0 {
            let (step, intent) = (left.min(4096), intent.clone());
            let append = move |tx: &mut WriteTx| {
                let mut act = intent.begin();
                let record = RawValue::from_string("{}".to_owned()).unwrap();
                for _ in 0..step {
                    events::append(tx, &mut act, &Draft::new(&KIND, "org_x".to_owned(), 1, &record))?;
                }
                Ok::<_, StoreError>(())
            };
            app.running().app.store.write(append).await.unwrap();
            left -= step;
        }
    }
}
