//! Listeners: TCP with or without TLS, and the admin socket. tenantd terminates TLS itself and so is the edge of the network. Every
//! limit that a proxy would enforce is enforced here: connections in total and per address, handshake, headers and idle time.

mod connection;
mod gate;
mod unread;
mod watched;

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::{
    context::Client,
    edge::{Edge, Peer},
};
use connection::{ConnectionSettings, Phase};
use gate::Gate;

/// All listeners of a server.
#[derive(Debug)]
pub struct Listeners {
    edge: Arc<Edge>,
    gate: Arc<Gate>,
    phase: watch::Sender<Phase>,
    loops: Vec<JoinHandle<()>>,
}

/// After an error such as too many open files, the listener pauses instead of retrying in a loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;

impl Listeners {
    pub fn new(edge: Arc<Edge>) -> Self {
        let limits = &edge.settings().limits;
        let gate = Arc::new(Gate::new(limits.connections, limits.connections_per_address));
        Self { edge, gate, phase: watch::Sender::new(Phase::Serving), loops: Vec::new() }
    }

    /// Serves the API. Returns the address in use, with its port.
    pub fn serve_tcp(&mut self, listener: std::net::TcpListener, tls: Option<rustls::ServerConfig>) -> io::Result<SocketAddr> {
        let listener = accepting(listener)?;
        let bound = listener.local_addr()?;
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let (edge, gate, phase) = (self.edge.clone(), self.gate.clone(), self.phase.subscribe());
        self.loops.push(tokio::spawn(accept_tcp(listener, acceptor, None, edge, gate, phase)));
        Ok(bound)
    }

    /// Serves the admin socket. Only the user of this process can open it.
    pub fn serve_unix(&mut self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        // This process has locked the data directory, so an existing socket is a leftover.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let (edge, gate, phase) = (self.edge.clone(), self.gate.clone(), self.phase.subscribe());
        self.loops.push(tokio::spawn(accept_unix(listener, edge, gate, phase)));
        Ok(())
    }

    /// Redirects people to the same path over HTTPS, and refuses programs.
    pub fn serve_redirect(&mut self, listener: std::net::TcpListener, https_port: u16) -> io::Result<SocketAddr> {
        let listener = accepting(listener)?;
        let bound = listener.local_addr()?;
        let (edge, gate, phase) = (self.edge.clone(), self.gate.clone(), self.phase.subscribe());
        self.loops.push(tokio::spawn(accept_tcp(listener, None, Some(https_port), edge, gate, phase)));
        Ok(bound)
    }

    /// Stops accepting, lets requests in progress finish within `patience`, then closes the rest.
    pub async fn shutdown(self, patience: Duration) {
        self.phase.send_replace(Phase::Draining);
        for accepting in self.loops {
            drop(accepting.await);
        }
        if tokio::time::timeout(patience, self.gate.emptied()).await.is_err() {
            tracing::warn!(connections = self.gate.open(), "closing connections that did not finish in time");
            self.phase.send_replace(Phase::Closing);
            drop(tokio::time::timeout(Duration::from_secs(2), self.gate.emptied()).await);
        }
    }
}

/// Listens on an address.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv6() { tokio::net::TcpSocket::new_v6() } else { tokio::net::TcpSocket::new_v4() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

fn accepting(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn accept_tcp(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    https_port: Option<u16>,
    edge: Arc<Edge>,
    gate: Arc<Gate>,
    mut phase: watch::Receiver<Phase>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => return,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = gate.enter(Some(remote.ip())) else {
            metrics::counter!("tenantd_connections_refused_total").increment(1);
            continue;
        };
        // Answers are small and written immediately. Waiting to fill a packet would only delay them.
        drop(stream.set_nodelay(true));
        let peer = Peer { client: Client::Address(remote.ip().to_canonical()), secure: tls.is_some(), https_port };
        let settings = ConnectionSettings::new(&edge.settings().limits);
        let (edge, tls, phase) = (edge.clone(), tls.clone(), phase.clone());
        match tls {
            None => drop(tokio::spawn(connection::serve(stream, edge, peer, settings, permit, phase))),
            Some(tls) => drop(tokio::spawn(async move {
                match tokio::time::timeout(settings.handshake, tls.accept(stream)).await {
                    Ok(Ok(stream)) => connection::serve(stream, edge, peer, settings, permit, phase).await,
                    Ok(Err(error)) => tracing::debug!(%error, %remote, "the TLS handshake failed"),
                    Err(_) => tracing::debug!(%remote, "the TLS handshake took too long"),
                }
            })),
        }
    }
}

async fn accept_unix(listener: UnixListener, edge: Arc<Edge>, gate: Arc<Gate>, mut phase: watch::Receiver<Phase>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let Some(permit) = gate.enter(None) else { continue };
                let peer = Peer { client: Client::Local, secure: false, https_port: None };
                let settings = ConnectionSettings::new(&edge.settings().limits);
                tokio::spawn(connection::serve(stream, edge.clone(), peer, settings, permit, phase.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept an admin connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
