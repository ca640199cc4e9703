//! Connections: accepted, encrypted where asked for, and served until the end.
use crate::connection::{Guest, Hosted, QuietTimer, Silence, Threads, gathered};
use crate::limits::{self, Connections, Held};
use crate::services::Services;
use crate::stalled::Stalled;
use futures::FutureExt as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use orrery_access::{Access, Over};
use orrery_fleet::middleware::Peer;
use orrery_pki::Identity;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The head of a request: its line and its headers. Tokens and selectors fit many times over.
const HEAD_BYTES_MAX: u32 = 64 << 10;
/// A client that does not finish its handshake, or the head of a request, within this is dropped.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that has been silent for so long is asked whether it still lives, and dropped when it does not
/// answer: together less than the 10 s in which a pulled cable has to be noticed. Asking is most of what a
/// server does for agents that are at rest; they ask themselves, a little more often than this, and who asks
/// lives. The answer has its time, because on a slow line it stands behind everything else that is on its way.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);
const _: () = assert!(KEEPALIVE_INTERVAL.as_secs() + KEEPALIVE_TIMEOUT.as_secs() < 10);
/// How much a client may send ahead: the largest request, and a few of them on one connection. Fixed,
/// because finding out what a connection can carry asks it again and again.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// How long the streams of somebody who is refused may take to say so before the connection is cut.
const LAST_WORDS_TIME: Duration = Duration::from_millis(250);
/// How long open requests may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// A bound port and what is served on it.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: Connections,
    access: Option<Access>,
}

impl Listener {
    pub fn new(
        tcp: TcpListener,
        tls: Option<Arc<tokio_rustls::rustls::ServerConfig>>,
        connections: Connections,
    ) -> Self {
        Self { tcp, tls: tls.map(TlsAcceptor::from), connections, access: None }
    }

    /// Ends the connections of identities that are disabled.
    #[must_use]
    pub fn guarded(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    pub fn encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves on the threads until it is told to stop; then no new connection is taken and the open ones end.
    pub async fn serve(self, services: Services, threads: &Threads, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let graceful = GracefulShutdown::new();
        loop {
            let (tcp, address, permit) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&self.tcp, &self.connections) => accepted,
            };
            let Some(held) = self.connections.take(&address.ip().to_string()) else {
                tracing::debug!(%address, "it has too many connections");
                continue;
            };
            if let Err(error) = tcp.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
            let peer = Peer { address: Some(address), ..Peer::default() };
            let place = Place { held, _permit: permit };
            let Ok(tcp) = tcp.into_std().inspect_err(|error| unusable(address, error)) else {
                continue;
            };
            let (tls, access) = (self.tls.clone(), self.access.clone());
            let (services, graceful) = (services.clone(), graceful.watcher());
            let here = connections.clone();
            let connect = move || {
                let served = TcpStream::from_std(tcp).map(|tcp| match tls {
                    None => (serve_http(Stalled::new(tcp), peer, services, graceful), Some(place)),
                    Some(tls) => {
                        (serve_tls(tcp, tls, access, peer, services, graceful, place), None)
                    }
                });
                here.track_future(serve_one(served, address))
            };
            threads.take(connect).await;
        }
        drop(self.tcp);
        connections.close();
        let drained = async {
            graceful.shutdown().await;
            connections.wait().await;
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::debug!(left = connections.len(), "connections did not end in time");
        }
    }
}

