//! Commands that change the files of an installation, interrupted by `kill -9`: `strace` kills them at one of their syncs, renames
//! or removals. Afterwards the command can be repeated, and the installation is sound and complete.
//!
//! Without `strace`, or without the permission to trace, the test proves nothing and says so.

use std::{
    fs::File,
    os::unix::{net::UnixStream, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    io_errors::obstacle,
    process::{Server, bare, demo, journal::damage_last_commit, tenantd},
};

/// The system calls that kill, and which of each: the first ones, and some later ones.
const CALLS: [&str; 3] = ["fsync", "fdatasync", "rename,renameat,renameat2,unlink,unlinkat,ftruncate"];
const MOMENTS: [u64; 6] = [1, 2, 3, 5, 8, 13];

fn said(output: &Output) -> String {
    format!("{} {}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn on(directory: &Path, mut command: Command, arguments: &[&str]) -> Output {
    command.args(arguments).arg("--data-dir").arg(directory).output().unwrap()
}

/// Runs the command with a kill at this call. Returns whether it was killed.
fn is_killed(directory: &Path, arguments: &[&str], calls: &str, moment: u64) -> bool {
    let mut command = bare(Command::new("strace"));
    command.args(["-f", "-qq", "-o", "/dev/null", "-e"]).arg(format!("trace={calls}"));
    command.arg("-e").arg(format!("inject={calls}:signal=KILL:when={moment}")).arg(env!("CARGO_BIN_EXE_tenantd"));
    let output = on(directory, command, arguments);
    let killed = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
    assert!(killed || output.status.success(), "{arguments:?} at {calls} {moment}: {}", said(&output));
    killed
}

fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let output = on(directory, tenantd(), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that the installation is sound and has its tenant.
fn prove(directory: &Path) {
    assert!(succeeds(directory, &["check"]).contains("The store is sound."));
    assert!(succeeds(directory, &["tenant", "show", "kept", "--offline"]).contains("Kept"));
}

/// Waits until a killed server has released its lock and its socket. `strace` can end before the last thread of the server that it killed, and a
/// command would still find that server.
#[allow(clippy::disallowed_methods, reason = "the wait for another process has a limit")]
fn wait_until_released(directory: &Path) {
    let started = Instant::now();
    let is_locked = || File::open(directory.join("tenantd.lock")).is_ok_and(|lock| lock.try_lock().is_err());
    while is_locked() || UnixStream::connect(directory.join("admin.sock")).is_ok() {
        assert!(started.elapsed() < Duration::from_mins(1), "the killed server still runs");
        std::thread::yield_now();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// An installation with a tenant, and a snapshot of it.
struct Origin {
    directory: tempfile::TempDir,
}

impl Origin {
    /// With `killed`, the server is killed instead of stopped.
    fn new(killed: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let server = Server::start(demo(tenantd(), &data));
        succeeds(&data, &["tenant", "create", "Kept"]);
        succeeds(&data, &["backup", &directory.path().join("snapshot").display().to_string()]);
        if killed {
            succeeds(&data, &["tenant", "create", "Given up"]);
            drop(server);
        } else {
            rustix::process::kill_process(server.pid(), rustix::process::Signal::TERM).unwrap();
            assert_eq!(server.wait().0.code(), Some(0));
        }
        Self { directory }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn path_of(&self, file: &str) -> String {
        self.directory.path().join(file).display().to_string()
    }
}

/// Kills the command at each moment, in a new directory that `prepare` fills. `finish` then checks it.
fn each_moment(arguments: &[&str], prepare: impl Fn(&Path), finish: impl Fn(&Path)) {
    let mut kills = 0;
    for calls in CALLS {
        for moment in MOMENTS {
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path().join("data");
            prepare(&data);
            let killed = is_killed(&data, arguments, calls, moment);
            finish(&data);
            prove(&data);
            kills += u64::from(killed);
            if !killed {
                break;
            }
        }
    }
    println!("{}: {kills} kills", arguments[0]);
    assert!(kills >= 3, "{} was killed only {kills} times", arguments[0]);
}

fn cannot_run() -> bool {
    let obstacle = obstacle();
    if let Some(obstacle) = &obstacle {
        println!("{obstacle}: killing commands not run");
    }
    obstacle.is_some()
}

#[test]
fn a_killed_restore_can_be_repeated() {
    if cannot_run() {
        return;
    }
    let origin = Origin::new(false);
    let (snapshot, key) = (origin.path_of("snapshot"), origin.path_of("data/installation.key"));
    let restore = ["restore", &snapshot, "--installation-key", &key];
    each_moment(
        &restore,
        |_| {},
        |data| {
            // It may have completed everything except its output.
            if !data.join("installation.id").exists() || data.join("initializing").exists() {
                succeeds(data, &restore);
            }
        },
    );
}

#[test]
fn killed_compactions_and_rotations_leave_a_sound_store() {
    if cannot_run() {
        return;
    }
    let origin = Origin::new(false);
    for command in ["compact", "rotate-key"] {
        each_moment(&[command], |data| copy(&origin.data(), data), |data| drop(succeeds(data, &[command])));
    }
}

#[test]
fn a_killed_repair_can_be_repeated() {
    if cannot_run() {
        return;
    }
    let origin = Origin::new(true);
    damage_last_commit(&origin.data());
    let repair = ["repair", "--accept-loss"];
    each_moment(
        &repair,
        |data| copy(&origin.data(), data),
        |data| {
            succeeds(data, &repair);
            let report: Value = serde_json::from_str(&succeeds(data, &["repair", "--json"])).unwrap();
            assert_eq!(report["damaged"], false);
            let kept = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
            assert!(kept.filter(|path| path.join("tenantd.journal").exists()).count() >= 1, "the damaged files are gone");
        },
    );
}

#[test]
fn a_killed_snapshot_is_complete_or_absent() {
    if cannot_run() {
        return;
    }
    let origin = Origin::new(false);
    let mut kills = 0;
    // A server writes snapshots with `fsync` and renames them at the end.
    for (calls, moment) in [("fsync", 1), ("fsync", 2), ("fsync", 3), ("rename", 1), ("rename", 2)] {
        let data = origin.path_of(&format!("{calls}-{moment}"));
        let data = Path::new(&data);
        copy(&origin.data(), data);
        let mut traced = bare(Command::new("strace"));
        traced.args(["-f", "-qq", "-o", "/dev/null", "-e"]).arg(format!("trace={calls}")).arg("-e");
        traced.arg(format!("inject={calls}:signal=KILL:when={moment}")).arg(env!("CARGO_BIN_EXE_tenantd"));
        let Ok(server) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Server::start(demo(traced, data)))) else {
            // It was killed before it was ready.
            wait_until_released(data);
            prove(data);
            continue;
        };
        let snapshot = data.join("taken").display().to_string();
        let taken = on(data, tenantd(), &["backup", &snapshot]).status.success();
        kills += u64::from(!taken);
        drop(server);
        wait_until_released(data);
        if Path::new(&snapshot).exists() {
            let checked = tenantd().args(["check", &snapshot]).output().unwrap();
            assert!(checked.status.success(), "{calls} {moment}: {}", said(&checked));
        } else {
            assert!(!taken);
        }
        prove(data);
    }
    println!("backup: {kills} kills");
    assert!(kills > 0, "no snapshot was cut off");
}

#[test]
fn a_killed_upgrade_continues_at_the_next_start() {
    if cannot_run() {
        return;
    }
    let kept = |name: &str| format!("{}/tests/formats/6.{name}", env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("snapshot");
    let unpacked = Command::new("gzip").args(["-dc", &kept("snapshot.gz")]).output().unwrap();
    std::fs::write(&snapshot, unpacked.stdout).unwrap();
    let (snapshot, key) = (snapshot.display().to_string(), kept("installation.key"));
    let mut kills = 0;
    for (calls, moments) in [("fsync", 1..=4), ("fdatasync", 8..=14), ("rename,unlink", 1..=3)] {
        for moment in moments {
            let data = directory.path().join(format!("{calls}-{moment}"));
            succeeds(&data, &["restore", &snapshot, "--installation-key", &key]);
            // Every command that opens the installation upgrades it.
            kills += u64::from(is_killed(&data, &["tenant", "list", "--offline"], calls, moment));
            prove(&data);
            let checked: Value = serde_json::from_str(&succeeds(&data, &["upgrade", "check", "--json"])).unwrap();
            assert_eq!(checked["found_format"], checked["writes_format"], "{checked}");
            let snapshots = std::fs::read_dir(data.join("snapshots")).unwrap().map(|entry| entry.unwrap().path());
            let before: Vec<PathBuf> = snapshots.filter(|path| path.extension().is_some_and(|end| end == "snapshot")).collect();
            assert!(!before.is_empty(), "{calls} {moment}: there is no snapshot of before");
            for snapshot in before {
                assert!(tenantd().arg("check").arg(&snapshot).output().unwrap().status.success());
            }
        }
    }
    println!("upgrade: {kills} kills");
    assert!(kills >= 3, "the upgrade was killed only {kills} times");
}
