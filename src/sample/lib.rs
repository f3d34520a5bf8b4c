//! Generates sample data: organizations with people and devices, and 90 days of tickets.
//!
//! The generator calls the use cases in chronological order, so the data has the same events, service levels and numbers as real
//! work.
//! **Invariant:** the same seed, slug and end give the same records with the same ids, independent of other data on the installation.
//! **Boundary:** only evaluation tenants get sample data.

mod activity;
mod analytics;
mod backups;
mod clouds;
mod fleet;
mod people;
mod words;
mod workflows;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenantd_api_keys::{ApiKeyError, ApiKeySlice, NewApiKey, Plaintext, StoredSecret};
use tenantd_auth::{self as auth, AuthError, FirstPassword, PasswordContext, Users};
use tenantd_backup::{BackupError, Backups};
use tenantd_base::{
    access::{Role, TenantKind},
    clock::Timestamp,
    entropy::{Entropy, Seed},
    id::TenantId,
    secrets::{PasswordError, Secret, digest},
};
use tenantd_cloud::{CloudError, Clouds};
use tenantd_directory::{Directory, DirectoryError};
use tenantd_platform::{
    Evaluation, GeneratorFuture, SampleGenerator, SampleSpec, StoredCredentials, Tenant, TenantError, VisitorCredentials,
};
use tenantd_store::{
    Store, StoreError, WriteTx,
    events::{Act, Actor, Intent},
    tasks::Quiet,
};
use tenantd_tickets::{self as tickets, TicketError, TicketRef, Tickets};
use tenantd_workflows::{WorkflowError, Workflows};

use self::{
    activity::{Action, Step},
    people::{Author, Participants},
    words::TAGS,
};

/// The time span of the tickets.
const PAST: Duration = Duration::from_hours(24 * 90);
/// The number of steps per transaction. Other writes wait during a transaction.
const STEPS_PER_TRANSACTION: usize = 50;
const GENERATOR: &str = "Sample data";

#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Key(#[from] ApiKeyError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Ticket(#[from] TicketError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SampleError> for TenantError {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::Store(error) => Self::Store(error),
            SampleError::Auth(AuthError::Password(PasswordError::Busy)) => {
                Self::NotNow("Too many passwords are being checked. Retry in a moment.")
            }
            other => Self::FillFailed(other.to_string()),
        }
    }
}

/// The generator, with every slice that the sample data has records of.
#[derive(Clone, Debug)]
pub struct Sampler {
    pub store: Store,
    pub quiet: Quiet,
    pub users: Users,
    pub keys: ApiKeySlice,
    pub directory: Directory,
    pub tickets: Tickets,
    pub backups: Backups,
    pub clouds: Clouds,
    pub workflows: Workflows,
}

impl Sampler {
    fn context(&self, tenant: &Tenant, spec: &SampleSpec) -> SampleContext {
        SampleContext {
            parts: self.clone(),
            tenant: tenant.id,
            domain: format!("{}.example", tenant.slug),
            origin: digest(&[&spec.seed.to_be_bytes()[..], tenant.slug.as_bytes()].concat()),
        }
    }
}

impl SampleGenerator for Sampler {
    fn admit(&self, slug: String, now: Timestamp) -> GeneratorFuture<'_, (VisitorCredentials, StoredCredentials)> {
        Box::pin(async move {
            let email = format!("admin@{slug}.example");
            let mut entropy = Entropy::from_os();
            let (password, key) =
                (Secret::random_password(&mut entropy), Plaintext::generate(TenantKind::Evaluation, &mut entropy));
            let intent = Intent::new(TenantId::from_bytes([0; 16]), now, Actor::system(GENERATOR));
            let hash = self
                .users
                .hash_password(password.clone(), &PasswordContext::default(), &intent)
                .await
                .map_err(SampleError::from)?;
            let StoredSecret { digest, prefix, last_four } = key.to_stored();
            let admission = StoredCredentials {
                email: email.clone(),
                password: hash,
                key_digest: digest,
                key_prefix: prefix,
                key_last_four: last_four,
            };
            Ok((VisitorCredentials { email, password, api_key: key.into_secret() }, admission))
        })
    }

    fn generate<'a>(&'a self, tenant: &'a Tenant, evaluation: &'a Evaluation) -> GeneratorFuture<'a, ()> {
        Box::pin(async move {
            // Timers must not run while the generator writes records with past times.
            let _quiet = self.quiet.keep().await;
            self.context(tenant, &evaluation.story).fill(evaluation).await.map_err(TenantError::from)
        })
    }
}

/// The context of one generator run.
#[derive(Clone, Debug)]
struct SampleContext {
    parts: Sampler,
    tenant: TenantId,
    /// The mail domain of the staff.
    domain: String,
    /// The digest that all ids are derived from.
    origin: [u8; 32],
}

impl SampleContext {
    /// The intent of one write. Its ids are derived from the unique name and number of the act.
    fn intent(&self, act: &str, number: u64, at: Timestamp, actor: Actor) -> Intent {
        let seed = digest(&[&self.origin[..], act.as_bytes(), &number.to_be_bytes()].concat());
        Intent::seeded(self.tenant, at, actor, Seed::known(seed))
    }

