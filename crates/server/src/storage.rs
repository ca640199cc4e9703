//! The storage registry's port, beside the main one: there every service that is not the registry's
//! own is passed on to a storage controller.
use orrery_access::Access;
use orrery_hub::Hub;
use orrery_pki::{ClientAuth, LiveTls};
use orrery_runtime::{OnEnd, Tasks};
use orrery_volumes::{HubDirectory, ProxyConfig, ServeConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A port that is open, and answered as soon as it is spawned.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<LiveTls>,
}

impl Bound {
    pub fn new(listener: TcpListener, address: SocketAddr, tls: Option<LiveTls>) -> Self {
        Self { listener, address, tls }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How storage controllers are reached.
    pub fn proxy_config(&self) -> ProxyConfig {
        let tls = self.tls.as_ref().map(LiveTls::client_config);
        ProxyConfig { tls, ..ProxyConfig::default() }
    }

    /// Serves registry and proxy on the store of the hub.
    pub fn spawn(
        self,
        hub: &Hub,
        access: Access,
        tasks: &mut Tasks,
    ) -> Result<(), orrery_hub::Error> {
        let directory = HubDirectory::spawn(hub, tasks)?;
        let config = ServeConfig {
            tls: self.tls.as_ref().map(|tls| tls.server_config(ClientAuth::Required)),
            proxy: self.proxy_config(),
            refused: Some(Arc::new(move |identity| {
                let access = access.clone();
                Box::pin(async move { access.until_refused(&identity).await.as_str() })
            })),
        };
        let (listener, address, stop) = (self.listener, self.address, tasks.stop_token());
        tracing::info!("storage registry on {address}");
        tasks.spawn("storage-registry", OnEnd::StopAll, async move {
            orrery_volumes::serve(listener, config, directory, stop).await;
            Ok::<(), std::convert::Infallible>(())
        });
        Ok(())
    }
}
