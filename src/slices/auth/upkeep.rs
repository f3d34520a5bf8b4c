//! Stores once a minute when sessions were last used. Removes ended sessions, old counts of wrong passwords, and expired password
//! tokens and sign-in links.

use std::{sync::Arc, time::Duration};

use tenantd_base::clock::Clock;
use tenantd_store::{
    Store, StoreError,
    tasks::{Done, Task, TaskError},
};

use super::{authenticator::SliceAuthenticator, model::FORGET_FAILURES, repo};

/// The maximum number of records per transaction.
const BATCH: usize = 500;

#[derive(Debug)]
pub(super) struct SessionUpkeep {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) authenticator: Arc<SliceAuthenticator>,
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
                Ok::<_, StoreError>((ended, old.len().max(expired.len()).max(links.len())))
            })
            .await?;
        self.authenticator.forget(&ended);
        Ok(if ended.len().max(old) == BATCH { Done::Some } else { Done::All })
    }

    async fn finish(&self) -> Result<(), TaskError> {
        self.write_seen().await
    }
}