    async fn fill(&self, evaluation: &Evaluation) -> Result<(), SampleError> {
        let Evaluation { story: spec, admission } = evaluation;
        let (seed, now) = (spec.seed, spec.ends_at);
        self.create_credentials(admission, now).await?;
        if spec.organizations == 0 {
            return Ok(());
        }
        let mut random = Entropy::from_seed(seed);
        let participants = people::create(self, &mut random, spec, now - PAST).await?;
        self.open_portal(&participants, now - PAST).await?;
        let (mut numbers, mut backlog) = (BTreeMap::new(), Vec::new());
        let steps = activity::steps(&participants, &mut random, now - PAST, now, usize::try_from(spec.tickets).unwrap_or_default());
        let mut written = 0;
        for steps in steps.chunks(STEPS_PER_TRANSACTION) {
            let step = |(number, step): (u64, &Step)| {
                (self.intent("scene", number, step.at, participants.actor(step.author)), step.clone())
            };
            let batch: Vec<(Intent, Step)> = (written..).zip(steps).map(step).collect();
            written += steps.len() as u64;
            let (tickets, mut known, tenant) = (self.parts.tickets.clone(), numbers.clone(), self.tenant);
            let write = move |tx: &mut WriteTx| {
                for (intent, step) in &batch {
                    apply(&tickets, tx, &mut intent.begin(), step, &mut known)?;
                }
                Ok::<_, SampleError>((known.clone(), tickets::backlog(tx, tenant)?))
            };
            let (known, waiting) = self.parts.store.write(write).await?;
            numbers = known;
            backlog.extend(steps.last().map(|step| (step.at, waiting)));
        }
        let (tickets, today) = (self.parts.tickets.clone(), self.intent("today", 0, now, Actor::system(GENERATOR)));
        self.parts.store.write(move |tx| tickets.run_due_timers(tx, &mut today.begin())).await?;
        backups::run(self, seed, &participants, now).await?;
        analytics::backfill(&self.parts.store, self.tenant, seed, &participants, (now - PAST, now), &backlog).await?;
        clouds::connect(self, seed, &participants, now).await?;
        workflows::install(self, spec.runs, &participants, now).await
    }

    /// Turns the portal on, and gives the first contact of the first customer access. Nobody has a link to sign in there.
    async fn open_portal(&self, participants: &Participants, at: Timestamp) -> Result<(), SampleError> {
        let contact = participants.customers.first().and_then(|customer| customer.contacts.first());
        let Some(contact) = contact.map(|contact| contact.id) else { return Ok(()) };
        let (users, intent) = (self.parts.users.clone(), self.intent("portal", 0, at, participants.actor(Author::Staff(0))));
        let write = move |tx: &mut WriteTx| users.open_sample_portal(tx, &mut intent.begin(), contact);
        Ok(self.parts.store.write(write).await?)
    }

    /// Creates the user and the API key of the visitor, with the credentials from the creation of the tenant.
    async fn create_credentials(&self, admission: &StoredCredentials, now: Timestamp) -> Result<(), SampleError> {
        let intent = self.intent("visitor", 0, now, Actor::system(GENERATOR));
        let (users, keys, admission) = (self.parts.users.clone(), self.parts.keys.clone(), admission.clone());
        let tenant_id = self.tenant;
        self.parts
            .store
            .write(move |tx| {
                let mut act = intent.begin();
                let email = admission.email.clone();
                let user = auth::NewUser { tenant_id, email, name: "Evaluation Admin".to_owned(), role: Role::Admin };
                users.create(tx, &mut act, &user, FirstPassword::Chosen(&admission.password), false)?;
                let new = NewApiKey {
                    name: "Evaluation key".to_owned(),
                    description: Some("Created together with the tenant.".to_owned()),
                    scopes: vec!["*".to_owned()],
                    organization_ids: Vec::new(),
                    allowed_ips: Vec::new(),
                    expires_days: None,
                };
                let secret = StoredSecret {
                    digest: admission.key_digest,
                    prefix: admission.key_prefix.clone(),
                    last_four: admission.key_last_four.clone(),
                };
                keys.create_for_visitor(tx, &mut act, &new, secret)?;
                Ok(())
            })
            .await
    }
}

/// Runs the timers that are due before the step, then applies the step. `numbers` maps the index of a ticket to its number.
fn apply(
    tickets: &Tickets,
    tx: &mut WriteTx,
    act: &mut Act,
    step: &Step,
    numbers: &mut BTreeMap<usize, u64>,
) -> Result<(), SampleError> {
    tickets.run_due_timers(tx, act)?;
    if let Action::Create(new) = &step.action {
        numbers.insert(step.ticket, tickets.create(tx, act, new)?.number);
        return Ok(());
    }
    let Some(number) = numbers.get(&step.ticket) else { return Ok(()) };
    let ticket = TicketRef::Number(*number);
    match &step.action {
        Action::Create(_) => {}
        Action::Change(change) => drop(tickets.change(tx, act, ticket, change)?),
        Action::Comment(comment) => drop(tickets.comment(tx, act, ticket, comment)?),
        Action::Work(entry) => drop(tickets.log_time(tx, act, ticket, entry)?),
    }
    Ok(())
}

/// A random time between two times.
fn between(random: &mut Entropy, from: Timestamp, to: Timestamp) -> Timestamp {
    let span = u64::try_from(to.as_millis() - from.as_millis()).unwrap_or_default();
    from + Duration::from_millis(random.below(span.max(1)))
}

/// Picks one of the choices, of which there must be at least one.
fn pick<'a, T>(random: &mut Entropy, choices: &'a [T]) -> Option<&'a T> {
    choices.get(usize::try_from(random.below(choices.len() as u64)).unwrap_or_default())
}

/// Picks up to two different tags, because the API refuses duplicates.
fn tags(random: &mut Entropy) -> Vec<String> {
    let drawn: BTreeSet<&str> = (0..random.below(3)).filter_map(|_| pick(random, &TAGS)).copied().collect();
    drawn.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_unique() {
        let mut random = Entropy::from_seed(1);
        for _ in 0..1000 {
            let tags = tags(&mut random);
            assert!(tags.len() <= 2 && tags.iter().collect::<BTreeSet<_>>().len() == tags.len(), "{tags:?}");
        }
    }
}
