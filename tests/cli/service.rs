//! `tenantd serve` under a service manager: inherited sockets, notifications, reloaded settings.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Pid, Signal, kill_process};

use crate::{refused, tenantd, text};

/// The service in its own directory, on a socket that the test has opened.
pub(super) struct Service {
    child: Child,
    address: SocketAddr,
    notifications: Receiver<String>,
    pub(super) settings: PathBuf,
    pub(super) data: PathBuf,
}

impl Service {
    fn start(directory: &Path) -> Self {
        Self::with_settings(directory, "")
    }

    pub(super) fn with_settings(directory: &Path, more: &str) -> Self {
        let manager = UnixDatagram::bind(directory.join("notify")).unwrap();
        let notifications = listen(manager);
        let settings = directory.join("tenantd.toml");
        std::fs::write(&settings, format!("[listen]\ntls = false\naddress = \"192.0.2.1:1\"\n{more}")).unwrap();
        let data = directory.join("data");
        let (child, address) = launch(&settings, &data, &directory.join("notify"));
        Self { child, address, notifications, settings, data }
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same data.
    pub(super) fn start_again(&mut self) {
        let notify = self.settings.with_file_name("notify");
        (self.child, self.address) = launch(&self.settings, &self.data, &notify);
        self.wait_for("READY=1");
    }

    /// Stops it and waits for its end.
    pub(super) fn stop(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Waits until the service manager has received this notification.
    pub(super) fn wait_for(&self, state: &str) {
        loop {
            let message =
                self.notifications.recv_timeout(Duration::from_mins(1)).unwrap_or_else(|_| panic!("{state} was not reported"));
            if message.lines().any(|line| line == state) {
                return;
            }
        }
    }

    /// The command finds the server by its directory. Only the server reads the settings.
    fn reload(&self) -> std::process::Output {
        tenantd(&["reload", "--data-dir", &self.data.display().to_string()]).output().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Receives notifications immediately, like a service manager: a service blocks until it can send more.
fn listen(manager: UnixDatagram) -> Receiver<String> {
    let (sender, notifications) = mpsc::channel();
    std::thread::spawn(move || {
        let mut message = [0; 256];
        while let Ok(length) = manager.recv(&mut message) {
            if sender.send(text(&message[..length])).is_err() {
                break;
            }
        }
    });
    notifications
}

fn launch(settings: &Path, data: &Path, notify: &Path) -> (Child, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, mut command) = (listener.local_addr().unwrap(), serve(settings, data));
    command.env("NOTIFY_SOCKET", notify).env("LISTEN_FDS", "1").env("WATCHDOG_USEC", "30000");
    command.fd_mappings(vec![FdMapping { parent_fd: OwnedFd::from(listener), child_fd: 3 }]).unwrap();
    (command.spawn().unwrap(), address)
}

fn serve(settings: &Path, data: &Path) -> Command {
    let mut command = tenantd(&["serve", "--config"]);
    command.arg(settings).arg("--data-dir").arg(data).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn the_service_uses_its_socket_and_notifies_systemd() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(directory.path());
    // The connection waits in the socket until the server is ready.
    let mut connection = TcpStream::connect(service.address).unwrap();
    connection.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    service.wait_for("READY=1");
    for _ in 0..3 {
        service.wait_for("WATCHDOG=1");
    }
    kill_process(Pid::from_child(&service.child), Signal::TERM).unwrap();
    service.wait_for("STOPPING=1");
    assert!(service.child.wait().unwrap().success());
}

#[test]
fn accepted_requests_are_answered_during_a_shutdown() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(directory.path());
    service.wait_for("READY=1");
    let mut silent = TcpStream::connect(service.address).unwrap();
    // Connections are accepted in order: once this one gets a response, the silent one is accepted too.
    let mut kept = TcpStream::connect(service.address).unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 12];
    kept.read_exact(&mut first).unwrap();
    assert_eq!(text(&first), "HTTP/1.1 200");
    kill_process(Pid::from_child(&service.child), Signal::TERM).unwrap();
    // The shutdown ends the idle connection, so it has started.
    kept.read_to_end(&mut Vec::new()).unwrap();
    silent.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    silent.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(service.child.wait().unwrap().success());
}

#[test]
fn settings_are_reloaded_or_kept_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    service.wait_for("READY=1");
    let done = service.reload();
    assert!(done.status.success() && text(&done.stdout).contains("reloaded"), "{}", text(&done.stderr));
    std::fs::write(&service.settings, "[listen]\ntls = false\n[limits]\nbody_bites = 1\n").unwrap();
    assert!(refused(&service.reload(), 1).contains("body_bites"));
    std::fs::write(&service.settings, "[listen]\ntls = false\n[limits]\nbody_bytes = 65536\n").unwrap();
    assert!(service.reload().status.success());
}
