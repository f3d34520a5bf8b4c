//! Backups that are kept outside of the host: which there are, and taking one from there. No server is needed, only the settings.

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
use tenantd_upkeep::{Entry, Forward, Manifest, OffsiteError, OffsitePlace};

use super::{Common, Failure, output, print_error};
use crate::app::key_source;

#[derive(Debug, Args)]
pub(super) struct FromOffsite {
    /// Take a backup from the place that `offsite.url` names, in place of a file: `offsite` for the newest, or `offsite:ID`.
    #[arg(long, value_name = "PLACE", conflicts_with = "file")]
    pub(super) from: Option<Source>,
    /// The age identity that opens the backup, as `tenantd backup-key` wrote it.
    #[arg(long, value_name = "FILE", requires = "from")]
    identity: Option<PathBuf>,
    /// Take what was there at this time, such as 2026-11-18T09:30:00Z. Without it, `offsite` takes everything up to the last change that
    /// was sent, and `offsite:ID` the backup alone.
    #[arg(long, value_name = "TIME", requires = "from", value_parser = time)]
    at: Option<Timestamp>,
}

/// A time on the command line, such as `2026-11-18T09:30:00Z`.
fn time(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text).ok_or("expected a time such as 2026-11-18T09:30:00Z")
}

/// Which backup to take.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// `None`: the newest.
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

/// A backup that is there and can be opened.
pub(super) struct Chosen {
    place: OffsitePlace,
    manifest: Manifest,
    identities: Option<Vec<Identity>>,
    moment: Moment,
    key: InstallationKey,
}

/// Up to which change a backup is brought forward.
#[derive(Clone, Copy)]
enum Moment {
    OfTheBackup,
    Newest,
    At(Timestamp),
}

impl Chosen {
    /// Where it is.
    pub(super) fn shown(&self) -> String {
        self.place.show(&self.manifest.installation_id, &self.manifest.id)
    }

    /// Writes its snapshot to a new file, decrypted and compared with what the installation signed, and brings it forward. The time of the
    /// last change in it, unless the backup is taken alone.
    pub(super) async fn fetch(&self, to: &Path) -> Result<Option<Timestamp>, Failure> {
        if to.exists() {
            // Left behind by a command that was cut off.
            std::fs::remove_file(to).map_err(|error| Failure::Failed(format!("{}: {error}", to.display())))?;
        }
        self.place.fetch(&self.manifest, self.identities.clone(), to).await.map_err(failed)?;
        let until = match self.moment {
            Moment::OfTheBackup => return Ok(None),
            Moment::Newest => Timestamp::from_millis(i64::MAX),
            Moment::At(time) => time,
        };
        let forward = self.place.bring_forward(&self.manifest, to, self.identities.as_deref(), &self.key, until);
        let Forward { reached, is_complete } = forward.await.map_err(failed)?;
        let problem = || format!("some changes after {reached} are missing in the place of the backups");
        match (is_complete, self.moment) {
            (true, _) => {}
            (false, Moment::At(_)) => {
                let ways = "choose a time up to then, or one after the next backup";
                return Err(Failure::Failed(format!("{}; {ways}", problem())));
            }
            (false, _) => print_error(&format!("tenantd: {}, so that later ones are left out", problem())),
        }
        Ok(Some(reached))
    }
}

impl FromOffsite {
    /// Looks for the wanted backup among those that the installation of `key` signed.
    pub(super) async fn choose(&self, source: &Source, config: &Config, key: &InstallationKey) -> Result<Chosen, Failure> {
        let place = configured(config)?;
        let manifest = place.find(source.id.as_deref(), self.at, key).await.map_err(failed)?;
        let moment = match (self.at, &source.id) {
            (Some(time), _) => Moment::At(time),
            (None, Some(_)) => Moment::OfTheBackup,
            (None, None) => Moment::Newest,
        };
        if manifest.key_fingerprint != show_fingerprint(key.fingerprint()) {
            return Err(Failure::Failed(format!(
                "the backup {} was made with the installation key {}, and this one is {}; name the other with --installation-key FILE",
                manifest.id,
                manifest.key_fingerprint,
                show_fingerprint(key.fingerprint())
            )));
        }
        let identities = self.identities(&manifest)?;
        Ok(Chosen { place, manifest, identities, moment, key: key.clone() })
    }

    fn identities(&self, manifest: &Manifest) -> Result<Option<Vec<Identity>>, Failure> {
        if !manifest.is_encrypted() {
            return Ok(None);
        }
        let Some(file) = &self.identity else {
            let (id, recipients) = (&manifest.id, manifest.recipients.join(", "));
            return Err(Failure::Failed(format!(
                "the backup {id} is encrypted for {recipients}; name the identity with --identity FILE"
            )));
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

/// Shows the backups at the configured place.
pub(super) async fn list(common: &Common) -> Result<(), Failure> {
    let config = common.settings(&[])?;
    let place = configured(&config)?;
    // Without the installation key, nobody can tell whether a backup is genuine.
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

/// `signed` says whether the installation of this key wrote it.
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
