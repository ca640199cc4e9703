//! The port for machine drivers, and machines put together with the rest.
//!
//! Drivers have a port of their own because those of the first contract look for one, and because with
//! certificates it demands one from everybody: with the role `driver`.
use crate::error::Error;
use crate::identity::{Cut, farewell};
use futures::StreamExt as _;
use orrery_access::{Access, Authorities};
use orrery_hub::Hub;
use orrery_machines::controller::orphans::OrphanTiming;
use orrery_machines::drivers::{self, Attributed, DriverKey, Gate, Peer, Timing};
use orrery_machines::resources::{Edge, EdgeOptions};
use orrery_pki::{ClientAuth, Identity, LiveTls, Role, SpiffeId};
use orrery_runtime::{OnEnd, Tasks};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Handshakes at once: a driver has one connection, and there are few drivers. How many may register
/// is bounded where they do.
const HANDSHAKES_MAX: usize = 256;
/// A peer that does not finish its handshake within this is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The bound port.
pub struct DriversPort {
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl DriversPort {
    pub fn new(tcp: TcpListener, address: SocketAddr, tls: Option<&LiveTls>) -> Self {
        let config = tls.map(|tls| tls.server_config(ClientAuth::Required));
        Self { tcp, address, tls: config.map(TlsAcceptor::from) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Starts what every server does for machines.
pub fn spawn(
    hub: &Hub,
    server: &str,
    port: Option<DriversPort>,
    access: Access,
    authorities: Authorities,
    orphans: OrphanTiming,
    tasks: &mut Tasks,
) -> Result<Arc<Edge>, Error> {
    let timing = Timing::default();
    let options = EdgeOptions {
        gate: Arc::new(DriversOnly),
        timing,
        server: server.to_owned(),
        server_lease: orrery_fleet::leader::server_lease,
        authority: Arc::new(move || Some(authorities.signer().ok()?.fingerprint())),
        orphans,
    };
    let edge = Edge::spawn(hub, options, tasks)?;
    if let Some(port) = port {
        let service = edge.drivers().service();
        let stop = tasks.stop_token();
        tasks.spawn("drivers-listener", OnEnd::StopAll, async move {
            let (accepted, connections) = mpsc::channel(16);
            let accepting = accept(port, access, accepted, stop.clone());
            let serving =
                drivers::transport(&timing).add_service(service).serve_with_incoming_shutdown(
                    ReceiverStream::new(connections).map(Ok::<_, std::io::Error>),
                    stop.cancelled_owned(),
                );
            let ((), served) = tokio::join!(accepting, serving);
            served
        });
    }
    Ok(edge)
}

/// Who may register: with a certificate only drivers, without one only this machine itself.
struct DriversOnly;

impl Gate for DriversOnly {
    fn admit(&self, peer: &Peer, key: &DriverKey) -> Result<(), String> {
        let role = |id: &str| id.parse::<SpiffeId>().ok().and_then(|id| Some(id.peer()?.0));
        match &peer.identity {
            Some(id) if role(id) == Some(Role::Driver) => Ok(()),
            Some(id) => Err(format!("{id} is no driver, so it may not register for {key}")),
            None if peer.is_plain_loopback() => Ok(()),
            None => Err(format!("{peer} shows no certificate, so it may not register for {key}")),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
type Connection = Attributed<Box<dyn Stream>>;

/// Takes connections until it is told to stop. Handshakes do not wait for each other.
async fn accept(
    port: DriversPort,
    access: Access,
    accepted: mpsc::Sender<Connection>,
    stop: CancellationToken,
) {
    let (handshakes, room) = (TaskTracker::new(), Arc::new(Semaphore::new(HANDSHAKES_MAX)));
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => break,
            taken = port.tcp.accept() => taken,
        };
        let (tcp, address) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                // Out of file descriptors, for example: a server that stops listening helps nobody.
                tracing::warn!(%error, "cannot accept a driver's connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            tracing::warn!(%address, "too many handshakes of drivers at once; this one is closed");
            continue;
        };
        let (tls, accepted, access) = (port.tls.clone(), accepted.clone(), access.clone());
        handshakes.spawn(async move {
            let _permit = permit;
            if let Some(connection) = attribute(tcp, address, tls, access).await {
                // The server has stopped when nobody takes it.
                let _ = accepted.send(connection).await;
            }
        });
    }
    handshakes.close();
    handshakes.wait().await;
}

async fn attribute(
    tcp: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    access: Access,
) -> Option<Connection> {
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let mut peer = Peer { address: Some(address), identity: None };
    let Some(tls) = tls else { return Some(Attributed::new(Box::new(tcp), peer)) };
    let accepting = tls.accept(tcp).into_fallible();
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await {
        Ok(Ok(stream)) => {
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
            // A certificate without an id of ours is somebody, but no driver.
            let Ok(identity) = Identity::from_chain(chain) else { return None };
            let id = identity.spiffe.as_ref().map(ToString::to_string);
            peer.identity = Some(id.unwrap_or_else(|| "a stranger".to_owned()));
            Some(Attributed::new(Box::new(Cut::new(stream, access, identity)), peer))
        }
        Ok(Err((error, io))) => {
            tracing::warn!(%address, %error, "TLS handshake of a driver refused");
            farewell(io).await;
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: MCH-04
    #[test]
    fn only_drivers_register() {
        let key = DriverKey::new("K", "g/v1");
        let check = |address: &str, identity: Option<&str>, expect: bool| {
            let address = Some(address.parse().expect("an address"));
            let peer = Peer { address, identity: identity.map(str::to_owned) };
            assert_eq!(DriversOnly.admit(&peer, &key).is_ok(), expect, "{peer}");
        };
        check("127.0.0.1:1", None, true);
        check("10.0.0.1:1", None, false);
        check("10.0.0.1:1", Some("spiffe://x.y/driver/aws"), true);
        check("127.0.0.1:1", Some("spiffe://x.y/agent/a"), false);
        check("127.0.0.1:1", Some("a stranger"), false);
    }
}
