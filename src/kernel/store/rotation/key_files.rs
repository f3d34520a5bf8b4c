//! The files of installation keys: the key in force, and beside the store the key that replaces it.
//!
//! **Invariant:** every key that sealed anything is in one of them. tenantd never writes to a file from outside (configured, or a
//! credential of the service manager). Then the next key stays beside the store until the operator has put it in place.

use std::path::{Path, PathBuf};

use tenantd_base::{
    entropy::Entropy,
    secrets::{InstallationKey, KeySource, show_fingerprint},
};

use super::super::{
    KeyFingerprint, StoreError,
    installation::{io_error, sync_directory},
    write_private_file,
};

const NEXT_KEY_FILE: &str = "installation.key.next";

#[derive(Clone, Debug)]
pub struct KeyFiles {
    source: KeySource,
    next: PathBuf,
}

impl KeyFiles {
    pub fn new(source: KeySource, data_directory: &Path) -> Self {
        Self { source, next: data_directory.join(NEXT_KEY_FILE) }
    }

    fn load(path: &Path) -> Result<InstallationKey, StoreError> {
        InstallationKey::load(path).map_err(StoreError::Installation)
    }

    fn load_next(&self) -> Result<Option<InstallationKey>, StoreError> {
        if self.next.exists() { Self::load(&self.next).map(Some) } else { Ok(None) }
    }

    /// Returns the key with this fingerprint.
    pub fn find(&self, wanted: KeyFingerprint) -> Result<InstallationKey, StoreError> {
        let source = Self::load(&self.source.path);
        if let Ok(key) = &source
            && key.fingerprint() == wanted
        {
            return Ok(key.clone());
        }
        if let Some(key) = self.load_next()?
            && key.fingerprint() == wanted
        {
            return Ok(key);
        }
        let given = source?.fingerprint();
        let (path, next) = (self.source.path.display(), self.next.display());
        Err(StoreError::Installation(format!(
            "{path} is not the key of this store: its fingerprint is {}, but the store needs {}; {next} is not that key either",
            show_fingerprint(given),
            show_fingerprint(wanted),
        )))
    }

    /// Writes the key that replaces the current one, or returns the one that is already written.
    pub(super) fn stage(&self, current: &InstallationKey, entropy: &mut Entropy) -> Result<InstallationKey, StoreError> {
        self.settle(current.fingerprint())?;
        match self.load_next()? {
            Some(next) if next.fingerprint() == current.fingerprint() => Err(StoreError::Installation(format!(
                "{} holds the key in force: replace {} with it and start tenantd once before you rotate the key again",
                self.next.display(),
                self.source.path.display()
            ))),
            Some(next) if next.signs_as(current) => Ok(next),
            _ => {
                let next = current.successor(entropy);
                write_private_file(&self.next, next.to_file().as_bytes())?;
                Ok(next)
            }
        }
    }

    /// Moves the key in force to its place, unless it is already there or tenantd may not write there. Repeated calls do nothing.
    pub fn settle(&self, in_force: KeyFingerprint) -> Result<(), StoreError> {
        if self.load_next()?.is_none_or(|next| next.fingerprint() != in_force) {
            return Ok(());
        }
        let in_place = Self::load(&self.source.path).is_ok_and(|key| key.fingerprint() == in_force);
        let settle = || -> std::io::Result<()> {
            if in_place {
                return std::fs::remove_file(&self.next);
            }
            if self.source.may_create { std::fs::rename(&self.next, &self.source.path) } else { Ok(()) }
        };
        settle().map_err(|error| io_error(&self.next, &error))?;
        self.next.parent().map_or(Ok(()), sync_directory)
    }

    /// Whether the key in force is in its place, or tenantd may not put it there.
    pub(super) fn is_settled(&self, in_force: KeyFingerprint) -> bool {
        !self.source.may_create || Self::load(&self.source.path).is_ok_and(|key| key.fingerprint() == in_force)
    }

    /// What the operator must do if the key in force is not in its place.
    pub fn operator_action(&self, in_force: KeyFingerprint) -> Result<Option<String>, StoreError> {
        if self.source.may_create {
            return Ok(None);
        }
        let waits = self.load_next()?.is_some_and(|next| next.fingerprint() == in_force);
        let in_place = Self::load(&self.source.path).is_ok_and(|key| key.fingerprint() == in_force);
        Ok((waits && !in_place).then(|| {
            format!(
                "The key in force is in {}. Copy its content to {} and restart tenantd, which then removes the first file.",
                self.next.display(),
                self.source.path.display()
            )
        }))
    }
}
