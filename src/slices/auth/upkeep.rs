//! Stores once a minute when sessions were last used. Removes ended sessions, old counts of wrong passwords, expired password tokens,
//! sign-in links, challenges and notes of answered ones, and what is left of portal access that does not count any more.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenantd_base::clock::Clock;
use tenantd_store::{
    Store, StoreError,
    tasks::{Done, Task, TaskError},
};

use super::{
    authenticator::SliceAuthenticator,
    error::AuthError,
    model::FORGET_FAILURES,
    portal,
    repo::{self, UserKey},
    service::Users,
};

/// The maximum number of records per transaction.
const BATCH: usize = 500;

#[derive(Debug)]
pub(super) struct SessionUpkeep {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) authenticator: Arc<SliceAuthenticator>,
    pub(super) users: Users,
    /// The last portal access that was examined. After the end, it begins again.
    pub(super) examined: Mutex<Option<UserKey>>,
}

impl SessionUpkeep {
    async fn write_seen(&self) -> Result<(), TaskError> {
        let seen = self.authenticator.take_seen();
        for batch in seen.chunks(BATCH) {
            let batch = batch.to_vec();
            let gone = self
                .store
                .write(move |tx| {
                    let mut gone = Vec::new();
                    for (token, at) in &batch {
                        match repo::get_session(tx, token)? {
                            Some(mut session) if session.last_seen_at < *at => {
                                session.last_seen_at = *at;
                                repo::put_session(tx, token, &session)?;
                            }
                            Some(_) => {}
                            None => gone.push(*token),
                        }
                    }
                    Ok::<_, StoreError>(gone)
                })
                .await?;
            self.authenticator.forget(&gone);
        }
        Ok(())
    }

    /// Ends portal access that does not count any more. Returns whether there is more to examine.
    async fn end_stale_access(&self) -> Result<bool, TaskError> {
        let after = *self.examined.lock().unwrap_or_else(PoisonError::into_inner);
        let (stale, last) = self.store.read(|tx| portal::stale_access(tx, after, BATCH))?;
        let now = self.clock.now();
        for key in stale {
            let users = self.users.clone();
            self.store
                .write(move |tx| users.end_stale_access(tx, key, now))
                .await
                .map_err(|error: AuthError| TaskError(error.to_string()))?;
        }
        *self.examined.lock().unwrap_or_else(PoisonError::into_inner) = last;
        Ok(last.is_some())
    }
}

impl Task for SessionUpkeep {
    fn name(&self) -> &'static str {
        "session_upkeep"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.write_seen().await?;
        let now = self.clock.now();
        let (ended, old) = self
            .store
            .write(move |tx| {
                let ended = repo::expired_sessions(tx, now, BATCH)?;
                for token in &ended {
                    repo::remove_session(tx, token)?;
                }
                let old = repo::old_failures(tx, now - FORGET_FAILURES, BATCH)?;
                for key in &old {
                    repo::LOGIN_FAILURES.remove(tx, key)?;
                }
                let expired = repo::expired_password_tokens(tx, now, BATCH)?;
                for token in &expired {
                    repo::PASSWORD_TOKENS.remove(tx, token)?;
                }
                let links = repo::expired_sign_in_links(tx, now, BATCH)?;
                for link in &links {
                    repo::SIGN_IN_LINKS.remove(tx, link)?;
                }
                let challenges = repo::factors::expired_challenges(tx, now, BATCH)?;
                for challenge in &challenges {
                    repo::factors::CHALLENGES.remove(tx, challenge)?;
                }
                let spent = repo::passkeys::expired_challenges(tx, now, BATCH)?;
                for challenge in &spent {
                    repo::passkeys::SPENT_CHALLENGES.remove(tx, challenge)?;
                }
                let counts = [old.len(), expired.len(), links.len(), challenges.len(), spent.len()];
                let most = counts.into_iter().max().unwrap_or_default();
                Ok::<_, StoreError>((ended, most))
            })
            .await?;
        self.authenticator.forget(&ended);
        let has_more = self.end_stale_access().await?;
        Ok(if has_more || ended.len().max(old) == BATCH { Done::Some } else { Done::All })
    }

    async fn finish(&self) -> Result<(), TaskError> {
        self.write_seen().await
    }
}
