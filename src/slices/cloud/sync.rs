//! Looks at every provider's fleet in its turn and brings what we know up to date. A look is paged, bounded in time and in VMs, and
//! counts only as a whole: a fleet that was told in part makes no VM missing. VMs that cannot be read in full are listed with what is known.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tenantd_base::{clock::Timestamp, clocks::Reading};
use tenantd_store::{
    Due, Key, KeyRange, StoreError, WriteTx,
    catalog::{self, TableName},
    events::{Act, Actor, Intent},
};

use super::{
    Core,
    adapters::{self, SIMULATED_VMS},
    error::CloudError,
    model::{CloudVm, Failure, FailureClass, Provider, SyncError, SyncGaps, Vm},
    repo::{
        providers::{self, ProviderKey},
        vms,
    },
    service::{Service, SyncChange, SyncCounts, SyncEnd},
    worker::Work,
};

/// For the whole look at one fleet.
const TIME_LIMIT: Duration = Duration::from_mins(2);
/// Changes of one transaction, and rows of a deleted provider that one removes.
const BATCH: usize = 200;
/// VMs of one provider.
const MOST_VMS: usize = 20_000;
/// How long a VM that is gone stays listed.
const KEEP_ENDED: Duration = Duration::from_hours(24 * 7);

#[derive(Clone, Debug)]
pub(super) struct Syncs(pub(super) Arc<Core>);

impl Work for Syncs {
    type Key = ProviderKey;

    const NAME: &'static str = "cloud_sync";
    const TABLE: TableName = catalog::CLOUD_SYNCS;
    const IN_FLIGHT: usize = 128;

    fn due(
        &self,
        reading: &Reading,
        limit: usize,
        wanted: impl FnMut(&ProviderKey) -> bool,
    ) -> Result<Due<ProviderKey>, StoreError> {
        self.0.store.read(|tx| providers::due(tx, reading, limit, wanted))
    }

    async fn run(&self, key: ProviderKey) -> Result<(), StoreError> {
        let Some(provider) = self.0.store.read::<_, StoreError>(|tx| providers::get(tx, key))? else {
            return self.forget(key).await;
        };
        let started_at = self.0.clocks.now(key.0);
        let looked = tokio::time::timeout(TIME_LIMIT, self.look(&provider)).await;
        let looked = looked
            .unwrap_or_else(|_| Err(Failure::new(FailureClass::Timeout, "timeout", "the provider did not tell its fleet in time")));
        let result = match looked {
            Ok(fleet) => {
                self.take_up(&provider, &fleet).await?;
                Ok(fleet.counts())
            }
            Err(failure) => {
                tracing::info!(provider = %provider.id, class = failure.class.name(), code = failure.code, "a sync failed");
                Err(SyncError::new(&failure, started_at))
            }
        };
        metrics::counter!("tenantd_cloud_syncs_total", "result" => if result.is_ok() { "ok" } else { "failed" }).increment(1);
        let end = SyncEnd { started_at, result };
        self.write(&provider, move |tx, act, provider| Service::end_sync(tx, act, provider, &end)).await
    }
}

impl Syncs {
    /// The whole fleet as the cloud tells it.
    async fn look(&self, provider: &Provider) -> Result<Fleet, Failure> {
        let (adapter, access) = self.0.reach(provider, TIME_LIMIT)?;
        whole_fleet(adapter, &access).await
    }

    async fn take_up(&self, provider: &Provider, fleet: &Fleet) -> Result<(), StoreError> {
        let (key, now) = ((provider.tenant_id, provider.id), self.0.clocks.now(provider.tenant_id));
        let known = self.0.store.scan(move |tx| vms::of_provider(tx, key, usize::MAX)).await?;
        let changes = differences(&known, fleet, now);
        for batch in changes.chunks(BATCH) {
            let batch = batch.to_vec();
            self.write(provider, move |tx, act, provider| Service::apply_sync(tx, act, provider, &batch)).await?;
        }
        Ok(())
    }

    /// Runs a use case of the sync. What the use case itself refuses is a defect: it is told and does not stop the syncs.
    async fn write(
        &self,
        provider: &Provider,
        mut work: impl FnMut(&mut WriteTx, &mut Act, &Provider) -> Result<(), CloudError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let intent = Intent::new(provider.tenant_id, self.0.clocks.now(provider.tenant_id), Actor::system("Cloud sync"));
        let provider = provider.clone();
        let written = self.0.store.write(move |tx| work(tx, &mut intent.begin(), &provider)).await;
        written.map_err(|error: CloudError| match error {
            CloudError::Store(error) => error,
            other => StoreError::engine(other),
        })
    }

