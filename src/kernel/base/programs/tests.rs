//! The pool: results, refusals, turns, panics, stalled workers.

use super::*;
use crate::{clock::Timestamp, entropy::Entropy};

fn tenant(seed: u64) -> TenantId {
    TenantId::new(Timestamp::from_millis(1), &mut Entropy::from_seed(seed))
}

fn programs() -> Programs {
    Programs::new(Duration::from_mins(1), Shares::default()).unwrap()
}

#[tokio::test]
async fn a_job_gets_a_budget_and_returns_its_result() {
    let programs = programs();
    let left = programs.run(tenant(1), |budget| budget.charge(10).map(|()| budget.left())).await.unwrap();
    assert_eq!(left, Ok(63_999_990));
    assert_eq!(programs.run(tenant(1), |budget| budget.charge(u64::MAX)).await, Ok(Err(Exhausted)));
}

#[tokio::test]
async fn a_panic_does_not_stop_the_worker() {
    let programs = programs();
    assert_eq!(programs.run(tenant(1), |_| -> u8 { panic!("broken") }).await, Err(ProgramError::Failed));
    assert_eq!(programs.run(tenant(1), |_| 7).await, Ok(7));
}

#[tokio::test]
async fn a_tenant_waits_for_one_job_of_another() {
    let programs = programs();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (noisy, quiet) = (tenant(1), tenant(2));
    let first = tokio::spawn({
        let programs = programs.clone();
        async move { programs.run(noisy, move |_| held.recv().is_ok()).await }
    });
    while lock(&programs.usual.0.state).busy.iter().flatten().count() == 0 {
        tokio::task::yield_now().await;
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    let mut push = |owner, name: &'static str| {
        let (programs, order) = (programs.clone(), order.clone());
        waiting.push(tokio::spawn(async move { programs.run(owner, move |_| order.lock().unwrap().push(name)).await }));
    };
    for _ in 0..MAX_WAITING {
        push(noisy, "noisy");
    }
    tokio::task::yield_now().await;
    push(quiet, "quiet");
    tokio::task::yield_now().await;
    while lock(&programs.usual.0.state).waiting.owners_waiting() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(programs.run(noisy, |_| ()).await, Err(ProgramError::Busy));
    release.send(()).unwrap();
    assert_eq!(first.await.unwrap(), Ok(true));
    for job in waiting {
        job.await.unwrap().unwrap();
    }
    let place = order.lock().unwrap().iter().position(|name| *name == "quiet");
    assert_eq!(place, Some(0));
}

#[tokio::test]
async fn a_busy_tenant_has_a_low_priority_worker() {
    let (programs, usual) = (programs(), getpriority_process(None).unwrap());
    let priority = |_: &Budget| getpriority_process(None).unwrap();
    assert_eq!(programs.run(tenant(1), priority).await, Ok(usual));
    programs.shares.charge_processors(tenant(1), Duration::from_mins(1));
    assert_eq!(programs.run(tenant(1), priority).await, Ok(usual.max(LOW_PRIORITY)));
    assert_eq!(programs.run(tenant(2), priority).await, Ok(usual));
}
