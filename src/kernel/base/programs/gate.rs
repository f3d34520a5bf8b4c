//! Limits concurrent work that computes without waiting, such as a search. Tenants take turns, by the time that they have used.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::oneshot;

use super::{
    instant,
    turns::{Full, Turns},
};
use crate::id::TenantId;

/// Places that tenants share. Clones share the same places.
#[derive(Clone, Debug)]
pub struct FairGate(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    waiting: Turns<TenantId, oneshot::Sender<GatePermit>>,
    /// How many requests of one tenant may wait.
    most: usize,
}

/// A place that is taken. Dropping it gives the place to the next in turn.
#[derive(Debug)]
pub struct GatePermit {
    gate: FairGate,
    tenant: TenantId,
    began: Instant,
}

impl FairGate {
    pub fn new(places: usize, most: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: places, waiting: Turns::default(), most })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. Fails if too many requests of the tenant already wait.
    pub async fn enter(&self, tenant: TenantId) -> Result<GatePermit, Full> {
        let waits = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(self.permit(tenant));
            }
            let (turn, waits) = oneshot::channel();
            let most = state.most;
            state.waiting.push(tenant, turn, most)?;
            waits
        };
        waits.await.map_err(|_| Full)
    }

    fn permit(&self, tenant: TenantId) -> GatePermit {
        GatePermit { gate: self.clone(), tenant, began: instant() }
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        let used = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        let mut turn = {
            let mut state = self.gate.state();
            state.waiting.charge(self.tenant, used);
            let next = state.waiting.pop();
            state.free += usize::from(next.is_none());
            next
        };
        // The lock is released first, because a permit that nobody waits for any more is dropped here and takes the lock again.
        if let Some((tenant, waiting)) = turn.take() {
            drop(waiting.send(self.gate.permit(tenant)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Timestamp, entropy::Entropy};

    fn tenant(seed: u64) -> TenantId {
        TenantId::new(Timestamp::from_millis(1), &mut Entropy::from_seed(seed))
    }

    #[tokio::test]
    async fn a_flood_of_one_tenant_delays_another_by_one_turn() {
        let gate = FairGate::new(1, 100);
        let first = gate.enter(tenant(1)).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for seed in std::iter::repeat_n(1, 50).chain([2]) {
            let (gate, order) = (gate.clone(), order.clone());
            waiting.push(tokio::spawn(async move {
                let permit = gate.enter(tenant(seed)).await.unwrap();
                order.lock().unwrap().push(seed);
                drop(permit);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for job in waiting {
            job.await.unwrap();
        }
        assert!(order.lock().unwrap().iter().position(|seed| *seed == 2).unwrap() <= 1);
        assert_eq!(gate.state().free, 1);
    }

    #[tokio::test]
    async fn an_aborted_waiter_loses_no_place() {
        let gate = FairGate::new(1, 1);
        let first = gate.enter(tenant(1)).await.unwrap();
        let other = gate.clone();
        let waiting = tokio::spawn(async move { other.enter(tenant(2)).await.map(drop) });
        tokio::task::yield_now().await;
        assert_eq!(gate.enter(tenant(2)).await.map(drop), Err(Full));
        waiting.abort();
        assert!(waiting.await.is_err());
        drop(first);
        assert_eq!(gate.state().free, 1);
        gate.enter(tenant(3)).await.unwrap();
    }
}