/// The next connection. Trouble with one of them (out of file descriptors, for example) is waited
/// out: a server that stops listening helps nobody.
async fn accept(
    tcp: &TcpListener,
    connections: &Connections,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    let permit = connections.room().await;
    loop {
        match tcp.accept().await {
            Ok((stream, address)) => return (stream, address, permit),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// What a connection takes of the server's limits, until it ends.
struct Place {
    held: Held,
    _permit: Option<OwnedSemaphorePermit>,
}

/// What is served over a connection. In a box of its own, as all that is large about a connection: a
/// task has room for the largest that it may ever wait for, and most connections wait for very little.
type Served = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A connection for as long as it is one, with little more in it than that needs.
async fn serve_one(served: std::io::Result<(Served, Option<Place>)>, address: SocketAddr) {
    let (serving, place) = match served {
        Ok(served) => served,
        Err(error) => return unusable(address, &error),
    };
    let outcome = serving.await;
    drop(place);
    if let Err(error) = outcome {
        tracing::debug!(%address, error, "connection ended");
    }
}

fn unusable(address: SocketAddr, error: &std::io::Error) {
    tracing::warn!(%address, %error, "cannot use an accepted connection");
}

fn serve_tls(
    tcp: TcpStream,
    tls: TlsAcceptor,
    access: Option<Access>,
    peer: Peer,
    services: Services,
    graceful: Watcher,
    place: Place,
) -> Served {
    Box::pin(served_tls(tcp, tls, access, peer, services, graceful, place))
}

async fn served_tls(
    tcp: TcpStream,
    tls: TlsAcceptor,
    access: Option<Access>,
    mut peer: Peer,
    services: Services,
    graceful: Watcher,
    mut place: Place,
) -> Result<(), String> {
    let address = peer.address;
    let accepting = Box::pin(tls.accept(Stalled::new(tcp)).into_fallible());
    let stream = match tokio::time::timeout(HEAD_TIMEOUT, accepting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err((error, io))) => {
            tracing::warn!(?address, %error, "TLS handshake refused");
            Box::pin(crate::identity::farewell(io)).await;
            return Ok(());
        }
        Err(_) => return Ok(()),
    };
    peer.encrypted = true;
    peer.identity = identity(&stream);
    let refused = Box::pin(until_refused(access, peer.identity.clone()));
    if peer.identity.is_some() {
        let Some(held) = place.held.known_as(&limits::key(&peer).to_string()) else {
            tracing::debug!(?address, "its identity has too many connections");
            return Ok(());
        };
        place.held = held;
    }
    tokio::select! {
        outcome = serve_http(stream, peer, services, graceful) => outcome,
        // Everything that runs over the connection ends with it.
        (name, why) = refused => {
            let reason = why.as_str();
            tracing::warn!(?address, name, reason, "closing its connection");
            Ok(())
        }
    }
}

/// The name of the peer, when it is disabled or its certificate has ended.
async fn until_refused(access: Option<Access>, identity: Option<Identity>) -> (String, Over) {
    let (Some(access), Some(identity)) = (access, identity) else {
        return std::future::pending().await;
    };
    let why = access.until_refused(&identity).await;
    // What is open says so itself meanwhile, in its own language; nothing new begins.
    tokio::time::sleep(LAST_WORDS_TIME).await;
    let name =
        identity.spiffe.map_or_else(|| identity.fingerprint.to_string(), |id| id.to_string());
    (name, why)
}

fn identity(stream: &tokio_rustls::server::TlsStream<Stalled<TcpStream>>) -> Option<Identity> {
    let chain = stream.get_ref().1.peer_certificates()?;
    Identity::from_chain(chain)
        .inspect_err(|error| tracing::warn!(%error, "cannot read a client certificate"))
        .ok()
}

fn serve_http<I>(io: I, peer: Peer, services: Services, graceful: Watcher) -> Served
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(served(io, peer, services, graceful))
}

fn served<I>(
    io: I,
    peer: Peer,
    services: Services,
    graceful: Watcher,
) -> impl Future<Output = Result<(), String>> + Send + use<I>
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let silence = Silence::new();
    let (io, writes) = gathered(io, silence.clone());
    let guest = Guest::default();
    let mut builder = Builder::new(guest.clone());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(QuietTimer::new(silence, KEEPALIVE_INTERVAL))
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(1024)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let service = services.of(peer);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service).into_owned();
    Hosted::new(graceful.watch(connection), writes, guest)
        .map(|ended| ended.map_err(|error| error.to_string())?.map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How large what a function makes is; it need not be made for that.
    fn served_bytes<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn task_bytes<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// A server holds thousands of connections that are at rest.
    #[test]
    fn a_connection_takes_little_memory() {
        let (task, served) = (task_bytes(serve_one), served_bytes(served::<Stalled<TcpStream>>));
        assert!(task <= 384, "the task: {task} bytes");
        assert!(served <= 256, "what is served: {served} bytes");
    }
}
