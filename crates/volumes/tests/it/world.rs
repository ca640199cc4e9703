//! A registry of its own for each test, and clients for it.
use orrery_proto::oim::v0::{RegisterControllerRequest, registry_client::RegistryClient};
use orrery_volumes::{MemoryDirectory, ServeConfig, serve};
use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Channel;

/// No step of a test takes longer than this unless something is broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Registry {
    pub address: SocketAddr,
    pub directory: Arc<MemoryDirectory>,
    _stop: DropGuard,
}

pub async fn registry(config: ServeConfig) -> Registry {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let directory = Arc::new(MemoryDirectory::default());
    let stop = CancellationToken::new();
    tokio::spawn(serve(listener, config, directory.clone(), stop.clone()));
    Registry { address, directory, _stop: stop.drop_guard() }
}

impl Registry {
    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub async fn register(&self, id: &str, address: &str) {
        register(&mut RegistryClient::new(self.channel().await), id, address).await.unwrap();
    }
}

pub async fn register(
    client: &mut RegistryClient<Channel>,
    id: &str,
    address: &str,
) -> Result<(), tonic::Status> {
    let request = RegisterControllerRequest {
        controller_id: id.to_owned(),
        address: address.to_owned(),
        ..RegisterControllerRequest::default()
    };
    client.register_controller(request).await.map(|_| ())
}

/// Waits for something that has to happen, and fails the test if it does not.
#[track_caller]
pub fn soon<F: Future>(what: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, what).await;
        waited.unwrap_or_else(|_| panic!("nothing happened at {place}"))
    }
}
