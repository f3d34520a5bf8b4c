//! Clients of streams who take little, or nothing more.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::TestApp;

/// Asks for something over a connection that takes little unless it is read from.
pub async fn ask(app: &TestApp, key: &str, target: &str) -> TcpStream {
    ask_with(app, &format!("authorization: Bearer {key}"), target).await
}

/// The same with any header that says who asks.
async fn ask_with(app: &TestApp, credential: &str, target: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut connection = socket.connect(app.running().addresses.api).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{credential}\r\n\r\n");
    // A server that has no place closes before it has read.
    drop(connection.write_all(request.as_bytes()).await);
    connection
}

/// A stream whose client has seen its beginning and takes no more.
pub async fn stuck(app: &TestApp, key: &str, target: &str) -> TcpStream {
    stuck_with(app, &format!("authorization: Bearer {key}"), target).await
}

/// The same with any header that says who asks.
pub async fn stuck_with(app: &TestApp, credential: &str, target: &str) -> TcpStream {
    let mut connection = ask_with(app, credential, target).await;
    let mut beginning = [0; 15];
    connection.read_exact(&mut beginning).await.unwrap();
    assert_eq!(beginning, *b"HTTP/1.1 200 OK");
    connection
}

/// What comes until the server closes or breaks the connection.
pub async fn rest(mut connection: TcpStream) -> String {
    let mut rest = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = connection.read(&mut buffer).await {
        rest.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8(rest).unwrap()
}
