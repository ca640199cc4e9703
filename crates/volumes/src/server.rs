//! The registry's listener: accepts connections, learns who calls, and splits the streams between the
//! registry's own service and the proxy.
use crate::{
    Caller, ControllerDirectory, certificate,
    proxy::{Body, Proxy, ProxyConfig, Received, Reset},
    registry::RegistryService,
    streams,
};
use http::{Request, Response};
use orrery_pki::Identity;
use orrery_proto::oim::v0::registry_server::RegistryServer;
use std::{pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

/// Connections served at once. Each costs some 100 KiB; more callers than this share a site's
/// registry only through something that multiplexes.
const CONNECTIONS_MAX: usize = 4096;
/// A peer that connected and does not finish its handshake is using up a place.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// After an accept that failed, usually because file descriptors ran out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long streams may go on after the server was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Where the registry's own methods live; all other paths are proxied.
const OWN_SERVICE: &str = "/oim.v0.Registry/";

/// How the registry's port is served.
#[derive(Clone, Default)]
pub struct ServeConfig {
    /// Asks for client certificates, from which callers get their names. Without it everybody may do
    /// everything, and the listener should be on a loopback address.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub proxy: ProxyConfig,
    /// Ends when an identity is refused that was welcome; its connections are cut then.
    pub refused: Option<Refused>,
}

/// Waits until an identity is refused, and says why.
pub type Refused =
    Arc<dyn Fn(Identity) -> Pin<Box<dyn Future<Output = &'static str> + Send>> + Send + Sync>;

/// Serves the registry and the proxy on `listener` until `stop` is cancelled, then lets streams finish
/// for a while.
pub async fn serve(
    listener: TcpListener,
    config: ServeConfig,
    directory: Arc<dyn ControllerDirectory>,
    stop: CancellationToken,
) {
    let server = Arc::new(Server {
        registry: RegistryServer::new(RegistryService::new(directory.clone())),
        proxy: Proxy::new(directory.clone(), &config.proxy),
        tls: config.tls.map(acceptor),
        refused: config.refused,
    });
    let connections = TaskTracker::new();
    // Following ends if the directory's changes do; connections then live until they are idle.
    let work = async {
        tokio::join!(
            accept(&server, &listener, &connections, &stop),
            server.proxy.pool().follow(directory.as_ref()),
        )
    };
    stop.run_until_cancelled(work).await;
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(left = connections.len(), "streams were cut off because they did not end");
    }
    server.proxy.pool().close().await;
}

struct Server {
    registry: RegistryServer<RegistryService>,
    proxy: Proxy,
    tls: Option<TlsAcceptor>,
    refused: Option<Refused>,
}

fn acceptor(config: Arc<rustls::ServerConfig>) -> TlsAcceptor {
    let mut config = (*config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(
    server: &Arc<Server>,
    listener: &TcpListener,
    connections: &TaskTracker,
    stop: &CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (server, stop) = (server.clone(), stop.clone());
                connections.spawn(async move {
                    if let Err(error) = server.connection(stream, stop).await {
                        tracing::debug!(%peer, error, "a connection ended badly");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

impl Server {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        stop: CancellationToken,
    ) -> Result<(), String> {
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(acceptor) = self.tls.clone() else {
            return self.streams(stream, Caller::Anyone, stop).await;
        };
        let address = stream.peer_addr().ok();
        let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
            .await
            .map_err(|_| "the TLS handshake took too long".to_owned())?
            .map_err(|error| {
                tracing::warn!(?address, %error, "TLS handshake of a storage peer refused");
                format!("TLS handshake: {error}")
            })?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let caller = certificate::caller(chain).map_err(|error| error.to_string())?;
        let name = caller.to_string();
        let refused = match (&self.refused, Identity::from_chain(chain)) {
            (Some(refused), Ok(identity)) => refused(identity),
            (_, _) => Box::pin(std::future::pending()),
        };
        tokio::select! {
            outcome = self.streams(stream, caller, stop) => outcome,
            why = refused => {
                tracing::warn!(name, reason = why, "closing its connection to the registry");
                Err(why.to_owned())
            }
        }
    }

    async fn streams<S>(
        self: Arc<Self>,
        stream: S,
        caller: Caller,
        stop: CancellationToken,
    ) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let caller = Arc::new(caller);
        let answer = |request| self.clone().call(caller.clone(), request);
        streams::serve(stream, answer, stop).await
    }

    async fn call(
        self: Arc<Self>,
        caller: Arc<Caller>,
        mut request: Request<Received>,
    ) -> Result<Response<Body>, Reset> {
        if !request.uri().path().starts_with(OWN_SERVICE) {
            return self.proxy.forward(&caller, request).await;
        }
        request.extensions_mut().insert(Caller::clone(&caller));
        let answered = self.registry.clone().oneshot(request).await;
        let response = answered.unwrap_or_else(|never| match never {});
        Ok(response.map(Body::Local))
    }
}
