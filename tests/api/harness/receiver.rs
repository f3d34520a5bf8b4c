//! A receiver of webhooks: a raw TCP server that answers as a script says, so that it can also answer what no HTTP server would.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Mutex, mpsc},
};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the receiver does with a request.
#[derive(Clone, Debug)]
pub enum Script {
    /// An answer with this status and these header lines.
    Status(u16, Vec<String>),
    /// Bytes as they are, then the end of the connection.
    Raw(Vec<u8>),
    /// The end of the connection without an answer.
    Close,
    /// No answer, ever.
    Silence,
    /// A head, and then a byte of the body now and then, without end.
    Drip,
}

impl Script {
    pub fn status(status: u16) -> Self {
        Self::Status(status, Vec::new())
    }

    pub fn with_header(status: u16, line: &str) -> Self {
        Self::Status(status, vec![line.to_owned()])
    }
}

/// A request as it came.
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

type Answers = Arc<dyn Fn(usize, &Received) -> Script + Send + Sync>;

pub struct Receiver {
    address: SocketAddr,
    received: Mutex<mpsc::UnboundedReceiver<Received>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Receiver {
    /// Answers each request as `answers` says, which gets its number from 0 on.
    pub async fn start(answers: impl Fn(usize, &Received) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        let answers: Answers = Arc::new(answers);
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answers.clone(), count.clone(), sender.clone()));
            }
        });
        Self { address, received: Mutex::new(received), accepting }
    }

    /// Answers every request with the same status.
    pub async fn always(status: u16) -> Self {
        Self::start(move |_, _| Script::status(status)).await
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The next request.
    pub async fn next(&self) -> Received {
        tokio::time::timeout(PATIENCE, async { self.received.lock().await.recv().await.unwrap() }).await.expect("nothing came")
    }

    /// Whether nothing has come that was not taken.
    pub async fn is_quiet(&self) -> bool {
        self.received.lock().await.try_recv().is_err()
    }
}

async fn serve(
    mut stream: TcpStream,
    answers: Answers,
    count: Arc<std::sync::atomic::AtomicUsize>,
    sender: mpsc::UnboundedSender<Received>,
) {
    while let Some(received) = read(&mut stream).await {
        let script = answers(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst), &received);
        drop(sender.send(received));
        match script {
            Script::Status(status, lines) => {
                let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
                let answer = format!("HTTP/1.1 {status} Scripted\r\n{lines}content-length: 2\r\n\r\nok");
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
            Script::Raw(bytes) => {
                drop(stream.write_all(&bytes).await);
                return;
            }
            Script::Close => return,
            Script::Silence => std::future::pending().await,
            Script::Drip => {
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await);
                loop {
                    if stream.write_all(b"x").await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

/// One request, or nothing when the connection is over.
async fn read(stream: &mut TcpStream) -> Option<Received> {
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
