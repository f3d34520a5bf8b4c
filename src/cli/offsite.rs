//! Lists and fetches off-site backups. It needs only the configuration, no server.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use serde_json::{Value, json};

use tenantd_base::{
    clock::Timestamp,
    config::Config,
    secrets::{InstallationKey, Secret, age::Identity, show_fingerprint},
};
use tenantd_upkeep::{Entry, Manifest, OffsiteError, OffsitePlace, Route, Shortfall};

use super::{Common, Failure, output, print_error};
use crate::app::key_source;

#[derive(Debug, Args)]
pub(super) struct FromOffsite {
    /// Use a backup from the location in `offsite.url` instead of a file: `offsite` for the newest, or `offsite:ID`.
    #[arg(long, value_name = "PLACE", conflicts_with = "file")]
    pub(super) from: Option<Source>,
    /// The file of the age identity that decrypts the backup, as written by `tenantd backup-key`.
    #[arg(long, value_name = "FILE", requires = "from")]
    identity: Option<PathBuf>,
    /// Restore the state at this time, such as 2026-11-18T09:30:00Z. Default: `offsite` restores up to the last change that was
    /// sent, and `offsite:ID` restores only the backup.
    #[arg(long, value_name = "TIME", requires = "from", value_parser = time)]
    at: Option<Timestamp>,
}

/// Parses a time of the command line, such as `2026-11-18T09:30:00Z`.
fn time(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text).ok_or("expected a time such as 2026-11-18T09:30:00Z")
}

/// The backup that `--from` selects.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// `None` selects the newest.
    id: Option<String>,
}

impl FromStr for Source {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "offsite" => Ok(Self { id: None }),
            Some(("offsite", id)) if !id.is_empty() => Ok(Self { id: Some(id.to_owned()) }),
            _ => Err("expected `offsite` or `offsite:ID`"),
        }
    }
}

/// A backup that exists and can be decrypted.
pub(super) struct SelectedBackup {
    place: OffsitePlace,
    contents: Contents,
    identities: Option<Vec<Identity>>,
    /// All changes up to this time must be available.
    at: Option<Timestamp>,
    key: InstallationKey,
}

enum Contents {
    /// Only the backup, without later changes.
    Backup(Box<Manifest>),
    /// The backup and the changes after it.
    WithChanges(Box<Route>),
}

impl Contents {
    fn manifest(&self) -> &Manifest {
        match self {
            Self::Backup(manifest) => manifest,
            Self::WithChanges(route) => &route.manifest,
        }
    }

    fn is_encrypted(&self) -> bool {
        match self {
            Self::Backup(manifest) => manifest.is_encrypted(),
            Self::WithChanges(route) => route.is_encrypted(),
        }
    }
}

/// The time up to which a backup was restored.
#[derive(Clone, Debug, Default)]
pub(super) struct RestorePoint {
    /// The time of the last restored change. `None` if only the backup was restored.
    pub(super) time: Option<Timestamp>,
    /// The reason why later changes are missing, and other warnings.
    pub(super) warnings: Vec<String>,
}

impl RestorePoint {
    /// Prints the warnings and the time.
    pub(super) fn print(&self) -> Result<(), Failure> {
        self.warnings.iter().for_each(|warning| print_error(&format!("tenantd: {warning}")));
        let Some(time) = self.time else { return Ok(()) };
        output::line(&format!("The last restored change was made at {time}."))
    }
}

impl SelectedBackup {
    /// The location for messages.
    pub(super) fn location(&self) -> String {
        let manifest = self.contents.manifest();
        self.place.show(&manifest.installation_id, &manifest.id)
    }

    /// Decrypts the snapshot into a new file, verifies it against its signature, and applies later changes.
    pub(super) async fn fetch(&self, to: &Path) -> Result<RestorePoint, Failure> {
        if to.exists() {
            // Left over from an interrupted command.
            std::fs::remove_file(to).map_err(|error| Failure::Failed(format!("{}: {error}", to.display())))?;
        }
        let manifest = self.contents.manifest();
        let identities = self.identities.clone().filter(|_| manifest.is_encrypted());
        self.place.fetch(manifest, identities, to).await.map_err(failed)?;
        let Contents::WithChanges(route) = &self.contents else { return Ok(RestorePoint::default()) };
        let forward = self.place.bring_forward(route, to, self.identities.as_deref(), &self.key).await.map_err(failed)?;
        let reached = forward.reached;
        let mut warnings = Vec::new();
        if let Some(shortfall) = forward.shortfall {
            let problem = match shortfall {
                Shortfall::Missing => format!("some changes after {reached} are missing at the backup location"),
                Shortfall::Beyond => format!("the newest change at the backup location is from {reached}"),
                Shortfall::Unusable(problem) => format!("no change after {reached} can be restored: {problem}"),
            };
            if self.at.is_some() {
                let ways = "specify an earlier time, or leave out --at to restore all available changes";
                return Err(Failure::Failed(format!("{problem}; {ways}")));
            }
            warnings.push(format!("{problem}. Later changes were not restored"));
        }
        if forward.clock_was_set_back {
            let order = "Changes were restored in the order in which they were made";
            warnings.push(format!("the clock of the host was set back before {reached}, so some times occurred twice. {order}"));
        }
        Ok(RestorePoint { time: Some(reached), warnings })
    }
}

