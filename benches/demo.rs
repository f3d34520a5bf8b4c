//! How long `tenantd demo` takes until it answers a visitor, and until its sample data is complete.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    Plan,
    report::{Report, Target},
};

const ROUNDS: usize = 3;
const POLL: Duration = Duration::from_millis(20);

/// A demo as a visitor starts it, without `--json`. It does not outlive its handle.
struct Demo {
    child: Child,
    address: String,
    key: String,
}

impl Demo {
    /// Starts a demo and reads its credentials.
    fn start(directory: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenantd"));
        command.args(["demo", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let found = { lines }.find_map(|line| Some(line.strip_prefix("export URL=http://")?.to_owned()));
        let found = found.expect("the demo prints its credentials");
        let (address, key) = found.split_once(" KEY=").unwrap();
        Self { child, address: address.to_owned(), key: key.to_owned() }
    }

    fn get(&self, path: &str) -> Value {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        write!(connection, "GET {path} HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {}\r\n\r\n", self.key).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    fn is_complete(&self) -> bool {
        self.get("/api/auth/session")["tenant"].get("filling").is_none()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn measure(_: Plan) {
    let mut report = Report::default();
    let (mut first, mut complete) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let demo = Demo::start(directory.path());
        demo.get("/api/psa/tickets?limit=1");
        first.push(started.elapsed().as_secs_f64());
        while !demo.is_complete() {
            std::thread::sleep(POLL);
        }
        complete.push(started.elapsed().as_secs_f64());
    }
    report.measurement("demo: start to first answer", "s", &first, Target::AtMost(2.0));
    let rounds: Vec<(f64, f64)> = first.into_iter().zip(complete).collect();
    report.ratio("the same, by the time until the sample data is complete", "s", &rounds, Target::None);
    println!("\n{}", report.render());
}
