//! A receiver of webhooks: a raw TCP server that follows a script, so it can also send responses that no HTTP server would.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Mutex, Notify, Semaphore, mpsc},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How long a test waits for an expected request.
const PATIENCE: Duration = Duration::from_secs(30);
const GIGABYTE: usize = 1 << 30;

/// What the receiver does with a request.
#[derive(Clone, Debug)]
pub enum Script {
    /// A response with this status and these header lines.
    Status(u16, Vec<String>),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// Closes the connection without a response.
    Close,
    /// Resets the connection, like a receiver that crashed.
    Reset,
    /// Never responds.
    Silence,
    /// A response with this status, once a permit is available.
    Held(u16, Arc<Semaphore>),
    /// A response head, then one byte of the body each time the test permits it, without end.
    Drip(Arc<Notify>),
    /// A body of one gigabyte. Counts the bytes that the other side read.
    Flood(Arc<AtomicUsize>),
}

impl Script {
    pub fn status(status: u16) -> Self {
        Self::Status(status, Vec::new())
    }

    pub fn with_header(status: u16, line: &str) -> Self {
        Self::Status(status, vec![line.to_owned()])
    }

    pub fn raw(text: &str) -> Self {
        Self::Raw(text.as_bytes().to_vec())
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Answers = dyn Fn(usize, &Received) -> Script + Send + Sync;

/// The script, and the received requests.
struct Desk {
    answers: Box<Answers>,
    requests: AtomicUsize,
    connections: AtomicUsize,
    sender: mpsc::UnboundedSender<Received>,
}

pub struct Receiver {
    address: SocketAddr,
    received: Mutex<mpsc::UnboundedReceiver<Received>>,
    desk: Arc<Desk>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Receiver {
    /// Calls `answers` with each request and its number, starting at 0.
    pub async fn start(answers: impl Fn(usize, &Received) -> Script + Send + Sync + 'static) -> Self {
        Self::on(None, answers).await
    }

    /// Like [`Self::start`], with TLS.
    pub async fn secure(config: Arc<ServerConfig>, answers: impl Fn(usize, &Received) -> Script + Send + Sync + 'static) -> Self {
        Self::on(Some(TlsAcceptor::from(config)), answers).await
    }

    async fn on(tls: Option<TlsAcceptor>, answers: impl Fn(usize, &Received) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        let (requests, connections) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let desk = Arc::new(Desk { answers: Box::new(answers), requests, connections, sender });
        let shared = desk.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (desk, tls) = (shared.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => desk.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                desk.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, received: Mutex::new(received), desk, accepting }
    }

    /// Responds to every request with the same status.
    pub async fn always(status: u16) -> Self {
        Self::start(move |_, _| Script::status(status)).await
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.desk.connections.load(Ordering::SeqCst)
    }

    /// The next request.
    pub async fn next(&self) -> Received {
        tokio::time::timeout(PATIENCE, async { self.received.lock().await.recv().await.unwrap() }).await.expect("nothing came")
    }

    /// Whether no unread request is left.
    pub async fn is_quiet(&self) -> bool {
        self.received.lock().await.try_recv().is_err()
    }
}

/// A plain or TLS stream.
trait Connection: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Connection for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Connection for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

impl Desk {
    async fn serve(&self, mut stream: impl Connection) {
        while let Some(received) = read(&mut stream).await {
            let script = (self.answers)(self.requests.fetch_add(1, Ordering::SeqCst), &received);
            drop(self.sender.send(received));
            if !answer(&mut stream, script).await {
                return;
            }
        }
    }
}

/// Follows the script. Returns whether the connection can receive another request.
async fn answer(stream: &mut impl Connection, script: Script) -> bool {
    match script {
        Script::Status(status, lines) => {
            let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let answer = format!("HTTP/1.1 {status} Scripted\r\n{lines}content-length: 2\r\n\r\nok");
            stream.write_all(answer.as_bytes()).await.is_ok()
        }
        Script::Held(status, permits) => {
            permits.acquire().await.unwrap().forget();
            let answer = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.is_ok()
        }
        Script::Raw(bytes) => {
            drop(stream.write_all(&bytes).await);
            drop(stream.shutdown().await);
            false
        }
        Script::Close => false,
        Script::Reset => {
            stream.tcp().set_zero_linger().unwrap();
            false
        }
        Script::Silence => std::future::pending().await,
        Script::Drip(drops) => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await);
            while stream.write_all(b"x").await.is_ok() {
                drops.notified().await;
            }
            false
        }
        Script::Flood(taken) => {
            drop(stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {GIGABYTE}\r\n\r\n").as_bytes()).await);
            let piece = [b'x'; 8192];
            while taken.load(Ordering::SeqCst) < GIGABYTE && stream.write_all(&piece).await.is_ok() {
                taken.fetch_add(piece.len(), Ordering::SeqCst);
            }
            false
        }
    }
}

/// Reads one request, or returns `None` at the end of the connection.
async fn read(stream: &mut impl Connection) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[head_end..head_end + length].to_vec()).unwrap();
    Some(Received { headers, body })
}
