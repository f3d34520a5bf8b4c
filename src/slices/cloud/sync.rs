//! Lists the VMs of every enabled provider at its interval and updates the store. A sync reads page by page, with a limit on time
//! and on the number of VMs. It counts only as a whole: an incomplete list makes no VM missing. A VM with unreadable fields is
//! stored with the fields that could be read.

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

/// The time limit of one sync.
const TIME_LIMIT: Duration = Duration::from_mins(2);
/// The number of changes, or of removed rows of a deleted provider, in one transaction.
const BATCH: usize = 200;
/// The limit on the VMs of one provider.
const MAX_VMS: usize = 20_000;
/// How long an ended VM stays listed.
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
            return self.remove_rows(key).await;
        };
        let started_at = self.0.clocks.now(key.0);
        let listed = tokio::time::timeout(TIME_LIMIT, self.list_fleet(&provider)).await;
        let listed = listed.unwrap_or_else(|_| {
            Err(Failure::new(FailureClass::Timeout, "timeout", "the provider did not return the complete list of VMs in time"))
        });
        let result = match listed {
            Ok(fleet) => {
                self.apply_fleet(&provider, &fleet).await?;
                Ok(fleet.counts())
            }
            Err(failure) => {
                tracing::info!(provider = %provider.id, class = failure.class.name(), code = failure.code, "a provider sync failed");
                Err(SyncError::new(&failure, started_at))
            }
        };
        metrics::counter!("tenantd_cloud_syncs_total", "result" => if result.is_ok() { "ok" } else { "failed" }).increment(1);
        let end = SyncEnd { started_at, result };
        self.write(&provider, move |tx, act, provider| Service::end_sync(tx, act, provider, &end)).await
    }
}

impl Syncs {
    async fn list_fleet(&self, provider: &Provider) -> Result<Fleet, Failure> {
        let (adapter, access) = self.0.reach(provider, TIME_LIMIT)?;
        whole_fleet(adapter, &access).await
    }

    async fn apply_fleet(&self, provider: &Provider, fleet: &Fleet) -> Result<(), StoreError> {
        let (key, now) = ((provider.tenant_id, provider.id), self.0.clocks.now(provider.tenant_id));
        let known = self.0.store.scan(move |tx| vms::of_provider(tx, key, usize::MAX)).await?;
        let changes = differences(&known, fleet, now);
        for batch in changes.chunks(BATCH) {
            let batch = batch.to_vec();
            self.write(provider, move |tx, act, provider| Service::apply_sync(tx, act, provider, &batch)).await?;
        }
        Ok(())
    }

    /// Runs a use case of the sync. An error of the use case itself is a defect. It is reported and does not stop other syncs.
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

    /// Removes the remaining rows of a deleted provider, in batches.
    async fn remove_rows(&self, key: ProviderKey) -> Result<(), StoreError> {
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

/// All VMs that a cloud returned.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) vms: Vec<CloudVm>,
    /// The reasons why entries were skipped.
    pub(super) skipped: Vec<String>,
}

impl Fleet {
    pub(super) fn counts(&self) -> SyncCounts {
        SyncCounts { vms: self.vms.len() as u64, gaps: SyncGaps::of(&self.vms, &self.skipped) }
    }
}

/// Reads all pages of VMs from an adapter.
pub(super) async fn whole_fleet(adapter: &dyn adapters::Adapter, access: &adapters::Access) -> Result<Fleet, Failure> {
    let conceal = |mut failure: Failure| {
        failure.message = access.credential.conceal(&failure.message);
        failure
    };
    let (mut vms, mut skipped, mut known, mut from) = (Vec::new(), Vec::new(), HashSet::new(), None::<String>);
    loop {
        let page = adapter.list(access, from.as_deref()).await.map_err(conceal)?;
        // A VM that moved between pages appears twice.
        vms.extend(page.vms.into_iter().filter(|vm| known.insert(vm.provider_vm_id.clone())));
        skipped.extend(page.skipped);
        if vms.len() + skipped.len() > MAX_VMS {
            let message =
                format!("the provider has more than {MAX_VMS} VMs: create several providers, each with some of the regions");
            return Err(Failure::new(FailureClass::InvalidRequest, "too_many_vms", message));
        }
        if page.next.is_none() || page.next == from {
            return Ok(Fleet { vms, skipped });
        }
        from = page.next;
    }
}

/// The changes since the last sync. A skipped entry may be any known VM, so no VM is missing from a fleet with skipped entries.
pub(super) fn differences(known: &[Vm], fleet: &Fleet, now: Timestamp) -> Vec<SyncChange> {
    let Fleet { vms: fleet, skipped } = fleet;
    let by_id: HashMap<&str, &Vm> = known.iter().map(|vm| (vm.facts.provider_vm_id.as_str(), vm)).collect();
    let reported: HashSet<&str> = fleet.iter().map(|vm| vm.provider_vm_id.as_str()).collect();
    let news = |facts: &&CloudVm| by_id.get(facts.provider_vm_id.as_str()).is_none_or(|vm| vm.facts != **facts || vm.missed > 0);
    let seen = fleet.iter().filter(news).cloned().map(|facts| SyncChange::Found(Box::new(facts)));
    let absent = known.iter().filter(|vm| !reported.contains(vm.facts.provider_vm_id.as_str()));
    let missing = absent.filter_map(|vm| match vm.ended_at {
        Some(ended) => (now.since(ended) > KEEP_ENDED).then_some(SyncChange::Expired(vm.id)),
        // The operation of a VM that is still being created updates the VM.
        None => (vm.is_known() && skipped.is_empty()).then_some(SyncChange::Missing(vm.id)),
    });
    seen.chain(missing).collect()
}

impl Core {
    /// The adapter of a provider, and an access whose calls all end within `time`.
    pub(super) fn reach(&self, provider: &Provider, time: Duration) -> Result<(&dyn adapters::Adapter, adapters::Access), Failure> {
        let broken = |error: CloudError| {
            tracing::error!(provider = %provider.id, %error, "the credential of a provider cannot be unsealed");
            Failure::new(FailureClass::InvalidCredentials, "sealed", "the stored credential cannot be unsealed: send it again")
        };
        let credential = self.service.unseal(provider).map_err(broken)?;
        Ok(self.access(provider.tenant_id, Some(provider.id), (provider.kind, provider.config.clone(), credential), time))
    }
}
