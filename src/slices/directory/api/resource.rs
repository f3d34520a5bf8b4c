//! The operations that all three kinds of records share: each is created, changed and deleted, alone or in bulk, in the same way.

use std::fmt::Display;

use serde::Serialize;

use tenantd_base::{clock::Timestamp, versions::ExpectedVersion};
use tenantd_http::{
    bulk::{self, Budget, Members, Removed},
    idempotency::IdempotencyKey,
    need::{Allowed, DirectoryWrite},
    precondition::IfMatch,
    problem::Problem,
    reply::{Changed, Settled},
};
use tenantd_store::{Read, Store, StoreError, WriteTx, events::Act};

use super::{
    super::{
        error::DirectoryError,
        service::{Directory, Remover, Subject},
    },
    bodies::{Outcome, Results},
};

/// The cost of a change as a multiple of the record's bytes: it is read, written, and copied into its event.
const COST: usize = 3;

/// A kind of record.
pub(super) trait Resource: 'static {
    type Id: Copy + Display + Send + 'static;
    type New: Send + 'static;
    type Change: Send + 'static;
    /// The stored form.
    type Record;
    /// The wire form.
    type Shown: Serialize + Send;
    type Results: Results<Record = Self::Shown>;

    /// The path of the collection.
    const PATH: &'static str;
    /// The member that holds the records in the body of a bulk creation.
    const MEMBER: &'static str;

    fn create(directory: &Directory, tx: &mut WriteTx, act: &mut Act, new: &Self::New) -> Result<Self::Record, DirectoryError>;
    fn update(
        directory: &Directory,
        tx: &mut WriteTx,
        act: &mut Act,
        id: Self::Id,
        expected: &ExpectedVersion,
        change: &Self::Change,
    ) -> Result<Self::Record, DirectoryError>;
    fn subject(id: Self::Id) -> Subject;
    fn name(record: &Self::Record) -> (Self::Id, u64);
    fn show(directory: &Directory, tx: &impl Read, now: Timestamp, record: Self::Record) -> Result<Self::Shown, DirectoryError>;
}

/// Why a request for one or several records failed.
#[derive(Debug)]
enum Refusal {
    Record(DirectoryError),
    /// The error of the request as a whole.
    Whole(Problem),
}

impl From<DirectoryError> for Refusal {
    fn from(error: DirectoryError) -> Self {
        Self::Record(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

impl From<bulk::TooLarge> for Refusal {
    fn from(error: bulk::TooLarge) -> Self {
        Self::Whole(error.into())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Record(error) => error.into(),
            Refusal::Whole(problem) => problem,
        }
    }
}

impl Refusal {
    /// Whether the store failed, so that no further record can be stored.
    fn is_store_error(&self) -> bool {
        matches!(self, Self::Record(DirectoryError::Store(_) | DirectoryError::Event(_)))
    }
}

/// The state that the handlers of all kinds share.
#[derive(Clone, Debug)]
pub(crate) struct RecordService {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) remover: Remover,
}

type Auth = Allowed<DirectoryWrite>;

impl RecordService {
    pub(super) async fn create_one<R: Resource, A: Send + 'static>(
        &self,
        auth: &Auth,
        key: IdempotencyKey,
        new: R::New,
    ) -> Result<Settled<A>, Problem> {
        let directory = self.directory;
        key.run(auth.context.intent(&auth.principal), move |tx, act| {
            let record = R::create(&directory, tx, act, &new)?;
            let (id, version) = R::name(&record);
            let shown = R::show(&directory, tx, act.now, record)?;
            Ok::<_, DirectoryError>(Settled::created(&shown, Some((version, &format!("{}/{id}", R::PATH)))))
        })
        .await
    }