    /// Removes what is left of a deleted provider, in bounded parts.
    async fn forget(&self, key: ProviderKey) -> Result<(), StoreError> {
        loop {
            let more = self.0.store.write(move |tx| {
                let left = vms::of_provider(tx, key, BATCH)?;
                for vm in &left {
                    vms::remove(tx, vm)?;
                }
                let simulated = SIMULATED_VMS.list(tx, &KeyRange::prefix(&key.to_bytes()), BATCH)?;
                for (row, _) in &simulated {
                    SIMULATED_VMS.remove(tx, row)?;
                }
                if left.is_empty() && simulated.is_empty() {
                    providers::SYNCS.remove(tx, &key)?;
                    return Ok::<_, StoreError>(false);
                }
                Ok(true)
            });
            if !more.await? {
                return Ok(());
            }
        }
    }
}

/// A fleet as its cloud tells it.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) vms: Vec<CloudVm>,
    /// Why entries are missing from it.
    pub(super) skipped: Vec<String>,
}

impl Fleet {
    pub(super) fn counts(&self) -> SyncCounts {
        SyncCounts { vms: self.vms.len() as u64, gaps: SyncGaps::of(&self.vms, &self.skipped) }
    }
}

/// The whole fleet behind an adapter.
pub(super) async fn whole_fleet(adapter: &dyn adapters::Adapter, access: &adapters::Access) -> Result<Fleet, Failure> {
    let conceal = |mut failure: Failure| {
        failure.message = access.credential.conceal(&failure.message);
        failure
    };
    let (mut vms, mut skipped, mut known, mut from) = (Vec::new(), Vec::new(), HashSet::new(), None::<String>);
    loop {
        let page = adapter.list(access, from.as_deref()).await.map_err(conceal)?;
        // A VM that moved between pages is told twice.
        vms.extend(page.vms.into_iter().filter(|vm| known.insert(vm.provider_vm_id.clone())));
        skipped.extend(page.skipped);
        if vms.len() + skipped.len() > MOST_VMS {
            let message = format!("the fleet has more than {MOST_VMS} VMs: split it by regions over several providers");
            return Err(Failure::new(FailureClass::InvalidRequest, "too_many_vms", message));
        }
        if page.next.is_none() || page.next == from {
            return Ok(Fleet { vms, skipped });
        }
        from = page.next;
    }
}

/// What has changed since the last sync. An entry without a readable id may be any VM, so such a fleet makes no VM missing.
pub(super) fn differences(known: &[Vm], fleet: &Fleet, now: Timestamp) -> Vec<SyncChange> {
    let Fleet { vms: fleet, skipped } = fleet;
    let by_id: HashMap<&str, &Vm> = known.iter().map(|vm| (vm.facts.provider_vm_id.as_str(), vm)).collect();
    let told: HashSet<&str> = fleet.iter().map(|vm| vm.provider_vm_id.as_str()).collect();
    let news = |facts: &&CloudVm| by_id.get(facts.provider_vm_id.as_str()).is_none_or(|vm| vm.facts != **facts || vm.missed > 0);
    let seen = fleet.iter().filter(news).cloned().map(|facts| SyncChange::Seen(Box::new(facts)));
    let silent = known.iter().filter(|vm| !told.contains(vm.facts.provider_vm_id.as_str()));
    let missing = silent.filter_map(|vm| match vm.ended_at {
        Some(ended) => (now.since(ended) > KEEP_ENDED).then_some(SyncChange::Forget(vm.id)),
        // One that is being created is its operation's.
        None => (vm.is_known() && skipped.is_empty()).then_some(SyncChange::Missed(vm.id)),
    });
    seen.chain(missing).collect()
}

impl Core {
    /// The adapter of a provider, and a way to its cloud for this long.
    pub(super) fn reach(&self, provider: &Provider, time: Duration) -> Result<(&dyn adapters::Adapter, adapters::Access), Failure> {
        let broken = |error: CloudError| {
            tracing::error!(provider = %provider.id, %error, "the credential of a provider cannot be opened");
            Failure::new(FailureClass::InvalidCredentials, "sealed", "the stored credential cannot be opened: set it again")
        };
        let credential = self.service.unseal(provider).map_err(broken)?;
        Ok(self.access(provider.tenant_id, Some(provider.id), (provider.kind, provider.config.clone(), credential), time))
    }
}
