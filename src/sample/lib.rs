//! Evaluation data: organizations with their people and devices, and a quarter of a year of tickets that were worked on.
//!
//! It is made by the use cases themselves, in the order of time, so that it has the events, promises and numbers that real work
//! would have left. **Invariant:** the same seed, slug and end give the same records with the same ids, whatever else is on the
//! installation. **Boundary:** for tenants that evaluate, never for others.

mod analytics;
mod backups;
mod clouds;
mod fleet;
mod people;
mod story;
mod words;
mod workflows;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenantd_api_keys::{ApiKeyError, ApiKeySlice, KeptSecret, NewApiKey, Plaintext};
use tenantd_auth::{self as auth, AuthError, Users};
use tenantd_backup::{BackupError, Backups};
use tenantd_base::{
    access::{Role, TenantKind},
    clock::Timestamp,
    entropy::{Entropy, Seed},
    id::TenantId,
    secrets::{Secret, digest},
};
use tenantd_cloud::{CloudError, Clouds};
use tenantd_directory::{Directory, DirectoryError};
use tenantd_platform::{Access, Admission, Evaluation, Story, Storyteller, Telling, Tenant, TenantError};
use tenantd_store::{
    Store, StoreError, WriteTx,
    events::{Act, Actor, Intent},
    tasks::Quiet,
};
use tenantd_tickets::{self as tickets, TicketError, TicketRef, Tickets};
use tenantd_workflows::{WorkflowError, Workflows};

use self::{
    story::{Deed, Scene},
    words::TAGS,
};

/// How far back the story begins.
const PAST: Duration = Duration::from_hours(24 * 90);
/// Scenes that share a transaction: others wait for the writer meanwhile.
const SCENES_AT_ONCE: usize = 50;
const TELLER: &str = "Sample data";

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
            other => Self::Filling(other.to_string()),
        }
    }
}

/// Whoever fills evaluation tenants: knows every slice that has a part in the story.
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
    fn stage(&self, tenant: &Tenant, story: &Story) -> Stage {
        Stage {
            parts: self.clone(),
            tenant: tenant.id,
            domain: format!("{}.example", tenant.slug),
            origin: digest(&[&story.seed.to_be_bytes()[..], tenant.slug.as_bytes()].concat()),
        }
    }
}

impl Storyteller for Sampler {
    fn admit(&self, slug: String, now: Timestamp) -> Telling<'_, (Access, Admission)> {
        Box::pin(async move {
            let email = format!("admin@{slug}.example");
            let mut entropy = Entropy::from_os();
            let (password, key) =
                (Secret::random_password(&mut entropy), Plaintext::generate(TenantKind::Evaluation, &mut entropy));
            let intent = Intent::new(TenantId::from_bytes([0; 16]), now, Actor::system(TELLER));
            let hash = self.users.hash_password(password.clone(), &intent).await.map_err(SampleError::from)?;
            let KeptSecret { digest, prefix, last_four } = key.kept();
            let admission = Admission {
                email: email.clone(),
                password: hash,
                key_digest: digest,
                key_prefix: prefix,
                key_last_four: last_four,
            };
            Ok((Access { email, password, api_key: key.into_secret() }, admission))
        })
    }

    fn tell<'a>(&'a self, tenant: &'a Tenant, evaluation: &'a Evaluation) -> Telling<'a, ()> {
        Box::pin(async move {
            // Timers would take the past that is told for the present.
            let _quiet = self.quiet.keep().await;
            self.stage(tenant, &evaluation.story).fill(evaluation).await.map_err(TenantError::from)
        })
    }
}

/// Where one story takes place.
#[derive(Clone, Debug)]
struct Stage {
    parts: Sampler,
    tenant: TenantId,
    /// The domain of the addresses of the staff.
    domain: String,
    /// What all ids of the story come of.
    origin: [u8; 32],
}

impl Stage {
    /// What somebody does in the story. Each act has a name of its own, from which its ids come.
    fn intent(&self, act: &str, number: u64, at: Timestamp, actor: Actor) -> Intent {
        let seed = digest(&[&self.origin[..], act.as_bytes(), &number.to_be_bytes()].concat());
        Intent::seeded(self.tenant, at, actor, Seed::known(seed))
    }

