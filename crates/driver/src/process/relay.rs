//! The way from the machines to a server that listens on this machine's loopback only.
//!
//! The machines have a loopback of their own. The driver listens there, in each of them, at the address
//! that the server has here, and passes on what connects: for an agent inside it is the same server with
//! the same name. Nobody outside of the machine sees the port.
use crate::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Connections of one machine at once: its agent has one or two.
const CONNECTIONS_MAX: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Where `ip netns` keeps the namespaces that it made.
const NAMESPACES: &str = "/run/netns";

pub(super) struct Relay {
    server: SocketAddr,
    /// By machine; dropping one ends it.
    running: Mutex<HashMap<String, DropGuard>>,
    tasks: TaskTracker,
}

impl Relay {
    pub fn to(server: SocketAddr) -> Self {
        Self { server, running: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// Opens the way from one machine, unless it is open.
    pub async fn open(&self, id: &str, namespace: &str) -> Result<(), Error> {
        let mut running = self.running.lock().await;
        if running.contains_key(id) {
            return Ok(());
        }
        let server = self.server;
        let namespace = Path::new(NAMESPACES).join(namespace);
        let bound = tokio::task::spawn_blocking(move || listen_in(&namespace, server)).await;
        let bound = bound.map_err(std::io::Error::other).and_then(|bound| bound);
        let tcp = bound.and_then(TcpListener::from_std).map_err(|error| {
            Error::unavailable(format!("listen on {server} for the agent in machine {id}: {error}"))
        })?;
        let stop = CancellationToken::new();
        let accepting = accept(tcp, server, self.tasks.clone());
        self.tasks.spawn(stop.clone().run_until_cancelled_owned(accepting));
        running.insert(id.to_owned(), stop.drop_guard());
        Ok(())
    }

    pub async fn close(&self, id: &str) {
        self.running.lock().await.remove(id);
    }
}

/// A listener that belongs to another network namespace. Only the thread that makes it moves there, and it
/// ends with that.
fn listen_in(namespace: &Path, address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let namespace = File::open(namespace)?;
    let bind = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        let tcp = std::net::TcpListener::bind(address)?;
        tcp.set_nonblocking(true)?;
        Ok(tcp)
    };
    let bound = std::thread::spawn(bind).join();
    bound.unwrap_or_else(|_| Err(std::io::Error::other("the thread that listens has failed")))
}
async fn accept(tcp: TcpListener, server: SocketAddr, tasks: TaskTracker) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match tcp.accept().await {
            Ok((agent, _)) => {
                tasks.spawn(async move {
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
