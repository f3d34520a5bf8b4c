//! Builds all slices over one store. **Boundary:** only this module decides which other slices a slice can use.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tenantd_analytics::Analytics;
use tenantd_api_keys::{self as api_keys, ApiKeySlice};
use tenantd_audit::Audit;
use tenantd_auth::{Auth, CredentialRights, OtherSlices, SecretParts, SignOnRules};
use tenantd_backup::Backups;
use tenantd_base::{
    clocks::Clocks,
    config::Config,
    programs::Programs,
    secrets::{InstallationKey, Passwords},
    telemetry::Usage,
};
use tenantd_cloud::Clouds;
use tenantd_directory::{self as directory, Dependents, Directory, DirectoryIngest, DirectoryRecords};
use tenantd_egress::Egress;
use tenantd_inventory::Inventory;
use tenantd_platform::{Platform, Reload, Tenants};
use tenantd_quotas::TenantQuotas;
use tenantd_sample::Sampler;
use tenantd_scim::{self as scim, Provisioning};
use tenantd_search::Search;
use tenantd_secrets::NamedSecrets;
use tenantd_sso::{self as sso, SingleSignOn};
use tenantd_store::{Rotation, Store, holders::Holders, tasks::Quiet};
use tenantd_tickets::{Priority, Tickets};
use tenantd_transfer::{Others, Transfer};
use tenantd_upkeep::{Places, Upkeep};
use tenantd_webhooks::{Dependencies, Lookups, Webhooks};
use tenantd_workflows::{self as workflows, Workflows};

use super::{erasure, event_kinds, portable};

/// The time after which the worker of a tenant's program counts as stalled.
const PROGRAM_LIMIT: Duration = Duration::from_secs(1);
/// The same for a dry run.
const DRY_RUN_LIMIT: Duration = Duration::from_secs(30);

/// What identity providers say about passwords.
const SIGN_ON_RULES: SignOnRules = SignOnRules {
    access: sso::password_access,
    access_of_reader: sso::password_access,
    is_enforced: sso::is_enforced,
    has_link: sso::has_link,
};

/// What webhooks look up in other slices.
fn lookups() -> Lookups {
    Lookups {
        has_organization: |tx, tenant, id| Ok(directory::organization(tx, tenant, id)?.is_some()),
        has_user: |tx, tenant, id| Ok(directory::user(tx, tenant, id)?.is_some()),
        has_api_key: |tx, tenant, id| api_keys::exists(tx, tenant, id),
        has_workflow: |tx, tenant, id| Ok(workflows::workflow(tx, tenant, id)?.is_some()),
        priorities: Priority::NAMES,
    }
}

fn credential_rights(tenants: Tenants) -> CredentialRights {
    CredentialRights { tenants, provider_is_on: sso::provider_is_on, password_access: sso::password_access }
}

/// The parts that all slices are built from.
pub(super) struct SliceParts<'a> {
    pub(super) store: &'a Store,
    pub(super) clocks: &'a Clocks,
    pub(super) config: &'a Config,
    /// The key that signing keys are derived from.
    pub(super) key: &'a InstallationKey,
    pub(super) rotation: &'a Rotation,
    pub(super) passwords: Passwords,
    pub(super) reload: Reload,
    pub(super) egress: &'a Egress,
    pub(super) usage: &'a Arc<Usage>,
    pub(super) search_directory: PathBuf,
    pub(super) places: Places,
}

#[derive(Debug)]
pub struct Slices {
    pub platform: Platform,
    pub directory: Directory,
    pub ingest: DirectoryIngest,
    pub records: DirectoryRecords,
    pub auth: Auth,
    pub sso: SingleSignOn,
    pub provisioning: Provisioning,
    pub keys: ApiKeySlice,
    pub tickets: Tickets,
    pub inventory: Inventory,
    pub search: Search,
    pub webhooks: Webhooks,
    pub quotas: TenantQuotas,
    pub secrets: NamedSecrets,
    pub workflows: Workflows,
    pub clouds: Clouds,
    pub analytics: Analytics,
    pub backups: Backups,
    pub audit: Audit,
    pub transfer: Transfer,
    pub upkeep: Upkeep,
    pub(super) holders: Holders,
}

