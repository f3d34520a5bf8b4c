//! The load generator: raw HTTP/1.1 over keep-alive connections, with one request at a time on each.
//!
//! It is not a general client: it supports responses with a `Content-Length` and chunked responses. It runs on one thread and does
//! little work, because it shares the host with the measured server. **Invariant:** an unexpected response ends the bench with an
//! error, so only successful requests are counted.

use std::{
    net::SocketAddr,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::process::cpu_time;

/// The placeholder of a unique text in a request.
pub const UNIQUE: &str = "################";

/// The maximum length of a response, which is a page of tickets.
const ANSWER_BYTES: usize = 512 << 10;

/// A unique text contains its time: microseconds since the start of the program, then a counter.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
static NEXT_UNIQUE: AtomicU64 = AtomicU64::new(0);
const COUNTER_BITS: u32 = 20;

fn unique_number() -> u64 {
    let micros = u64::try_from(BEGIN.elapsed().as_micros()).unwrap();
    micros << COUNTER_BITS | (NEXT_UNIQUE.fetch_add(1, Ordering::Relaxed) & ((1 << COUNTER_BITS) - 1))
}

/// The age of a unique text.
pub fn age_of(unique: &[u8], at: Instant) -> Option<Duration> {
    let number = u64::from_str_radix(std::str::from_utf8(unique).ok()?, 16).ok()?;
    Some(at.saturating_duration_since(*BEGIN + Duration::from_micros(number >> COUNTER_BITS)))
}

/// The bytes of a request, which is built once and sent many times.
#[derive(Clone)]
pub struct Request {
    bytes: Vec<u8>,
    /// The position of [`UNIQUE`].
    unique: Vec<usize>,
    status: u16,
}

impl Request {
    pub fn get(path: &str, credential: Option<&str>) -> Self {
        let authorization = credential.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        Self::new(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Accept: application/json\r\n\r\n"), 200)
    }

    /// A read that bypasses the cache.
    pub fn get_uncached(path: &str, credential: &str) -> Self {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n");
        Self::new(format!("{head}Accept: application/json\r\nCache-Control: no-cache\r\n\r\n"), 200)
    }

    /// A creation with a unique idempotency key.
    pub fn create(path: &str, credential: &str, body: &str) -> Self {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n");
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        Self::new(format!("{head}{kind}Idempotency-Key: bench-{UNIQUE}\r\n\r\n{body}"), 201)
    }

    /// A signed delivery, which its receiver accepts with an empty response.
    pub fn delivery(signature: &str, body: &str) -> Self {
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        Self::new(format!("POST /bare HTTP/1.1\r\nHost: localhost\r\nwebhook-signature: v1,{signature}\r\n{kind}\r\n{body}"), 204)
    }

    /// Any raw request, with [`UNIQUE`] in place of a unique text.
    pub fn raw(text: String, status: u16) -> Self {
        Self::new(text, status)
    }

    /// The same request with a different expected status.
    pub fn answered(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// A request with a body of any type, sent once.
    fn whole(method: &str, path: &str, credential: &str, content_type: &str, body: &[u8], status: u16) -> Self {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n");
        let kind = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        Self { bytes: [head.as_bytes(), kind.as_bytes(), body].concat(), unique: Vec::new(), status }
    }

    fn new(text: String, status: u16) -> Self {
        let unique = text.match_indices(UNIQUE).map(|(place, _)| place).collect();
        Self { bytes: text.into_bytes(), unique, status }
    }

    fn next(&mut self) -> &[u8] {
        if !self.unique.is_empty() {
            let number = format!("{:0width$x}", unique_number(), width = UNIQUE.len());
            for place in &self.unique {
                self.bytes[*place..*place + UNIQUE.len()].copy_from_slice(number.as_bytes());
            }
        }
        &self.bytes
    }
}

/// The duration of a measurement.
#[derive(Clone, Copy)]
pub struct Span {
    pub warm_up: Duration,
    pub measure: Duration,
}

#[derive(Clone, Copy)]
pub struct Measured {
    pub per_second: f64,
    pub count: usize,
    pub p50: Duration,
    pub p95: Duration,
    pub p99: Duration,
    /// The processor time of the server per request.
    pub cpu: Duration,
}

impl Measured {
    /// Summarizes the durations of all operations within `span`.
    pub fn new(mut latencies: Vec<Duration>, span: Duration, cpu: Duration) -> Self {
        assert!(!latencies.is_empty(), "nothing was done in {span:?}");
        latencies.sort_unstable();
        let quantile = |per_cent: usize| latencies[(latencies.len() - 1) * per_cent / 100];
        let count = u32::try_from(latencies.len()).unwrap();
        Self {
            per_second: f64::from(count) / span.as_secs_f64(),
            count: latencies.len(),
            p50: quantile(50),
            p95: quantile(95),
            p99: quantile(99),
            cpu: cpu / count,
        }
    }
}

/// Sends the request over `clients` connections for the duration of `span`.
pub fn run(address: SocketAddr, process_id: u32, clients: usize, request: &Request, span: Span) -> Measured {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begin = Instant::now() + span.warm_up;
        let end = begin + span.measure;
        let tasks: Vec<_> = (0..clients).map(|_| tokio::spawn(client(address, request.clone(), begin, end))).collect();
        tokio::time::sleep_until(begin.into()).await;
        let cpu_before = cpu_time(process_id);
        tokio::time::sleep_until(end.into()).await;
        let cpu = cpu_time(process_id).saturating_sub(cpu_before);
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.unwrap());
        }
        Measured::new(latencies, span.measure, cpu)
    })
}

