//! Opens a connection to addresses that have passed the policy: TCP to the first that answers, then TLS for the host of the URL. It
//! takes only addresses, so that no lookup can happen after the check.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::error::EgressError;

/// How long the next address waits for the previous one (RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);
/// The most addresses that are tried for one connection.
const MOST_TRIED: usize = 8;

/// Connects to the first of `addresses` that accepts. They are tried in turn, each with a head start.
pub(super) async fn connect(addresses: &[SocketAddr], limit: Duration) -> Result<(TcpStream, SocketAddr), EgressError> {
    let deadline = Instant::now() + limit;
    let mut waiting = addresses.iter().take(MOST_TRIED);
    let mut trying = FuturesUnordered::new();
    let mut last_error = None;
    loop {
        if let Some(address) = waiting.next() {
            trying.push(async move { TcpStream::connect(address).await.map(|stream| (stream, *address)) });
        }
        let patience = if waiting.len() == 0 { deadline } else { deadline.min(Instant::now() + HEAD_START) };
        match timeout_at(patience, trying.next()).await {
            Ok(Some(Ok((stream, address)))) => {
                stream.set_nodelay(true).map_err(|error| EgressError::Connect(error.kind().to_string()))?;
                return Ok((stream, address));
            }
            Ok(Some(Err(error))) => last_error = Some(error),
            Ok(None) => {
                let reason = last_error.map_or_else(|| "no address".to_owned(), |error| error.kind().to_string());
                return Err(EgressError::Connect(reason));
            }
            Err(_) if Instant::now() >= deadline => return Err(EgressError::Connect("no answer in time".to_owned())),
            Err(_) => {}
        }
    }
}

/// Performs the TLS handshake for `host`, the name or address of the URL. The certificate must be valid for it.
pub(super) async fn tls_handshake(
    stream: TcpStream,
    host: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, EgressError> {
    let plain = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let name =
        ServerName::try_from(plain.to_owned()).map_err(|_| EgressError::Tls("the host cannot be in a certificate".to_owned()))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| EgressError::Tls(error.to_string()))
}