impl Slices {
    pub(super) fn new(parts: SliceParts<'_>) -> Result<Self, String> {
        let SliceParts { config, key, passwords, reload, egress, usage, search_directory, places, .. } = parts;
        let (store, clocks) = (|| parts.store.clone(), || parts.clocks.clone());
        let clock = || parts.clocks.installation().clone();
        let (sealer, limits) = (|| parts.rotation.sealer.clone(), &config.limits);
        let platform = Platform::new(store(), clocks(), reload, limits, parts.rotation.clone());
        let tenants = || platform.tenants.clone();
        let keys = ApiKeySlice::new(store(), clocks(), &config.api_keys, config.upgrade, Auth::permits_personal_keys);
        let directory = Directory::new(&config.directory, tenantd_auth::contact_changed);
        let rights = credential_rights(tenants());
        let (sign_on_rules, person_removed, role_rules) = (SIGN_ON_RULES, scim::person_removed, scim::role_rules);
        let others = OtherSlices { directory, tenants: tenants(), keys: &keys, sign_on_rules, person_removed, role_rules, rights };
        let secrets = SecretParts { passwords, sealer: sealer() };
        let auth = Auth::new(store(), clock(), &config.sessions, secrets, others);
        let sso = SingleSignOn::new(store(), clock(), sealer(), egress.clone(), tenants(), auth.clone(), directory);
        let provisioning = Provisioning::new(store(), clock(), auth.users.clone(), tenants());
        let tickets = Tickets::new(store(), clocks(), &config.tickets, limits);
        let backups = Backups::new(store(), clocks(), config.backup, limits, key, tickets.clone())?;
        let ingest = DirectoryIngest::new(directory, store(), clocks(), limits, backups.job_receiver());
        let inventory = Inventory::new(directory, store(), clocks(), limits);
        let search = Search::new(store(), clock(), search_directory);
        let clouds = Clouds::new(store(), clocks(), &config.cloud, sealer(), egress.clone(), tenants());
        let dependents: Vec<Arc<dyn Dependents>> =
            vec![Arc::new(tickets.clone()), Arc::new(backups.clone()), Arc::new(clouds.clone())];
        let records = DirectoryRecords::new(directory, store(), limits, dependents);
        let secrets = NamedSecrets::new(store(), clocks(), sealer(), |tx, tenant, id| {
            Ok(workflows::workflow(tx, tenant, id)?.is_some_and(|workflow| workflow.archived_at.is_none()))
        });
        let pool =
            |patience| Programs::new(patience, store().shares().clone()).map_err(|error| format!("cannot start a worker: {error}"));
        let holders = Holders::new(credential_rights(tenants()), config.upgrade.grace());
        let dependencies = workflows::Dependencies {
            programs: pool(PROGRAM_LIMIT)?,
            rehearsals: pool(DRY_RUN_LIMIT)?,
            tenants: tenants(),
            egress: egress.clone(),
            vault: secrets.vault(),
            holders: holders.clone(),
            id_by_name: |tx, tenant, name| Ok(tenantd_tickets::id_by_name(tx, tenant, name)?.map(|id| id.to_string())),
        };
        let steps = [tickets.steps(), clouds.steps(), backups.steps(), inventory.steps(), search.steps()].concat();
        let workflows = Workflows::new(store(), clocks(), config.workflows, steps, event_kinds(), dependencies)?;
        let dependencies = Dependencies {
            sealer: sealer(),
            egress: egress.clone(),
            tenants: tenants(),
            kinds: event_kinds(),
            usage: usage.clone(),
            holders: holders.clone(),
            lookups: lookups(),
        };
        let quotas = TenantQuotas::new(store(), clocks(), tenants());
        let webhooks = Webhooks::new(store(), clocks(), config, dependencies);
        let analytics = Analytics::new(store(), clocks(), usage.clone(), limits);
        let audit = Audit::new(store(), clock(), &config.audit, limits, key).map_err(|error| error.to_string())?;
        let rebuild = search.clone();
        let exported = portable::ExportedSlices {
            sso: &sso,
            keys: &keys,
            clouds: &clouds,
            workflows: &workflows,
            webhooks: &webhooks,
            audit: &audit,
        };
        let others = Others {
            tenants: tenants(),
            sealer: sealer(),
            portables: portable::all(&exported)?,
            rows: erasure::tenant_rows(),
            consumers: portable::consumers(),
            arrived: Arc::new(move || rebuild.rebuild()),
        };
        let transfer = Transfer::new(store(), clock(), limits, key, others).map_err(|error| error.to_string())?;
        let upkeep = Upkeep::new(store(), clock(), config, places, tenants(), parts.rotation.clone(), key)?;
        Ok(Self {
            platform,
            directory,
            ingest,
            records,
            auth,
            sso,
            provisioning,
            keys,
            tickets,
            inventory,
            search,
            webhooks,
            quotas,
            secrets,
            workflows,
            clouds,
            analytics,
            backups,
            audit,
            transfer,
            upkeep,
            holders,
        })
    }

    /// The generator of sample data. It gets every slice that the sample data has records of.
    pub(super) fn sampler(&self, store: &Store, quiet: Quiet) -> Sampler {
        Sampler {
            store: store.clone(),
            quiet,
            users: self.auth.users.clone(),
            keys: self.keys.clone(),
            directory: self.directory,
            tickets: self.tickets.clone(),
            backups: self.backups.clone(),
            clouds: self.clouds.clone(),
            workflows: self.workflows.clone(),
        }
    }
}