/// Sends the request over one connection at a constant rate.
pub fn run_at_pace(address: SocketAddr, request: &Request, per_second: u32, span: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::open(address).await;
        let mut request = request.clone();
        let mut due = tokio::time::interval(Duration::from_secs(1) / per_second);
        let end = Instant::now() + span;
        while Instant::now() < end {
            due.tick().await;
            connection.exchange(&mut request).await;
        }
    });
}

/// Sends one request on a new connection. Returns the body of the response.
pub fn once(address: SocketAddr, request: &Request) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = Connection::open(address).await;
        let body = connection.exchange(&mut request.clone()).await;
        connection.buffer[body].to_vec()
    })
}

/// Sends the request a number of times in total, over `clients` connections.
pub fn repeat(address: SocketAddr, clients: usize, request: &Request, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let share = |client: usize| count / clients + usize::from(client < count % clients);
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let (mut request, share) = (request.clone(), share(client));
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await;
                    for _ in 0..share {
                        connection.exchange(&mut request).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Posts a body of any type. Returns the body of the response.
pub fn post(address: SocketAddr, path: &str, credential: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let status = if content_type == "application/json" { 201 } else { 200 };
    to_the_end(address, &Request::whole("POST", path, credential, content_type, body, status))
}

/// Patches with a JSON body.
pub fn patch(address: SocketAddr, path: &str, credential: &str, body: &[u8]) -> Vec<u8> {
    to_the_end(address, &Request::whole("PATCH", path, credential, "application/json", body, 200))
}

fn to_the_end(address: SocketAddr, request: &Request) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    connection.write_all(&request.bytes).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let head = Head::parse(&answer).expect("the answer has a head");
    assert_eq!(head.status, request.status, "{}", String::from_utf8_lossy(&answer));
    let body = &answer[head.length..];
    if matches!(head.framing, Framing::Chunks) { unchunk(body) } else { body.to_vec() }
}

fn unchunk(mut framed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = framed.windows(2).position(|window| window == b"\r\n").expect("a chunk has a length");
        let length = usize::from_str_radix(std::str::from_utf8(&framed[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&framed[line + 2..line + 2 + length]);
        framed = &framed[line + 4 + length..];
    }
}

/// The latencies of the responses between `begin` and `end`.
async fn client(address: SocketAddr, mut request: Request, begin: Instant, end: Instant) -> Vec<Duration> {
    let mut connection = Connection::open(address).await;
    let mut latencies = Vec::with_capacity(1 << 14);
    loop {
        let started = Instant::now();
        connection.exchange(&mut request).await;
        let answered = Instant::now();
        if answered >= end {
            return latencies;
        }
        if answered >= begin {
            latencies.push(answered - started);
        }
    }
}

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server takes connections");
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: vec![0; ANSWER_BYTES] }
    }

    /// Sends the request and reads its response. Returns the position of the raw body in the buffer.
    pub async fn exchange(&mut self, request: &mut Request) -> std::ops::Range<usize> {
        let expected = request.status;
        self.stream.write_all(request.next()).await.unwrap();
        let mut filled = 0;
        let mut head = None;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await.unwrap();
            assert!(read > 0, "the server closed the connection");
            filled += read;
            if head.is_none() {
                head = Head::parse(&self.buffer[..filled]);
            }
            if let Some(head) = &head
                && let Some(end) = head.end_of_answer(&self.buffer[..filled])
            {
                let text = || String::from_utf8_lossy(&self.buffer[..filled]);
                assert!(head.status == expected, "expected {expected}: {}", text());
                return head.length..end;
            }
        }
    }
}

/// The framing of a response.
enum Framing {
    Length(usize),
    Chunks,
}

struct Head {
    status: u16,
    /// The length of the head, including the empty line.
    length: usize,
    framing: Framing,
}

impl Head {
    /// `None` while the head is incomplete.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |digits: &[u8]| -> usize { std::str::from_utf8(digits).unwrap().trim().parse().unwrap() };
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let value = |name: &[u8]| {
            let mut lines = bytes[..end].split(|byte| *byte == b'\n');
            lines
                .find(|line| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name))
                .map(|line| &line[name.len()..])
        };
        let framing = match value(b"content-length:") {
            Some(length) => Framing::Length(number(length)),
            None if value(b"transfer-encoding:").is_some() => Framing::Chunks,
            None => Framing::Length(0),
        };
        Some(Self { status: u16::try_from(number(&bytes[9..12])).unwrap(), length: end + 4, framing })
    }

    /// The end of the response. `None` while it is incomplete.
    fn end_of_answer(&self, bytes: &[u8]) -> Option<usize> {
        let mut place = self.length;
        if let Framing::Length(length) = self.framing {
            return (bytes.len() >= place + length).then_some(place + length);
        }
        loop {
            let line = bytes.get(place..)?.windows(2).position(|window| window == b"\r\n")?;
            let length = usize::from_str_radix(std::str::from_utf8(&bytes[place..place + line]).unwrap(), 16).unwrap();
            place += line + 2 + length + 2;
            if length == 0 {
                return (bytes.len() >= place).then_some(place);
            }
        }
    }
}
