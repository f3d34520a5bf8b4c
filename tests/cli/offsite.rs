//! Offsite backups: written, listed, tested and restored with a key that is not on the host.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use serde_json::Value;

use tenantd_base::clock::{Clock, Timestamp};

use crate::{refused, service::Service, tenantd, text};

/// A service that stores its backups in a directory beside its data.
struct Host {
    directory: tempfile::TempDir,
    service: Service,
}

impl Host {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("elsewhere")).unwrap();
        let identity = directory.path().join("backup.key").display().to_string();
        let made = tenantd(&["backup-key", &identity, "--json"]).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{}", text(&made.stderr)));
        let (place, recipient) = (directory.path().join("elsewhere"), made["recipient"].as_str().unwrap());
        let settings = format!(
            "[offsite]\nurl = \"file://{}\"\nrecipients = [\"{recipient}\"]\nevery_hours = 0\nkeep_last = 1\nkeep_daily = 1\njournal_seconds = 1\n",
            place.display()
        );
        let service = Service::with_settings(directory.path(), &settings);
        service.wait_for("READY=1");
        Self { directory, service }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn run_in(&self, data: &Path, arguments: &[&str]) -> Output {
        let mut command = tenantd(arguments);
        command.arg("--config").arg(&self.service.settings).arg("--data-dir").arg(data).output().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_in(&self.service.data, arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn restoring_an_offsite_backup_needs_its_identity() {
    let host = Host::start();
    let identity = host.path("backup.key");
    let first = host.json(&["backup", "--offsite"]);
    let second = host.json(&["backup", "--offsite"]);
    assert_eq!(
        (&first["removed"], &second["removed"]),
        (&Value::from(0), &Value::from(0)),
        "times between are restored from the first"
    );
    let listed = host.json(&["backup", "list"])["data"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert_eq!((&listed[1]["id"], &listed[1]["records"]), (&second["id"], &second["records"]));
    assert_eq!((&listed[1]["state"], &listed[1]["signed"]), (&"encrypted".into(), &true.into()));
    let unknown = host.run_in(&host.directory.path().join("no-key"), &["backup", "list", "--json"]);
    let unknown: Value = serde_json::from_slice(&unknown.stdout).unwrap();
    assert_eq!(unknown["data"][0]["signed"], Value::Null, "without the installation key");

    let from = format!("offsite:{}", second["id"].as_str().unwrap());
    let drill = host.json(&["drill", "--from", &from, "--identity", &identity]);
    assert_eq!((&drill["file"], &drill["records"]), (&second["place"], &second["records"]));
    assert_eq!((&drill["recorded"], &drill["restored_to"]), (&true.into(), &Value::Null));
    let forward = host.json(&["drill", "--from", "offsite", "--identity", &identity]);
    assert!(forward["restored_to"].is_string(), "{forward}");
    let left: Vec<_> = std::fs::read_dir(host.service.data.join("snapshots")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(refused(&host.run(&["drill", "--from", "offsite"]), 1).contains("--identity FILE"));
    let other = host.path("other.key");
    assert!(tenantd(&["backup-key", &other]).output().unwrap().status.success());
    assert!(refused(&host.run(&["drill", "--from", "offsite", "--identity", &other]), 1).contains("other identities"));

    let (key, restored) =
        (host.service.data.join("installation.key").display().to_string(), host.directory.path().join("restored"));
    let arguments = ["restore", "--from", &from, "--identity", &identity, "--installation-key", &key];
    let foreign = host.path("foreign.key");
    std::fs::write(&foreign, "ab".repeat(32)).unwrap();
    let foreign = host.run_in(&restored, &["restore", "--from", &from, "--identity", &identity, "--installation-key", &foreign]);
    assert!(refused(&foreign, 1).contains("not signed"));
    let other_key = restored.join("installation.key");
    std::fs::write(&other_key, "cd".repeat(32)).unwrap();
    assert!(refused(&host.run_in(&restored, &arguments), 1).contains("another installation key: move it to a safe place"));
    assert_eq!(std::fs::read_to_string(&other_key).unwrap(), "cd".repeat(32));
    std::fs::remove_file(other_key).unwrap();
    let output = host.run_in(&restored, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let checked = host.run_in(&restored, &["check", "--json"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["clean"], true, "{checked}");
    assert!(!restored.join("offsite.fetched").exists());
    assert!(refused(&host.run_in(&restored, &arguments), 1).contains("already holds an installation"));
}

#[test]
fn a_damaged_offsite_backup_fails_its_drill() {
    let host = Host::start();
    let made = host.json(&["backup", "--offsite"]);
    let object = Path::new(made["place"].as_str().unwrap().strip_prefix("file://").unwrap()).join("snapshot.age");
    let mut bytes = std::fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    let damaged = refused(&host.run(&["drill", "--from", "offsite", "--identity", &host.path("backup.key")]), 1);
    assert!(damaged.contains("damaged"), "{damaged}");
    let left: Vec<_> = std::fs::read_dir(host.service.data.join("snapshots")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_offsite_directory_in_the_data_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (data, settings) = (directory.path().join("data"), directory.path().join("tenantd.toml"));
    let place = data.join("backups");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(&settings, format!("[offsite]\nurl = \"file://{}\"\nunencrypted = true\n", place.display())).unwrap();
    let (data, settings) = (data.display().to_string(), settings.display().to_string());
    let started = tenantd(&["serve", "--config", &settings, "--data-dir", &data, "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(refused(&started, 1).contains("offsite.url is in the data directory"));
}

#[test]
fn an_identity_is_private_and_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup.key");
    let shown = path.display().to_string();
    let made = tenantd(&["backup-key", &shown]).output().unwrap();
    assert!(text(&made.stdout).starts_with("age1"));
    assert!(!text(&made.stdout).contains("AGE-SECRET-KEY"));
    let content = std::fs::read_to_string(&path).unwrap();
    assert!(content.contains("\nAGE-SECRET-KEY-1"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    refused(&tenantd(&["backup-key", &shown]).output().unwrap(), 1);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    let data = directory.path().join("data").display().to_string();
    for command in [&["backup", "list"][..], &["drill", "--from", "offsite:x"]] {
        let error = refused(&tenantd(&[command, &["--data-dir", &data]].concat()).output().unwrap(), 1);
        assert!(error.contains("offsite.url") || error.contains("installation key"), "{error}");
    }
}

/// A moment after everything so far, and before everything that follows.
fn moment() -> String {
    let now = Clock::System.now();
    while Clock::System.now() <= now + Duration::from_millis(5) {
        std::thread::yield_now();
    }
    (now + Duration::from_millis(3)).to_string()
}

/// A host that sends its commits. The names of tenants are its history.
struct History {
    host: Host,
    after_backup: String,
    between: String,
    before_last: String,
}

const NAMES: [&str; 5] = ["Before", "First", "Second", "Third", "Last"];

impl History {
    fn write() -> Self {
        let mut host = Host::start();
        host.json(&["tenant", "create", "Before"]);
        host.json(&["backup", "--offsite"]);
        let after_backup = moment();
        host.json(&["tenant", "create", "First"]);
        let between = moment();
        host.json(&["tenant", "create", "Second"]);
        // Commits that were not sent yet are in the journal. The next start sends them.
        host.service.kill();
        host.service.start_again();
        host.json(&["tenant", "create", "Third"]);
        let before_last = moment();
        host.json(&["tenant", "create", "Last"]);
        assert_eq!(host.service.stop(), Some(0));
        Self { host, after_backup, between, before_last }
    }
}

impl Host {
    fn key(&self) -> String {
        self.service.data.join("installation.key").display().to_string()
    }

    fn restore(&self, arguments: &[&str]) -> (tempfile::TempDir, Output) {
        let (identity, key) = (self.path("backup.key"), self.key());
        self.restore_with(&[&["--identity", &identity, "--installation-key", &key], arguments].concat())
    }

    fn restore_with(&self, arguments: &[&str]) -> (tempfile::TempDir, Output) {
        let data = tempfile::tempdir().unwrap();
        let output = self.run_in(data.path(), &[&["restore", "--json"], arguments].concat());
        (data, output)
    }

    /// The names that exist after a restore.
    fn names(&self, arguments: &[&str]) -> Vec<&'static str> {
        self.names_in(&self.restore(arguments))
    }

    fn names_in(&self, (data, output): &(tempfile::TempDir, Output)) -> Vec<&'static str> {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let listed = self.run_in(data.path(), &["tenant", "list", "--offline", "--json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_else(|_| panic!("{}", text(&listed.stderr)));
        let names: Vec<&str> = listed["data"].as_array().unwrap().iter().filter_map(|tenant| tenant["name"].as_str()).collect();
        NAMES.into_iter().filter(|name| names.contains(name)).collect()
    }

    /// The stored segments, the oldest first.
    fn segments(&self) -> Vec<PathBuf> {
        let installation = std::fs::read_dir(self.directory.path().join("elsewhere")).unwrap().next().unwrap().unwrap().path();
        let entries = std::fs::read_dir(installation.join("journal")).unwrap();
        let mut segments: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        segments
    }
}

const NEWEST: [&str; 2] = ["--from", "offsite"];

#[test]
fn any_moment_after_a_backup_is_restored() {
    let History { host, after_backup, between, before_last } = History::write();
    for (at, expected) in [(&after_backup, &NAMES[..1]), (&between, &NAMES[..2]), (&before_last, &NAMES[..4])] {
        assert_eq!(host.names(&["--from", "offsite", "--at", at]), expected, "{at}");
    }
    assert_eq!(host.names(&NEWEST), NAMES, "without a time, the newest");
    let listed = host.json(&["backup", "list"]);
    let alone = format!("offsite:{}", listed["data"][0]["id"].as_str().unwrap());
    assert_eq!(host.names(&["--from", &alone]), NAMES[..1], "the backup alone");
    assert!(refused(&host.restore(&["--from", "offsite", "--at", "2020-01-01T00:00:00Z"]).1, 1).contains("complete by 2020"));
    let beyond = refused(&host.restore(&["--from", "offsite", "--at", "2090-01-01T00:00:00Z"]).1, 1);
    assert!(beyond.contains("the newest change at the backup location is from 20"), "{beyond}");
    refused(&host.restore(&["--from", "offsite", "--at", "yesterday"]).1, 2);
}

/// Commits that a restore to the moment needs, and that others follow. A slow machine may have sent more than one file after it.
fn needed<'a>(segments: &'a [PathBuf], moment: &str) -> &'a PathBuf {
    let moment = Timestamp::parse(moment).unwrap();
    let begins =
        |segment: &PathBuf| segment.file_name().unwrap().to_str().unwrap().split('-').nth(2).unwrap().parse::<i64>().unwrap();
    let (_, followed) = segments.split_last().unwrap();
    followed.iter().rfind(|segment| begins(segment) <= moment.as_millis()).unwrap()
}

#[test]
fn changed_renamed_and_missing_commits_are_noticed() {
    let History { host, before_last, .. } = History::write();
    let segments = host.segments();
    assert!(segments.len() > 2 && segments[0].to_string_lossy().ends_with(".commits.age"), "{segments:?}");
    let (middle, at) = (needed(&segments, &before_last), ["--from", "offsite", "--at", &before_last]);
    let sound = std::fs::read(middle).unwrap();
    let mut changed = sound.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(middle, changed).unwrap();
    let (data, output) = host.restore(&at);
    let problem = refused(&output, 1);
    assert!(problem.contains(middle.file_name().unwrap().to_str().unwrap()), "{problem}");
    assert!(!data.path().join("installation.id").exists() && !data.path().join("offsite.fetched").exists());
    std::fs::remove_file(middle).unwrap();
    assert!(refused(&host.restore(&at).1, 1).contains("are missing at the backup location"));
    let (_data, output) = host.restore(&NEWEST);
    let restored: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(restored["warnings"][0].as_str().unwrap().contains("are missing"), "{restored}");
    // Under a name whose commits are from the next century.
    let name = middle.file_name().unwrap().to_str().unwrap();
    let parts: Vec<&str> = name.splitn(5, '-').collect();
    let later = middle.with_file_name([parts[0], parts[1], "04000000000000", "04000000000001", parts[4]].join("-"));
    std::fs::write(&later, &sound).unwrap();
    let renamed = refused(&host.restore(&at).1, 1);
    assert!(renamed.contains("do not match its name") || renamed.contains("are missing"), "{renamed}");
    std::fs::remove_file(later).unwrap();
    std::fs::write(middle, sound).unwrap();
    assert_eq!(host.names(&at), NAMES[..4]);
}

#[test]
fn changes_wait_while_the_offsite_directory_is_missing() {
    let mut host = Host::start();
    host.json(&["tenant", "create", "Before"]);
    host.json(&["backup", "--offsite"]);
    let (mounted, away) = (host.directory.path().join("elsewhere"), host.directory.path().join("away"));
    std::fs::rename(&mounted, &away).unwrap();
    std::fs::create_dir(&mounted).unwrap();
    host.json(&["tenant", "create", "First"]);
    host.service.stop();
    assert_eq!(std::fs::read_dir(&mounted).unwrap().count(), 0, "nothing is sent to the empty directory");
    std::fs::remove_dir(&mounted).unwrap();
    std::fs::rename(&away, &mounted).unwrap();
    host.service.start_again();
    host.json(&["tenant", "create", "Second"]);
    assert_eq!(host.service.stop(), Some(0));
    assert_eq!(host.names(&NEWEST), NAMES[..3]);
}

#[test]
fn a_restored_copy_continues_with_later_commits() {
    let mut host = Host::start();
    host.json(&["tenant", "create", "Before"]);
    host.json(&["backup", "--offsite"]);
    assert_eq!(host.service.stop(), Some(0));
    let files = ["tenantd.redb", "tenantd.journal", "tenantd.witness"].map(|name| host.service.data.join(name));
    let copies = files.each_ref().map(|file| std::fs::read(file).unwrap());
    host.service.start_again();
    host.json(&["tenant", "create", "First"]);
    let first = moment();
    host.json(&["tenant", "create", "Second"]);
    assert_eq!(host.service.stop(), Some(0));
    for (file, copy) in files.iter().zip(copies) {
        std::fs::write(file, copy).unwrap();
    }
    host.service.start_again();
    host.json(&["tenant", "create", "Third"]);
    assert_eq!(host.service.stop(), Some(0));
    assert_eq!(host.names(&NEWEST), ["Before", "Third"]);
    assert_eq!(host.names(&["--from", "offsite", "--at", &first]), ["Before", "First"]);
    assert!(!host.service.data.join("outgoing").join("complete").exists(), "a new backup is due, which tells the branches apart");
    host.service.start_again();
    // This opening has sent nothing when its backup is created.
    host.json(&["tenant", "create", "Last"]);
    let made = host.json(&["backup", "--offsite"]);
    let manifest = Path::new(made["place"].as_str().unwrap().strip_prefix("file://").unwrap()).join("manifest.json");
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    assert_eq!(manifest["manifest"]["number"], 2);
    assert_eq!(manifest["manifest"]["left_branches"].as_array().unwrap().len(), 1, "{manifest}");
    host.json(&["tenant", "create", "Second"]);
    assert_eq!(host.service.stop(), Some(0));
    assert!(host.service.data.join("outgoing").join("complete").exists());
    assert_eq!(host.names(&NEWEST), ["Before", "Second", "Third", "Last"]);
}

#[test]
fn restores_span_a_key_rotation() {
    let mut host = Host::start();
    host.json(&["tenant", "create", "Before"]);
    host.json(&["backup", "--offsite"]);
    host.json(&["tenant", "create", "First"]);
    let old_key = host.path("old.key");
    std::fs::copy(host.key(), &old_key).unwrap();
    let before = moment();
    host.json(&["rotate-key"]);
    host.json(&["tenant", "create", "Second"]);
    assert_eq!(host.service.stop(), Some(0));
    assert_eq!(host.names(&NEWEST), NAMES[..3], "with the new key");
    let identity = host.path("backup.key");
    let with_old =
        |at: &[&str]| host.restore_with(&[&["--identity", &identity, "--installation-key", &old_key], &NEWEST[..], at].concat());
    assert_eq!(host.names_in(&with_old(&["--at", &before])), NAMES[..2], "with the old key, as it was then");
    assert!(refused(&with_old(&[]).1, 1).contains("is not the key that this snapshot was made with"));
}

#[test]
fn encrypted_changes_are_restored_with_the_identity() {
    let mut host = Host::start();
    assert_eq!(host.service.stop(), Some(0));
    let encrypted = std::fs::read_to_string(&host.service.settings).unwrap();
    let open = |line| if str::starts_with(line, "recipients") { "unencrypted = true" } else { line };
    let plain: Vec<&str> = encrypted.lines().map(open).collect();
    std::fs::write(&host.service.settings, plain.join("\n")).unwrap();
    host.service.start_again();
    host.json(&["tenant", "create", "Before"]);
    host.json(&["backup", "--offsite"]);
    assert_eq!(host.service.stop(), Some(0));
    std::fs::write(&host.service.settings, encrypted).unwrap();
    host.service.start_again();
    host.json(&["tenant", "create", "First"]);
    assert_eq!(host.service.stop(), Some(0));
    let key = host.key();
    let without = refused(&host.restore_with(&[&["--installation-key", &key], &NEWEST[..]].concat()).1, 1);
    assert!(without.contains("are encrypted; specify the identity with --identity FILE"), "{without}");
    assert_eq!(host.names(&NEWEST), NAMES[..2]);
}
