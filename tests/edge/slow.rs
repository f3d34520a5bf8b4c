//! Slow clients.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    healthy::Healthy,
    process::Server,
    wire::{attacker, connect_from, connect_many, head, read_to_end, status},
};

const SLOW_HEADERS: usize = 2_000;
const SLOW_BODIES: usize = 100;

/// Whether the server has closed the connection, checked by sending one more byte.
fn is_ended(connection: &TcpStream) -> bool {
    let mut buffer = [0; 256];
    let ended = |result: std::io::Result<usize>| match result {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    ended(connection.try_write(b"a")) || ended(connection.try_read(&mut buffer))
}

/// Connections that send one header byte per two healthy requests.
pub async fn headers(server: &Server, healthy: &Healthy) -> String {
    let mut connections = connect_many(server, SLOW_HEADERS).await;
    for connection in &mut connections {
        connection.write_all(b"GET /api/auth/session HTTP/1.1\r\nx-slow: ").await.unwrap();
    }
    let mut rounds = 0;
    while !connections.is_empty() {
        healthy.is_served().await;
        connections.retain(|connection| !is_ended(connection));
        rounds += 1;
    }
    format!("{SLOW_HEADERS} connections were ended within {rounds} rounds")
}

/// Incomplete bodies of one tenant: those that fit into its share of the memory time out, the others are refused immediately.
pub async fn bodies(server: &Server) -> String {
    let answer = async |number: usize| {
        let mut connection = connect_from(attacker(number % 10), server.address).await.unwrap();
        let head = format!("{}content-length: 1000000\r\n\r\n", head(server, "POST", "/api/admin/api-keys"));
        connection.write_all(head.as_bytes()).await.unwrap();
        // A server that refuses the body need not read all of it.
        drop(connection.write_all(&vec![b' '; 900_000]).await);
        status(&read_to_end(&mut connection).await)
    };
    let answers: Vec<_> = stream::iter(0..SLOW_BODIES).map(answer).buffer_unordered(SLOW_BODIES).collect().await;
    let mut counts: BTreeMap<Option<u16>, usize> = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer).or_default() += 1;
    }
    let known = counts.keys().all(|answer| matches!(answer, Some(408 | 503)));
    assert!(known && (5..20).contains(&counts[&Some(408)]), "slow bodies were answered with {counts:?}");
    format!("{SLOW_BODIES} bodies were answered with {counts:?}")
}