    pub(super) async fn create_many<R: Resource, A: Send + 'static>(
        &self,
        auth: &Auth,
        key: IdempotencyKey,
        news: Vec<R::New>,
        atomic: bool,
    ) -> Result<Settled<A>, Problem> {
        let directory = self.directory;
        let create = move |tx: &mut WriteTx, act: &mut Act| {
            let mut budget = Budget::of_many();
            let outcomes = each(tx, Members::Bodies(R::MEMBER), news.iter(), atomic, |tx, new| {
                budget.begin()?;
                let record = R::create(&directory, tx, act, new)?;
                let shown = R::show(&directory, tx, act.now, record)?;
                budget.spend(COST * bytes(&shown)?)?;
                Ok((201, Some(shown)))
            })?;
            let created = outcomes.iter().any(|(_, outcome)| outcome.is_ok());
            let results = R::Results::new(outcomes);
            Ok::<_, Refusal>(if created { Settled::created(&results, None) } else { Settled::kept(&results, None) })
        };
        key.run(auth.context.intent(&auth.principal), create).await
    }

    pub(super) async fn update_one<R: Resource, A: Send + 'static>(
        &self,
        auth: &Auth,
        id: R::Id,
        if_match: IfMatch,
        change: R::Change,
    ) -> Result<Changed<A>, Problem> {
        let (directory, intent, expected) = (self.directory, auth.context.intent(&auth.principal), ExpectedVersion::from(if_match));
        let update = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            let record = R::update(&directory, tx, &mut act, id, &expected, &change)?;
            let (_, version) = R::name(&record);
            Ok::<_, DirectoryError>(Changed::shaped(&R::show(&directory, tx, act.now, record)?, Some(version)))
        };
        Ok(self.store.write(update).await?)
    }

    /// Changes all records or none.
    pub(super) async fn update_many<R: Resource, A: Send + 'static>(
        &self,
        auth: &Auth,
        ids: Vec<R::Id>,
        change: R::Change,
    ) -> Result<Changed<A>, Problem> {
        let (directory, intent) = (self.directory, auth.context.intent(&auth.principal));
        let update = move |tx: &mut WriteTx| {
            let (mut act, mut budget) = (intent.begin(), Budget::of_many());
            let outcomes = each(tx, Members::Names("ids"), ids.iter(), true, |tx, id| {
                budget.begin()?;
                let record = R::update(&directory, tx, &mut act, *id, &ExpectedVersion::Unspecified, &change)?;
                let shown = R::show(&directory, tx, act.now, record)?;
                budget.spend(COST * bytes(&shown)?)?;
                Ok((200, Some(shown)))
            })?;
            Ok::<_, Refusal>(Changed::shaped(&R::Results::new(outcomes), None))
        };
        Ok(self.store.write(update).await?)
    }

    pub(super) async fn remove_one<R: Resource>(
        &self,
        auth: &Auth,
        id: R::Id,
        if_match: IfMatch,
        target: Option<R::Id>,
    ) -> Result<(), Problem> {
        let intent = auth.context.intent(&auth.principal);
        let removed = self.remover.remove(&auth.principal, intent, R::subject(id), if_match.into(), target.map(R::subject));
        Ok(removed.await?)
    }

    /// Deletes all records or none.
    pub(super) async fn remove_many<R: Resource>(&self, auth: &Auth, ids: Vec<R::Id>) -> Result<Removed<R::Results>, Problem> {
        let (remover, intent, grants) = (self.remover.clone(), auth.context.intent(&auth.principal), auth.principal.grants);
        let (step_intent, subjects) = (intent.clone(), ids.iter().map(|id| R::subject(*id)).collect::<Vec<_>>());
        let named = subjects.clone();
        self.store
            .scan_for(auth.principal.tenant_id, move |tx| {
                let act = step_intent.begin();
                let mut failures = Vec::new();
                for (index, subject) in named.into_iter().enumerate() {
                    match remover.examine_free(tx, &act, grants, subject, &ExpectedVersion::Unspecified) {
                        Ok(()) => {}
                        Err(DirectoryError::Store(error)) => return Err(Refusal::from(error)),
                        Err(error) => failures.push((index, error.into())),
                    }
                }
                if failures.is_empty() { Ok(()) } else { Err(Refusal::Whole(bulk::joined(Members::Names("ids"), failures))) }
            })
            .await?;
        let remover = self.remover.clone();
        let remove = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            each(tx, Members::Names("ids"), subjects.iter(), true, |tx, subject| {
                remover.remove_one(tx, &mut act, *subject, &ExpectedVersion::Unspecified, false)?;
                Ok((204, None))
            })
        };
        Ok(Removed::several(&R::Results::new(self.store.write(remove).await?)))
    }
}

fn bytes(shown: &impl Serialize) -> Result<usize, DirectoryError> {
    Ok(serde_json::to_vec(shown)?.len())
}

/// Applies an operation to each record. With `atomic`, any failure fails the whole request and all failures are reported.
fn each<I, T>(
    tx: &mut WriteTx,
    members: Members,
    records: impl Iterator<Item = I>,
    atomic: bool,
    mut act: impl FnMut(&mut WriteTx, I) -> Result<(u16, Option<T>), Refusal>,
) -> Result<Vec<Outcome<T>>, Refusal> {
    let (mut outcomes, mut failures) = (Vec::new(), Vec::new());
    for (index, record) in records.enumerate() {
        match tx.attempt(|tx| act(tx, record)) {
            Ok((status, shown)) => outcomes.push((status, Ok(shown))),
            Err(refusal) if refusal.is_store_error() => return Err(refusal),
            Err(refusal @ Refusal::Whole(_)) if atomic => return Err(refusal),
            Err(refusal) if atomic => failures.push((index, refusal.into())),
            Err(refusal) => {
                let problem = Problem::from(refusal);
                outcomes.push((problem.code.status().as_u16(), Err(problem)));
            }
        }
    }
    if failures.is_empty() { Ok(outcomes) } else { Err(Refusal::Whole(bulk::joined(members, failures))) }
}
