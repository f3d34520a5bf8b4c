//! A server that handles each connection as the test says.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: AbortHandle,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Receiver {
    /// `handle` gets each connection with its number, from 0.
    pub(crate) async fn start<F, R>(handle: F) -> Self
    where
        F: Fn(TcpStream, usize) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(handle(stream, counter.fetch_add(1, Ordering::SeqCst)));
            }
        });
        Self { address, connections, accepting: accepting.abort_handle() }
    }

    /// Answers every request with these bytes and keeps the connection.
    pub(crate) async fn answering(bytes: &'static [u8]) -> Self {
        Self::start(move |stream, _| answer_all(stream, bytes)).await
    }

    /// Answers one request with these bytes and closes the connection.
    pub(crate) async fn answering_once(bytes: &'static [u8]) -> Self {
        Self::start(move |mut stream, _| async move {
            if read_request(&mut stream).await.is_some() {
                stream.write_all(bytes).await.unwrap();
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?x=1", self.address)
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) async fn answer_all(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) {
    while read_request(&mut stream).await.is_some() {
        if stream.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// The next request with its body, or `None` if the client is gone.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    loop {
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1).map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
            if request.len() >= end + 4 + length {
                return Some(String::from_utf8(request).unwrap());
            }
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

/// Waits until the client has closed the connection.
pub(crate) async fn until_closed(stream: &mut TcpStream) {
    let mut ignored = [0; 1024];
    while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
}