impl FromOffsite {
    /// Finds the backup among those that the installation of `key` signed.
    pub(super) async fn select(&self, source: &Source, config: &Config, key: &InstallationKey) -> Result<SelectedBackup, Failure> {
        let place = configured(config)?;
        let mut found = place.find(source.id.as_deref(), self.at, key).await.map_err(failed)?;
        let contents = if source.id.is_some() && self.at.is_none() {
            found.pop().map(|manifest| Contents::Backup(Box::new(manifest)))
        } else {
            let route = place.route(found, self.at.unwrap_or(Timestamp::LATEST)).await.map_err(failed)?;
            route.map(|route| Contents::WithChanges(Box::new(route)))
        };
        let Some(contents) = contents else {
            return Err(Failure::Failed("there is no backup; list the backups with `tenantd backup list`".to_owned()));
        };
        // Changes after a backup can include a key rotation. The required key is known only when they are applied.
        if let Contents::Backup(manifest) = &contents
            && manifest.key_fingerprint != show_fingerprint(key.fingerprint())
        {
            return Err(Failure::Failed(format!(
                "the backup {} needs the installation key {}, but the configured key is {}; specify the other key with --installation-key FILE",
                manifest.id,
                manifest.key_fingerprint,
                show_fingerprint(key.fingerprint())
            )));
        }
        let identities = self.identities(&contents)?;
        Ok(SelectedBackup { place, contents, identities, at: self.at, key: key.clone() })
    }

    fn identities(&self, contents: &Contents) -> Result<Option<Vec<Identity>>, Failure> {
        let Some(file) = &self.identity else {
            if !contents.is_encrypted() {
                return Ok(None);
            }
            let (id, recipients) = (&contents.manifest().id, contents.manifest().recipients.join(", "));
            let problem = if recipients.is_empty() {
                format!("the changes after the backup {id} are encrypted")
            } else {
                format!("the backup {id} is encrypted for {recipients}")
            };
            return Err(Failure::Failed(format!("{problem}; specify the identity with --identity FILE")));
        };
        let wrong = |reason: String| Failure::Failed(format!("{}: {reason}", file.display()));
        let text = Secret::new(std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?);
        Identity::parse_file(text.expose()).map(Some).map_err(|error| wrong(error.to_string()))
    }
}

fn failed(error: OffsiteError) -> Failure {
    Failure::Failed(error.to_string())
}

fn configured(config: &Config) -> Result<OffsitePlace, Failure> {
    OffsitePlace::configured(config).ok_or_else(|| failed(OffsiteError::NotConfigured))
}

/// Lists the backups at the configured location.
pub(super) async fn list(common: &Common) -> Result<(), Failure> {
    let config = common.settings(&[])?;
    let place = configured(&config)?;
    // Signatures can be verified only with the installation key.
    let key = InstallationKey::load(&key_source(&config, &config.data.directory).path).ok();
    let entries: Vec<Value> = place.list().await.map_err(failed)?.iter().map(|entry| shown(&place, entry, key.as_ref())).collect();
    if common.json {
        return output::json(&json!({"data": entries}));
    }
    let columns = [
        ("ID", "/id"),
        ("INSTALLATION", "/installation_id"),
        ("CREATED", "/created_at"),
        ("RECORDS", "/records"),
        ("BYTES", "/stored_bytes"),
        ("STATE", "/state"),
        ("SIGNED", "/signed"),
    ];
    output::table(&entries, &columns)
}

/// One row of the list. `signed` is true if the installation of this key wrote the backup.
fn shown(place: &OffsitePlace, entry: &Entry, key: Option<&InstallationKey>) -> Value {
    let (id, installation_id) = (&entry.id, &entry.installation_id);
    let place = place.show(installation_id, id);
    let Some(manifest) = entry.manifest() else {
        return json!({"id": id, "installation_id": installation_id, "place": place, "state": entry.problem()});
    };
    json!({
        "id": id,
        "installation_id": installation_id,
        "place": place,
        "state": if manifest.is_encrypted() { "encrypted" } else { "not encrypted" },
        "signed": key.map(|key| entry.is_signed_by(key)),
        "created_at": manifest.created_at,
        "release": manifest.release,
        "key_fingerprint": manifest.key_fingerprint,
        "recipients": manifest.recipients,
        "records": manifest.snapshot.records,
        "snapshot_bytes": manifest.snapshot.bytes,
        "stored_bytes": manifest.object.bytes,
    })
}
