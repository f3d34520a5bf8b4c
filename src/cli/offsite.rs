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
use tenantd_upkeep::{Entry, Manifest, OffsiteError, OffsitePlace, Route, Shortfall};

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
    what: What,
    identities: Option<Vec<Identity>>,
    /// Up to then, nothing may be missing.
    at: Option<Timestamp>,
    key: InstallationKey,
}

enum What {
    /// One backup, without later changes.
    Alone(Box<Manifest>),
    Forward(Box<Route>),
}

impl What {
    fn manifest(&self) -> &Manifest {
        match self {
            Self::Alone(manifest) => manifest,
            Self::Forward(route) => &route.manifest,
        }
    }

    fn is_encrypted(&self) -> bool {
        match self {
            Self::Alone(manifest) => manifest.is_encrypted(),
            Self::Forward(route) => route.is_encrypted(),
        }
    }
}

/// How far a backup was brought forward.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    /// The time of the last change in it. None: the backup was taken alone.
    pub(super) time: Option<Timestamp>,
    /// Why later changes are left out, and what else is to be known.
    pub(super) warnings: Vec<String>,
}

impl Reached {
    /// Tells people.
    pub(super) fn print(&self) -> Result<(), Failure> {
        self.warnings.iter().for_each(|warning| print_error(&format!("tenantd: {warning}")));
        let Some(time) = self.time else { return Ok(()) };
        output::line(&format!("The last change in it was made at {time}."))
    }
}

impl Chosen {
    /// Where it is.
    pub(super) fn shown(&self) -> String {
        let manifest = self.what.manifest();
        self.place.show(&manifest.installation_id, &manifest.id)
    }

    /// Writes its snapshot to a new file, decrypted and compared with what the installation signed, and brings it forward.
    pub(super) async fn fetch(&self, to: &Path) -> Result<Reached, Failure> {
        if to.exists() {
            // Left behind by a command that was cut off.
            std::fs::remove_file(to).map_err(|error| Failure::Failed(format!("{}: {error}", to.display())))?;
        }
        let manifest = self.what.manifest();
        let identities = self.identities.clone().filter(|_| manifest.is_encrypted());
        self.place.fetch(manifest, identities, to).await.map_err(failed)?;
        let What::Forward(route) = &self.what else { return Ok(Reached::default()) };
        let forward = self.place.bring_forward(route, to, self.identities.as_deref(), &self.key).await.map_err(failed)?;
        let reached = forward.reached;
        let mut warnings = Vec::new();
        if let Some(shortfall) = forward.shortfall {
            let problem = match shortfall {
                Shortfall::Missing => format!("some changes after {reached} are missing in the place of the backups"),
                Shortfall::Beyond => format!("the newest change in the place of the backups is from {reached}"),
                Shortfall::Unusable(problem) => format!("no change after {reached} can be restored: {problem}"),
            };
            if self.at.is_some() {
                let ways = "choose a time before that, or leave out --at to restore everything up to then";
                return Err(Failure::Failed(format!("{problem}; {ways}")));
            }
            warnings.push(format!("{problem}. Later changes are left out"));
        }
        if forward.clock_was_set_back {
            let order = "Changes are restored in the order in which they were made";
            warnings.push(format!("the clock of the host was set back before {reached}, so that some times came twice. {order}"));
        }
        Ok(Reached { time: Some(reached), warnings })
    }
}

impl FromOffsite {
    /// Looks for the wanted backup among those that the installation of `key` signed.
    pub(super) async fn choose(&self, source: &Source, config: &Config, key: &InstallationKey) -> Result<Chosen, Failure> {
        let place = configured(config)?;
        let mut found = place.find(source.id.as_deref(), self.at, key).await.map_err(failed)?;
        let what = if source.id.is_some() && self.at.is_none() {
            found.pop().map(|manifest| What::Alone(Box::new(manifest)))
        } else {
            let route = place.route(found, self.at.unwrap_or(Timestamp::LATEST)).await.map_err(failed)?;
            route.map(|route| What::Forward(Box::new(route)))
        };
        let Some(what) = what else { return Err(Failure::Failed("there is no backup".to_owned())) };
        // The changes after a backup may lead to another key. Which one is needed is known when they are applied.
        if let What::Alone(manifest) = &what
            && manifest.key_fingerprint != show_fingerprint(key.fingerprint())
        {
            return Err(Failure::Failed(format!(
                "the backup {} was made with the installation key {}, and this one is {}; name the other with --installation-key FILE",
                manifest.id,
                manifest.key_fingerprint,
                show_fingerprint(key.fingerprint())
            )));
        }
        let identities = self.identities(&what)?;
        Ok(Chosen { place, what, identities, at: self.at, key: key.clone() })
    }

    fn identities(&self, what: &What) -> Result<Option<Vec<Identity>>, Failure> {
        let Some(file) = &self.identity else {
            if !what.is_encrypted() {
                return Ok(None);
            }
            let (id, recipients) = (&what.manifest().id, what.manifest().recipients.join(", "));
            let problem = if recipients.is_empty() {
                format!("the changes after the backup {id} are encrypted")
            } else {
                format!("the backup {id} is encrypted for {recipients}")
            };
            return Err(Failure::Failed(format!("{problem}; name the identity with --identity FILE")));
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
