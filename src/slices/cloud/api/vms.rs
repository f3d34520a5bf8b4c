//! `/api/cloud/vms`: the VMs of all providers as last synced, and orders of new VMs. Only a dry run waits for a cloud.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use poem_openapi::{Object, OpenApi, param::Path};
use tokio::time::Instant;

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
};
use tenantd_directory::OrganizationReference;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    mark::{Marked, Provision},
    need::{Allowed, VmsRead, VmsWrite},
    page::{PageQuery, PageRequest},
    precondition::IfNoneMatch,
    problem::{Code, FieldError, Problem},
    reply::{AcceptedOrOk, Found},
    wire::Word,
};
use tenantd_store::{Key, Read, StoreError};

use super::{
    super::{
        Core,
        adapters::Rehearsal,
        error::CloudError,
        fleet::{GroupBy, SyncedProvider, VmPage, VmQuery, VmSlice},
        model::{Check, CheckName, Failure, FailureClass, OperationWork, ProviderKind, VmState},
        repo,
        service::{NewVms, Plan, Service},
    },
    Area,
    operations::operation_path,
    providers::{VERIFY_LIMIT, ensure_no_rehearsal},
    vm_wire::{Operation, ProvisionVms, Vm, VmGroup, VmList, VmOrder},
    wire::{VerificationCheck, organization},
};

#[derive(Debug, Object)]
struct ListVms {
    /// Return only VMs of one of these providers.
    #[oai(validator(min_items = 1, max_items = 100))]
    provider_id: Option<Vec<CloudProviderId>>,
    /// Return only VMs of providers of one of these kinds.
    #[oai(validator(min_items = 1, max_items = 8))]
    kind: Option<Vec<Word<ProviderKind>>>,
    /// Return only VMs of one of these organizations.
    #[oai(validator(min_items = 1, max_items = 100))]
    organization_id: Option<Vec<OrganizationId>>,
    /// Return only VMs in one of these states.
    #[oai(validator(min_items = 1, max_items = 11))]
    state: Option<Vec<Word<VmState>>>,
    /// Return only VMs in one of these regions.
    #[oai(validator(min_items = 1, max_items = 100))]
    region: Option<Vec<String>>,
    /// Return only VMs whose tag KEY has one of these values: `tag.KEY=value` or `tag[KEY]=value`. `tag=KEY` is the same as
    /// `tag.KEY=`: it finds VMs that have the tag KEY without a value, as is common on DigitalOcean and Proxmox. If you name
    /// several keys, all must match.
    tag: Option<BTreeMap<String, String>>,
    /// Return only VMs whose name contains this text, ignoring case.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: Option<String>,
    /// Return only VMs with one of these IP addresses, private or public.
    #[oai(validator(min_items = 1, max_items = 100))]
    ip: Option<Vec<String>>,
    /// `true` returns only stale VMs, `false` only VMs that are up to date. When absent, both.
    stale: Option<bool>,
    /// Return only VMs that one of these operations created.
    #[oai(validator(min_items = 1, max_items = 100))]
    operation_id: Option<Vec<OperationId>>,
    /// Also return the number of all matching VMs, grouped by this field.
    group_by: Option<GroupBy>,
    /// Whether to start a sync of the providers in `provider_id`, or of all providers. The response is 202 with the operation and
    /// the VMs as currently stored.
    refresh: Option<bool>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListVms {
    fn query(&self, auth: &Allowed<VmsRead>) -> Result<VmQuery, Problem> {
        let mut errors = Vec::new();
        let mut ips = Vec::new();
        for text in self.ip.iter().flatten() {
            match text.parse::<IpAddr>() {
                Ok(ip) => ips.push(ip),
                Err(_) => errors.push(FieldError::parameter("ip", "wrong_form", format!("{text} is not an IP address"))),
            }
        }
        let split = |(key, values): (&String, &String)| (key.clone(), values.split(',').map(str::to_owned).collect());
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        Ok(VmQuery {
            reach: auth.principal.reach.clone(),
            provider_ids: self.provider_id.clone().unwrap_or_default(),
            kinds: self.kind.iter().flatten().map(|kind| kind.0).collect(),
            organization_ids: self.organization_id.clone().unwrap_or_default(),
            states: self.state.iter().flatten().map(|state| state.0).collect(),
            regions: self.region.clone().unwrap_or_default(),
            tags: self.tag.iter().flatten().map(split).collect(),
            name: self.name.as_deref().map(str::to_lowercase),
            ips,
            stale: self.stale,
            operation_ids: self.operation_id.clone().unwrap_or_default(),
        })
    }
}

#[derive(Debug, Object)]
struct ProvisionQuery {
    /// Whether to only check the order, including with the provider, without creating VMs.
    dry_run: Option<bool>,
}

pub(crate) struct VmsApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/cloud/vms", tag = "Area::Cloud")]
impl VmsApi {
    /// List VMs
    ///
    /// Returns the VMs of all providers, newest first, as of the last sync. A VM with `stale` set may be out of date. VMs that no
    /// longer exist stay listed for a week as `terminated`. `refresh=true` starts a sync in the background and returns status 202.
    #[oai(path = "/", method = "get", operation_id = "list_vms")]
    async fn list_vms(&self, auth: Allowed<VmsRead>, query: Filter<ListVms>) -> Result<AcceptedOrOk<VmList>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let wanted = query.0.query(&auth)?;
        let (tenant, now) = (auth.principal.tenant_id, auth.context.now);
        let mismatch = || Problem::plain(Code::CursorMismatch);
        let after = request.after.as_deref().map(|bytes| <VmId as Key>::from_bytes(bytes).ok_or_else(mismatch)).transpose()?;
        let slice = VmSlice { after, limit: request.limit, count: request.include_total, group_by: query.0.group_by };
        let core = self.core.clone();
        let read = self.core.store.scan_for(tenant, move |tx| {
            let mut page = core.fleets.list(&core.store, tenant, &wanted, slice, now)?;
            let labels = labels(tx, tenant, &page)?;
            let label = |id: Option<OrganizationId>| id.and_then(|id| labels.get(&id).cloned());
            let shown = page.vms.iter().filter_map(|vm| {
                let known = page.known.get(&vm.provider_id)?;
                Some(Vm::with_label(vm, known, label(known.organization(vm)), now))
            });
            let data: Vec<Vm> = shown.collect();
            let groups = page.groups.take().map(|groups| name_groups(groups, &page.known, &labels));
            Ok::<_, StoreError>((data, page.last, page.total, groups))
        });
        let (data, last, total, groups) = read.await?;
        let page = request.page(last.map(|id| id.to_bytes()), total);
        if !query.0.refresh.unwrap_or(false) {
            return Ok(AcceptedOrOk::page(&VmList { data, page: page.clone(), groups, operation: None }, &page));
        }
        let operation = self.refresh(&auth, query.0.provider_id).await?;
        let place = operation_path(operation.id);
        Ok(AcceptedOrOk::accepted(&VmList { data, page, groups, operation: Some(operation) }, &place))
    }

