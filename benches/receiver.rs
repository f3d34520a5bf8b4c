//! The webhook receiver: accepts every delivery with 204, verifies signatures, and records the age of the request that caused the
//! delivery.
//!
//! It runs on a separate thread and does little work, because it shares the host with the measured server.
//! **Invariant:** a delivery without a valid signature ends the bench with an error.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use tenantd_base::secrets::Secret;
use tenantd_webhooks as webhooks;

use crate::load::{Measured, UNIQUE, age_of};

/// Deliveries to this path are read but get no response.
pub const BLACK_HOLE: &str = "/black-hole";
/// The text before the unique text of a ticket, which contains its time.
pub const MARK: &str = "Printer ";
/// One of this number of deliveries is verified. Verifying all would cost as much as signing.
const VERIFIED: usize = 16;
const REQUEST_BYTES: usize = 64 << 10;

/// A received delivery.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub at: Instant,
    /// The time since the request that caused it.
    pub age: Duration,
}

#[derive(Default)]
struct Book {
    /// The secrets by path of the endpoint.
    secrets: HashMap<String, Secret>,
    arrivals: Vec<Arrival>,
    verified: usize,
}

pub struct Receiver {
    pub address: SocketAddr,
    book: Arc<Mutex<Book>>,
}

impl Receiver {
    /// Listens on a free port until the program ends.
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    /// Listens on a given address.
    pub fn start_at(address: &str) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let book = Arc::new(Mutex::new(Book::default()));
        let shared = book.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(stream, shared.clone()));
                }
            });
        });
        Self { address, book }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Verifies later deliveries to the path with this secret.
    pub fn expect_signed(&self, path: &str, secret: &str) {
        self.book.lock().unwrap().secrets.insert(path.to_owned(), Secret::new(secret.to_owned()));
    }

    /// The deliveries since the last call.
    pub fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut self.book.lock().unwrap().arrivals)
    }

    /// Waits until no more deliveries arrive, and returns all.
    pub fn settled(&self) -> Vec<Arrival> {
        let mut before = usize::MAX;
        while self.count() != before {
            before = self.count();
            std::thread::sleep(Duration::from_millis(500));
        }
        self.take()
    }

    fn count(&self) -> usize {
        self.book.lock().unwrap().arrivals.len()
    }

    pub fn verified(&self) -> usize {
        self.book.lock().unwrap().verified
    }
}

/// Summarizes the deliveries within a time span by age.
pub fn within(arrivals: &[Arrival], (begin, end): (Instant, Instant)) -> Measured {
    let within = arrivals.iter().filter(|arrival| (begin..end).contains(&arrival.at));
    Measured::new(within.map(|arrival| arrival.age).collect(), end - begin, Duration::ZERO)
}

async fn serve(mut stream: TcpStream, book: Arc<Mutex<Book>>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; REQUEST_BYTES];
    let mut filled = 0;
    loop {
        // A sender that ends closes its connections, cleanly or not.
        let Ok(read @ 1..) = stream.read(&mut buffer[filled..]).await else { return };
        filled += read;
        let Some((head, length)) = parse_head(&buffer[..filled]) else { continue };
        if filled < head + length {
            continue;
        }
        let at = Instant::now();
        if buffer.starts_with(format!("POST {BLACK_HOLE}").as_bytes()) {
            std::future::pending::<()>().await;
        }
        note(&mut book.lock().unwrap(), at, &buffer[..head], &buffer[head..head + length]);
        filled = 0;
        if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err() {
            return;
        }
    }
}

fn note(book: &mut Book, at: Instant, head: &[u8], body: &[u8]) {
    let path = head.split(|byte| *byte == b' ').nth(1).map(String::from_utf8_lossy).unwrap_or_default();
    if book.arrivals.len().is_multiple_of(VERIFIED)
        && let Some(secret) = book.secrets.get(&*path)
    {
        assert!(webhooks::is_signed(secret, &header_map(head), body), "{}", String::from_utf8_lossy(body));
        book.verified += 1;
    }
    let mark = body.windows(MARK.len()).position(|window| window == MARK.as_bytes()).map(|place| place + MARK.len());
    let age = mark.and_then(|place| age_of(body.get(place..place + UNIQUE.len())?, at));
    book.arrivals.push(Arrival { at, age: age.unwrap_or_default() });
}

fn lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

fn header_map(head: &[u8]) -> HeaderMap {
    let parsed =
        lines(head).filter_map(|(name, value)| Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?)));
    parsed.collect()
}

/// The start and the length of the body. `None` while the head is incomplete.
fn parse_head(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let length = lines(&bytes[..end]).find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"));
    Some((end, std::str::from_utf8(length?.1).ok()?.parse().ok()?))
}
