//! Child processes: the real server, the bare servers, and their resource usage.
//!
//! Each prints one line of JSON to standard output when it is ready. **Invariant:** no process outlives its handle.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::bare;

pub struct Server {
    child: Child,
    /// Kept open, so that the server can continue to write to it.
    _output: BufReader<ChildStdout>,
    pub announcement: Value,
    pub address: SocketAddr,
    /// From the start of the process to its announcement.
    pub ready_after: Duration,
}

impl Server {
    /// Starts the release binary on a data directory, without the limits that would throttle the load.
    pub fn start_tenantd(directory: &Path) -> Self {
        Self::start_tenantd_with(directory, "0", &[])
    }

    /// The same with a number of sample tickets and additional settings.
    pub fn start_tenantd_with(directory: &Path, tickets: &str, settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenantd"));
        command
            .envs(settings.iter().copied())
            .args(["demo", "--tickets", tickets, "--listen", "127.0.0.1:0", "--json", "--data-dir"])
            .arg(directory)
            .env("TENANTD_RATE_LIMITS__ENABLED", "false")
            .env("TENANTD_API_KEYS__MAX_LIVE", "100000000");
        Self::start(command)
    }

    /// Starts this program in another role.
    pub fn start_role(role: &str, argument: &str) -> Self {
        Self::start(role_command(role, &[argument]))
    }

    fn start(mut command: Command) -> Self {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("the server starts");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let ready_after = started.elapsed();
        let announcement: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in the announcement {line:?}"));
        let url = announcement["url"].as_str().expect("the announcement has a url");
        let address = url.trim_start_matches("http://").parse().unwrap();
        Self { child, _output: output, announcement, address, ready_after }
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub fn text(&self, field: &str) -> String {
        self.announcement[field].as_str().unwrap_or_else(|| panic!("the announcement has no {field}")).to_owned()
    }

    /// Shuts the server down and waits until its store is closed.
    pub fn stop(mut self) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the server ended with {status}");
    }

    /// Resident memory in MiB.
    pub fn resident_mebibytes(&self) -> f64 {
        self.mebibytes("VmRSS:")
    }

    /// Peak resident memory in MiB.
    pub fn peak_mebibytes(&self) -> f64 {
        self.mebibytes("VmHWM:")
    }

    fn mebibytes(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).expect("the system reports resident memory");
        let kibibytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kibibytes / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails after `stop`, which is not an error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn role_command(role: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(role).args(arguments);
    command
}

/// Runs this program in another role until it ends. Returns the line of JSON that it printed.
pub fn run_role(role: &str, arguments: &[&str]) -> Value {
    let output = role_command(role, arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{role} ended with {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Measures commits of one small record each to redb.
pub struct Raw {
    pub per_second: f64,
    pub p50_seconds: f64,
}

pub fn raw_commits(directory: &Path, span: Duration, phases: &str) -> Raw {
    let result = run_role(bare::COMMIT, &[directory.to_str().unwrap(), &span.as_millis().to_string(), phases]);
    let number = |field: &str| result[field].as_f64().unwrap();
    Raw { per_second: number("per_second"), p50_seconds: number("p50_seconds") }
}

/// The processor time that all threads of a process have used.
pub fn cpu_time(process_id: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process_id}/task")).unwrap();
    // A thread can end between listing and reading. The others still count.
    let statistics = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    statistics.filter_map(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos).sum()
}
