//! After refusing a request, the server keeps the connection usable or announces that it closes it. It never parses an unread body
//! as the next request.

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::harness::{TestApp, with_app};

/// A connection that sends one request after another.
struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn open(app: &TestApp) -> Self {
        Self(BufReader::new(TcpStream::connect(app.base_url().trim_start_matches("http://")).await.unwrap()))
    }

    /// Sends the request. Returns the status and whether the server says that it closes the connection.
    async fn send(&mut self, head: &str, body: &[u8]) -> (u16, bool) {
        self.0.get_mut().write_all(format!("{head}\r\nHost: a.example\r\n\r\n").as_bytes()).await.unwrap();
        // A server that has already responded may close the connection while the client still sends.
        let _ = self.0.get_mut().write_all(body).await;
        let (mut status, mut length, mut closes) = (0, 0, false);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the connection ended before the answer to {head}");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            } else if line == "connection: close" {
                closes = true;
            } else if line.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).await.unwrap();
        (status, closes)
    }
}

const REFUSALS: [(&str, u16); 6] = [
    ("POST /api/psa/tickets HTTP/1.1\r\nAuthorization: Bearer wrong", 401),
    ("POST /api/psa/tickets HTTP/1.1", 401),
    ("POST /nowhere HTTP/1.1", 404),
    ("PATCH /api/auth/login HTTP/1.1", 405),
    ("POST /healthz HTTP/1.1", 405),
    ("POST /api/auth/login?unknown=1 HTTP/1.1\r\nContent-Type: application/json", 400),
];

#[tokio::test]
async fn refusing_a_small_body_keeps_the_connection() {
    with_app(async |app| {
        let mut connection = Connection::open(app).await;
        for length in [1, 1000, 10_000, 200_000] {
            for (head, status) in REFUSALS {
                let announced = format!("{head}\r\nContent-Length: {length}");
                assert_eq!(connection.send(&announced, &vec![b'x'; length]).await, (status, false), "{head} with {length} bytes");
                let chunked = format!("{head}\r\nTransfer-Encoding: chunked");
                let body = [format!("{length:x}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n0\r\n\r\n"].concat();
                assert_eq!(connection.send(&chunked, &body).await, (status, false), "{head} in chunks of {length} bytes");
            }
        }
        assert_eq!(connection.send("GET /healthz HTTP/1.1", b"").await, (200, false));
    })
    .await;
}

#[tokio::test]
async fn refusing_a_large_body_ends_the_connection() {
    with_app(async |app| {
        for (head, status) in REFUSALS {
            let head = format!("{head}\r\nContent-Length: 1000000");
            assert_eq!(Connection::open(app).await.send(&head, &vec![b'x'; 1_000_000]).await, (status, true), "{head}");
        }
    })
    .await;
}

#[tokio::test]
async fn expect_continue_gets_the_refusal_immediately() {
    with_app(async |app| {
        let head = "POST /api/psa/tickets HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5000";
        assert_eq!(Connection::open(app).await.send(head, b"").await, (401, true));
    })
    .await;
}

#[tokio::test]
async fn operations_without_a_body_accept_an_empty_object() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (_, key) = acme.new_key("one", &["tickets:read"]).await;
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        let refused = admin.delete(&path).json(serde_json::json!({"force": true})).send().await;
        assert_eq!(refused.problem(400), "malformed_request");
        assert_eq!(refused.body["detail"], "This operation does not accept a request body.");
        let other = admin.delete(&path).json(serde_json::json!({"id": "key_01k9z7w3v5e8g9m2n4p6r8t0x1"})).send().await;
        assert_eq!(other.problem(400), "id_mismatch");
        assert_eq!(admin.delete(&path).json(serde_json::json!({"id": key["id"]})).send().await.status, 200);
        assert_eq!(admin.post("/api/auth/logout").json(serde_json::json!({})).send().await.status, 204);
    })
    .await;
}