    /// Create VMs
    ///
    /// Creates an operation that orders the VMs from the provider, and returns it without waiting. The operation continues after a
    /// restart of the server and never creates a VM twice. `dry_run=true` checks the order and asks the provider whether it would
    /// accept it, if the provider offers such a check.
    #[oai(path = "/", method = "post", operation_id = "provision_vms")]
    async fn provision_vms(
        &self,
        auth: Allowed<VmsWrite>,
        _class: Marked<Provision>,
        query: Filter<ProvisionQuery>,
        idempotency_key: IdempotencyKey,
        body: Lenient<ProvisionVms>,
    ) -> Result<AcceptedOrOk<VmOrder>, Problem> {
        let new = NewVms::from(body.0);
        if query.0.dry_run.unwrap_or(false) {
            return self.rehearse(&auth, &new).await;
        }
        let (core, reach) = (self.core.clone(), auth.principal.reach.clone());
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let plan = core.service.order_vms(tx, act, &reach, &new)?;
                let place = operation_path(plan.operation.id);
                let order = show_plan(tx, &plan, act.now, Some((&plan.operation).into()))?;
                Ok::<_, CloudError>(AcceptedOrOk::accepted(&order, &place))
            })
            .await
    }

    /// Read a VM
    ///
    /// Returns the VM as its provider last reported it.
    #[oai(path = "/:id", method = "get", operation_id = "read_vm")]
    async fn read_vm(&self, auth: Allowed<VmsRead>, id: Path<VmId>, if_none_match: IfNoneMatch) -> Result<Found<Vm>, Problem> {
        let (tenant, now) = (auth.principal.tenant_id, auth.context.now);
        let shown = self.core.store.read(|tx| {
            let vm = repo::vms::get(tx, tenant, id.0)?.ok_or(CloudError::NoVm)?;
            let known = SyncedProvider::read(tx, tenant, vm.provider_id)?.ok_or(CloudError::NoVm)?;
            if !auth.principal.reach.covers(known.organization(&vm)) {
                return Err(CloudError::NoVm);
            }
            Ok(Vm::new(tx, &vm, &known, now)?)
        })?;
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }
}

