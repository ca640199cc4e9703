//! The way from the machines to a server that listens on this machine's loopback only.
//!
//! The machines have a loopback of their own, so the server is made to appear on the gateway's address:
//! what connects there is passed on. It is for agents without certificates, as such a server is.
use crate::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Connections at once: an agent has one or two, and a subnet has 253 machines.
const CONNECTIONS_MAX: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Relay {
    server: SocketAddr,
    running: Mutex<Option<DropGuard>>,
}

impl Relay {
    pub fn to(server: SocketAddr) -> Self {
        Self { server, running: Mutex::default() }
    }

    /// What machines connect to.
    pub fn address(&self, gateway: Ipv4Addr) -> SocketAddr {
        (gateway, self.server.port()).into()
    }

    /// Starts it unless it runs. The gateway has its address by then.
    pub async fn ensure(&self, gateway: Ipv4Addr) -> Result<(), Error> {
        let mut running = self.running.lock().await;
        if running.is_some() {
            return Ok(());
        }
        let address = self.address(gateway);
        let tcp = TcpListener::bind(address).await.map_err(|error| {
            Error::unavailable(format!("listen on {address} for the machines' agents: {error}"))
        })?;
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(tcp, self.server)));
        *running = Some(stop.drop_guard());
        Ok(())
    }

    /// The gateway goes, and the way with it.
    pub async fn stop(&self) {
        self.running.lock().await.take();
    }
}

async fn accept(tcp: TcpListener, server: SocketAddr) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match tcp.accept().await {
            Ok((agent, _)) => {
                tokio::spawn(async move {
                    let _permit = permit;
                    pass_on(agent, server).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an agent's connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Passes bytes on until one side ends. A server that is not there looks to the agent as it is.
async fn pass_on(mut agent: TcpStream, server: SocketAddr) {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(server)).await;
    let Ok(Ok(mut server)) = connected else { return };
    let nodelay = agent.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let outcome = tokio::io::copy_bidirectional(&mut agent, &mut server).await;
    if let Err(error) = nodelay.and(outcome) {
        tracing::debug!(%error, "an agent's connection ended");
    }
}
