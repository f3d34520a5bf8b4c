//! One cause leads to a bounded number of runs and records, however workflows trigger each other.

use serde_json::{Value, json};

use crate::{
    harness::{Setup, with_setup},
    workflows::Desk,
};

/// Every ticket creates ten more.
fn breeding(desk: &Desk) -> Value {
    let make = json!({"id": "make", "type": "ticket.create", "with": {"subject": "more", "organization_id": desk.organization}});
    let items: Vec<u8> = (0..10).collect();
    json!({
        "key": "breed", "name": "Breed",
        "triggers": [{"type": "event", "event": "ticket.created"}],
        "steps": [{"id": "each", "type": "for_each", "with": {"items": items, "steps": [make], "max_parallel": 10}}],
    })
}

#[tokio::test]
async fn one_ticket_does_not_fill_the_disk() {
    with_setup(Setup::default().with("workflows.max_descendants", 100), async |app| {
        let desk = Desk::new(app, "acme").await;
        desk.create(breeding(&desk)).await;
        desk.ticket("first").await;
        let ended = async {
            loop {
                let (failed, open) = (desk.runs("&status=failed").await, desk.runs("&status=queued,running,waiting").await);
                if !failed.is_empty() && open.is_empty() {
                    return failed;
                }
            }
        };
        let failed = tokio::time::timeout(std::time::Duration::from_mins(1), ended).await.expect("the runs end");
        assert!(failed.iter().any(|run| run["error"]["code"] == "too_many_descendants"), "{failed:?}");
        let tickets = desk.tickets().await.len();
        let runs = desk.runs("&limit=200").await.len();
        // A person created the first ticket. Its run caused all others.
        assert!(tickets <= 101 && tickets > 50, "{tickets} tickets, {runs} runs");
        // Another cause has its own budget.
        desk.ticket("second").await;
    })
    .await;
}
