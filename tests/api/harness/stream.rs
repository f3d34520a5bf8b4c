//! Clients that read streams slowly or stop reading.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::TestApp;

/// Sends a request over a connection with small buffers.
pub async fn ask(app: &TestApp, key: &str, target: &str) -> TcpStream {
    ask_with(app, &format!("authorization: Bearer {key}"), target).await
}

/// Like [`ask`], with any credential header.
async fn ask_with(app: &TestApp, credential: &str, target: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut connection = socket.connect(app.running().addresses.api).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{credential}\r\n\r\n");
    // A server without capacity closes the connection before it reads.
    drop(connection.write_all(request.as_bytes()).await);
    connection
}

/// A stream whose client has read the start and stops reading.
pub async fn stuck(app: &TestApp, key: &str, target: &str) -> TcpStream {
    stuck_with(app, &format!("authorization: Bearer {key}"), target).await
}

/// Like [`stuck`], with any credential header.
pub async fn stuck_with(app: &TestApp, credential: &str, target: &str) -> TcpStream {
    let mut connection = ask_with(app, credential, target).await;
    let mut beginning = [0; 15];
    connection.read_exact(&mut beginning).await.unwrap();
    assert_eq!(beginning, *b"HTTP/1.1 200 OK");
    connection
}

/// Reads until the server closes or breaks the connection.
pub async fn rest(mut connection: TcpStream) -> String {
    let mut rest = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = connection.read(&mut buffer).await {
        rest.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8(rest).unwrap()
}
