//! The real binary as a child process. **Invariant:** no child outlives the value that represents it.

pub mod journal;

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

/// The command without settings from the environment of this process.
pub fn tenantd() -> Command {
    bare(Command::new(env!("CARGO_BIN_EXE_tenantd")))
}

/// Removes the settings of the calling environment from a command.
pub fn bare(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TENANTD_")) {
        command.env_remove(name);
    }
    command
}

/// Makes the command start the demo server on a free loopback port, with its data in `directory`.
pub fn demo(mut command: Command, directory: &Path) -> Command {
    command.args(["demo", "--tickets", "0", "--listen", "127.0.0.1:0", "--json", "--data-dir"]).arg(directory);
    command.env("TENANTD_RATE_LIMITS__ENABLED", "false").env("TENANTD_API_KEYS__MAX_LIVE", "1000000");
    command.env("TENANTD_DISK__RESERVE_BYTES", "8388608");
    command
}

/// A listening server in its own process group.
pub struct Server {
    child: Child,
    readers: Vec<JoinHandle<()>>,
    output: Arc<Mutex<String>>,
    pub url: String,
    pub address: SocketAddr,
    pub api_key: String,
}

impl Server {
    /// Starts the command and waits until it reports its address.
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let (mut stdout, stderr) = (BufReader::new(child.stdout.take().unwrap()), BufReader::new(child.stderr.take().unwrap()));
        // The pipes must be read, or the server blocks.
        let mut readers = vec![keep(stderr, output.clone())];
        let ready = loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).unwrap() == 0 {
                let status = child.wait().unwrap();
                readers.drain(..).for_each(|reader| reader.join().unwrap());
                panic!("the server ended before it was ready, with {status}:\n{}", output.lock().unwrap());
            }
            match serde_json::from_str::<Value>(&line) {
                Ok(ready) if ready["url"].is_string() => break ready,
                _ => output.lock().unwrap().push_str(&line),
            }
        };
        readers.push(keep(stdout, output.clone()));
        let (url, api_key) = (ready["url"].as_str().unwrap().to_owned(), ready["api_key"].as_str().unwrap().to_owned());
        let address = url.strip_prefix("http://").unwrap().parse().unwrap();
        Self { child, readers, output, url, address, api_key }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end of the process. Returns the status and the whole output.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        let output = self.output.lock().unwrap().clone();
        (status, output)
    }

    /// Waits until a signal from elsewhere has ended the process.
    pub fn was_killed(self) {
        let (status, output) = self.wait();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "it ended by itself, with {status}:\n{output}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The process may have just ended; then there is nothing to do.
            let _ = kill_process_group(self.pid(), Signal::KILL);
            drop(self.child.wait());
        }
        if std::thread::panicking() {
            println!("the server said:\n{}", self.output.lock().unwrap());
        }
    }
}

fn keep(mut from: impl Read + Send + 'static, output: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            output.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    })
}