    async fn fill(&self, evaluation: &Evaluation) -> Result<(), SampleError> {
        let Evaluation { story, admission } = evaluation;
        let (seed, now) = (story.seed, story.ends_at);
        self.let_in(admission, now).await?;
        if story.organizations == 0 {
            return Ok(());
        }
        let mut random = Entropy::from_seed(seed);
        let cast = people::enter(self, &mut random, story, now - PAST).await?;
        let (mut numbers, mut backlog) = (BTreeMap::new(), Vec::new());
        let scenes = story::tell(&cast, &mut random, now - PAST, now, usize::try_from(story.tickets).unwrap_or_default());
        let mut played = 0;
        for scenes in scenes.chunks(SCENES_AT_ONCE) {
            let scene =
                |(number, scene): (u64, &Scene)| (self.intent("scene", number, scene.at, cast.actor(scene.player)), scene.clone());
            let stage: Vec<(Intent, Scene)> = (played..).zip(scenes).map(scene).collect();
            played += scenes.len() as u64;
            let (tickets, mut known, tenant) = (self.parts.tickets.clone(), numbers.clone(), self.tenant);
            let play = move |tx: &mut WriteTx| {
                for (intent, scene) in &stage {
                    play(&tickets, tx, &mut intent.begin(), scene, &mut known)?;
                }
                Ok::<_, SampleError>((known.clone(), tickets::backlog(tx, tenant)?))
            };
            let (known, waiting) = self.parts.store.write(play).await?;
            numbers = known;
            backlog.extend(scenes.last().map(|scene| (scene.at, waiting)));
        }
        let (tickets, today) = (self.parts.tickets.clone(), self.intent("today", 0, now, Actor::system(TELLER)));
        self.parts.store.write(move |tx| tickets.tend(tx, &mut today.begin())).await?;
        backups::run(self, seed, &cast, now).await?;
        analytics::remember(&self.parts.store, self.tenant, seed, &cast, (now - PAST, now), &backlog).await?;
        clouds::connect(self, seed, &cast, now).await?;
        workflows::install(self, story.runs, &cast, now).await
    }

    /// Lets the visitor in, by what they were told when the tenant was created.
    async fn let_in(&self, admission: &Admission, now: Timestamp) -> Result<(), SampleError> {
        let intent = self.intent("visitor", 0, now, Actor::system(TELLER));
        let (users, keys, admission) = (self.parts.users.clone(), self.parts.keys.clone(), admission.clone());
        let tenant_id = self.tenant;
        self.parts
            .store
            .write(move |tx| {
                let mut act = intent.begin();
                let email = admission.email.clone();
                let user = auth::NewUser { tenant_id, email, name: "Evaluation Admin".to_owned(), role: Role::Admin };
                users.create(tx, &mut act, &user, &admission.password, false)?;
                let new = NewApiKey {
                    name: "Evaluation key".to_owned(),
                    description: Some("Handed out when the tenant was created.".to_owned()),
                    scopes: vec!["*".to_owned()],
                    organization_ids: Vec::new(),
                    allowed_ips: Vec::new(),
                    expires_days: None,
                };
                let secret = KeptSecret {
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

/// Does what the scene tells, and before it what time alone did to all tickets until then. `numbers` knows the tickets of the story
/// by their place in it.
fn play(
    tickets: &Tickets,
    tx: &mut WriteTx,
    act: &mut Act,
    scene: &Scene,
    numbers: &mut BTreeMap<usize, u64>,
) -> Result<(), SampleError> {
    tickets.tend(tx, act)?;
    if let Deed::Create(new) = &scene.deed {
        numbers.insert(scene.ticket, tickets.create(tx, act, new)?.number);
        return Ok(());
    }
    let Some(number) = numbers.get(&scene.ticket) else { return Ok(()) };
    let ticket = TicketRef::Number(*number);
    match &scene.deed {
        Deed::Create(_) => {}
        Deed::Change(change) => drop(tickets.change(tx, act, ticket, change)?),
        Deed::Comment(comment) => drop(tickets.comment(tx, act, ticket, comment)?),
        Deed::Work(entry) => drop(tickets.log_time(tx, act, ticket, entry)?),
    }
    Ok(())
}

/// A moment between two times.
fn between(random: &mut Entropy, from: Timestamp, to: Timestamp) -> Timestamp {
    let span = u64::try_from(to.as_millis() - from.as_millis()).unwrap_or_default();
    from + Duration::from_millis(random.below(span.max(1)))
}

/// One of them. There is always at least one.
fn pick<'a, T>(random: &mut Entropy, choices: &'a [T]) -> Option<&'a T> {
    choices.get(usize::try_from(random.below(choices.len() as u64)).unwrap_or_default())
}

/// Up to two tags. The API takes none twice.
fn tags(random: &mut Entropy) -> Vec<String> {
    let drawn: BTreeSet<&str> = (0..random.below(3)).filter_map(|_| pick(random, &TAGS)).copied().collect();
    drawn.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_record_has_a_tag_twice() {
        let mut random = Entropy::from_seed(1);
        for _ in 0..1000 {
            let tags = tags(&mut random);
            assert!(tags.len() <= 2 && tags.iter().collect::<BTreeSet<_>>().len() == tags.len(), "{tags:?}");
        }
    }
}
