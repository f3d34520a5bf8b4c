//! More connections than the server accepts.

use std::io;

use crate::{
    healthy::Healthy,
    process::Server,
    wire::{CONNECTIONS_PER_ADDRESS, attacker, connect_from},
};

const CROWD: u64 = 10_000;
/// Files that this process needs for other purposes.
const RESERVED: u64 = 500;
const HEALTHY_EVERY: usize = 500;

/// Connections from many addresses, each with an incomplete request, all open at the same time.
pub async fn connections(server: &Server, healthy: &Healthy, files: u64) -> String {
    let count = usize::try_from(CROWD.min(files.saturating_sub(RESERVED))).unwrap();
    if (count as u64) < CROWD {
        println!("only {count} connections: the system allows {files} open files");
    }
    let mut held = Vec::with_capacity(count);
    for number in 0..count {
        let connection = connect_from(attacker(number / CONNECTIONS_PER_ADDRESS), server.address).await.unwrap();
        // The server may have closed some already.
        drop(connection.try_write(b"GET /api/auth/session HTTP/1.1\r\nx-crowd: "));
        held.push(connection);
        if number % HEALTHY_EVERY == 0 {
            healthy.is_served().await;
        }
    }
    healthy.is_served().await;
    let mut buffer = [0; 16];
    let open = held
        .iter()
        .filter(|connection| matches!(connection.try_read(&mut buffer), Err(error) if error.kind() == io::ErrorKind::WouldBlock));
    format!("{count} connections were made, {} of them still open at the end", open.count())
}
