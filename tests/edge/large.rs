//! Clients that send too much.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    process::Server,
    wire::{ask, attacker, connect_from, head, read_to_end, status},
};

const ENDLESS: usize = 300 << 20;
const KEYS: &str = "/api/admin/api-keys";
/// The bytes of an endless body that socket buffers and the server may read before it is refused.
const EARLY: usize = 32 << 20;

/// Sends 300 MB in chunks as long as the server reads them. Returns the number of bytes and the response.
async fn send_endless(connection: &mut TcpStream, head: &str, listens: bool) -> (usize, String) {
    let (mut reader, mut writer) = connection.split();
    writer.write_all(head.as_bytes()).await.unwrap();
    let chunk = [format!("{:x}\r\n", 64 << 10).as_bytes(), &vec![b' '; 64 << 10], b"\r\n"].concat();
    let (mut sent, mut answer) = (0, vec![0; 64 << 10]);
    while sent < ENDLESS {
        tokio::select! {
            biased;
            read = reader.read(&mut answer), if listens => {
                answer.truncate(read.unwrap());
                return (sent, String::from_utf8_lossy(&answer).into_owned());
            }
            written = writer.write_all(&chunk) => match written {
                Ok(()) => sent += chunk.len(),
                Err(_) => break,
            },
        }
    }
    (sent, read_to_end(connection).await)
}

/// 300 MB to an operation with and one without a credential, by clients that read the response early and clients that do not.
pub async fn endless_bodies(server: &Server) -> String {
    let mut reports = Vec::new();
    for path in [KEYS, "/api/auth/login"] {
        for listens in [true, false] {
            let mut connection = connect_from(attacker(0), server.address).await.unwrap();
            let head = format!("{}transfer-encoding: chunked\r\n\r\n", head(server, "POST", path));
            let (sent, answer) = send_endless(&mut connection, &head, listens).await;
            assert!(sent < EARLY, "{path}: the server took {sent} bytes");
            assert!(!listens || status(&answer) == Some(413), "{path} answered {answer:?} after {sent} bytes");
            reports.push(format!("{path} took {} KiB and answered {:?}", sent >> 10, status(&answer)));
        }
    }
    reports.join(", ")
}

fn post(server: &Server, headers: &str, body: &str) -> Vec<u8> {
    let head = head(server, "POST", KEYS);
    format!("{head}{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

/// Complete requests that exceed one limit each.
pub async fn requests(server: &Server) -> String {
    let many: String = (0..1_000).map(|number| format!("x-{number}: a\r\n")).collect();
    let (deep, valid) = ("[".repeat(1_000_000), r#"{"name":"edge","scopes":["*"]}"#);
    let long = format!(r#"{{"name":"{}"}}"#, "a".repeat((1 << 20) + 1 - 11));
    assert_eq!(long.len(), (1 << 20) + 1);
    // More than the socket buffers hold: the client is still sending when it is refused.
    let huge = "a".repeat(12 << 20);
    let repeated = r#"{"name":"edge","name":"edge","scopes":["*"]}"#;
    // A head that is too large is refused before it is complete, and the refusal may get lost.
    let head_refused: &[Option<u16>] = &[Some(431), Some(400), None];
    let cases = [
        ("a header of 64 KiB", post(server, &format!("x-large: {}\r\n", "a".repeat(64 << 10)), valid), head_refused),
        ("1,000 headers", post(server, &many, valid), head_refused),
        ("1,000,000 brackets", post(server, "", &deep), &[Some(400)]),
        ("a body of 1 MiB and a byte", post(server, "", &long), &[Some(413)]),
        ("a body of 12 MiB", post(server, "", &huge), &[Some(413)]),
        ("a repeated member", post(server, "", repeated), &[Some(400)]),
        ("a good request", post(server, "", valid), &[Some(201)]),
    ];
    let mut reports = Vec::new();
    for (name, request, expected) in cases {
        let (sent, answer) = ask(server, attacker(0), &request).await;
        let got = status(&answer);
        assert!(expected.contains(&got), "{name} was answered with {answer:?}, after {sent:?}");
        assert!(sent.is_ok() || got != Some(413), "{name} could not be sent to its end: {sent:?}");
        reports.push(format!("{name}: {}", got.map_or("closed".to_owned(), |status| status.to_string())));
    }
    reports.join(", ")
}
