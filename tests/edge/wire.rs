//! Raw bytes on a socket, for requests that no client library sends.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::process::Server;

/// Fewer than one address may have open.
pub const CONNECTIONS_PER_ADDRESS: usize = 150;

/// The loopback address of an attacker.
pub fn attacker(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1 + u8::try_from(number / 200).unwrap(), 2 + u8::try_from(number % 200).unwrap())
}

pub async fn connect_from(source: Ipv4Addr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect(server).await
}

/// Opens this number of connections, from as many addresses as needed.
pub async fn connect_many(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        connections.push(connect_from(attacker(number / CONNECTIONS_PER_ADDRESS), server.address).await.unwrap());
    }
    connections
}

/// The head of a request with the server's credential, without the final blank line.
pub fn head(server: &Server, method: &str, path: &str) -> String {
    let (address, key) = (server.address, &server.api_key);
    format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n")
}

/// Reads until the peer closes or breaks the connection.
pub async fn read_to_end(connection: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = connection.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an HTTP/1.1 response, or `None` without one.
pub fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

/// Sends a whole request before reading, like simple clients.
pub async fn ask(server: &Server, source: Ipv4Addr, request: &[u8]) -> (io::Result<()>, String) {
    let mut connection = connect_from(source, server.address).await.unwrap();
    let sent = connection.write_all(request).await;
    (sent, read_to_end(&mut connection).await)
}