impl VmsApi {
    async fn refresh(&self, auth: &Allowed<VmsRead>, wanted: Option<Vec<CloudProviderId>>) -> Result<Operation, Problem> {
        auth.context.ensure_own_site()?;
        let reach = auth.principal.reach.clone();
        let intent = auth.context.intent(&auth.principal);
        let written = self.core.store.write(move |tx| {
            let operation = Service::refresh(tx, &mut intent.begin(), &reach, wanted.as_deref())?;
            Ok::<_, CloudError>(Operation::from(&operation))
        });
        Ok(written.await?)
    }

    async fn rehearse(&self, auth: &Allowed<VmsWrite>, new: &NewVms) -> Result<AcceptedOrOk<VmOrder>, Problem> {
        let (intent, now) = (auth.context.intent(&auth.principal), auth.context.now);
        let (plan, mut order) = self.core.store.read(|tx| {
            let plan = self.core.service.plan_vms(tx, &mut intent.begin(), &auth.principal.reach, new)?;
            let order = show_plan(tx, &plan, now, None)?;
            Ok::<_, CloudError>((plan, order))
        })?;
        ensure_no_rehearsal()?;
        let OperationWork::Provision { spec, .. } = &plan.operation.work else {
            return Err(Problem::internal("the plan of an order is not a provision operation"));
        };
        let asked = spec.order(plan.operation.token(0), new.user_data.clone());
        let started = Instant::now();
        let outcome = match self.core.reach(&plan.provider, VERIFY_LIMIT) {
            Ok((adapter, access)) => {
                let asking = adapter.rehearse(&access, Some(&asked));
                let late = || Failure::new(FailureClass::Timeout, "timeout", "the provider did not answer in time");
                let asked = tokio::time::timeout(VERIFY_LIMIT, asking).await.unwrap_or_else(|_| Err(late()));
                asked.map_err(|failure| Failure { message: access.credential.conceal(&failure.message), ..failure })
            }
            Err(failure) => Err(failure),
        };
        let ms = u32::try_from(started.elapsed().as_millis()).unwrap_or(u32::MAX);
        let (check, message) = match &outcome {
            Ok(Rehearsal::Allowed) => (Check::passed(CheckName::Provision, ms), "the provider accepts the order"),
            Ok(Rehearsal::CannotTell) => {
                let message = "no problem was found, but the provider offers no way to check whether the credential may create VMs";
                (Check::skipped(CheckName::Provision), message)
            }
            Err(failure) => {
                let check = Check::failed(CheckName::Provision, ms, &failure.code, failure.class.remedy());
                (check, failure.message.as_str())
            }
        };
        order.would_succeed = Some(outcome.is_ok());
        order.checks = Some(vec![VerificationCheck::new(check, Some(message.to_owned()))]);
        Ok(AcceptedOrOk::ok(&order))
    }
}

pub(super) fn show_plan(tx: &impl Read, plan: &Plan, now: Timestamp, operation: Option<Operation>) -> Result<VmOrder, StoreError> {
    let sync = repo::providers::sync(tx, (plan.provider.tenant_id, plan.provider.id))?;
    let known = SyncedProvider { provider: plan.provider.clone(), sync };
    let vms = plan.vms.iter().map(|vm| Vm::new(tx, vm, &known, now)).collect::<Result<_, _>>()?;
    Ok(VmOrder { operation, vms, checks: None, would_succeed: None })
}

type Labels = HashMap<OrganizationId, OrganizationReference>;

/// The names of all organizations that the page and its groups refer to. Each is looked up once.
fn labels(tx: &impl Read, tenant: TenantId, page: &VmPage) -> Result<Labels, StoreError> {
    let of_vms = page.vms.iter().filter_map(|vm| page.known.get(&vm.provider_id)?.organization(vm));
    let of_groups = page.groups.iter().flatten().filter_map(|(value, _)| value.parse::<OrganizationId>().ok());
    let mut labels = Labels::new();
    for id in of_vms.chain(of_groups) {
        if !labels.contains_key(&id)
            && let Some(label) = organization(tx, tenant, Some(id))?
        {
            labels.insert(id, label);
        }
    }
    Ok(labels)
}

fn name_groups(groups: BTreeMap<String, u64>, known: &HashMap<CloudProviderId, SyncedProvider>, labels: &Labels) -> Vec<VmGroup> {
    let name = |value: &str| {
        let provider = value.parse::<CloudProviderId>().ok().and_then(|id| known.get(&id));
        let organization = value.parse::<OrganizationId>().ok().and_then(|id| labels.get(&id));
        provider.map(|known| known.provider.name.clone()).or_else(|| Some(organization?.name.clone()))
    };
    let group =
        |(value, count): (String, u64)| VmGroup { name: name(&value), value: Some(value).filter(|value| !value.is_empty()), count };
    groups.into_iter().map(group).collect()
}
