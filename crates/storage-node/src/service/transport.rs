//! Connections to a registry: TCP or a Unix socket, with or without TLS.
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::{io, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;
use tonic::transport::Channel;

/// A registry that does not answer a connection attempt by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The name that a registry's certificate has.
const REGISTRY_NAME: &str = "component.registry";

/// Where a registry is, and how to trust it.
#[derive(Clone)]
pub struct Endpoint {
    address: Address,
    tls: Option<TlsConnector>,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(String),
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.address {
            Address::Tcp(address) => out.write_str(address),
            Address::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Endpoint {
    /// Takes `host:port`, `dns:///host:port` or `unix:path`. With TLS the other side has to prove that
    /// it is `component.registry`.
    pub fn new(address: &str, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        let address = match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.strip_prefix("//").unwrap_or(path).into()),
            None => Address::Tcp(address.strip_prefix("dns:///").unwrap_or(address).to_owned()),
        };
        let tls = tls.map(|config| {
            let mut config = (*config).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            TlsConnector::from(Arc::new(config))
        });
        Self { address, tls }
    }

    /// A channel that connects when it is first used, and again whenever the connection is lost.
    pub fn channel(&self) -> Channel {
        let endpoint = self.clone();
        let connect = tower::service_fn(move |_: http::Uri| {
            let endpoint = endpoint.clone();
            async move { endpoint.connect().await.map(TokioIo::new) }
        });
        // The authority is what a registry sees as the name it is called by; the connector above
        // knows where it really is, and does the TLS: tonic would refuse to dial https without its
        // own.
        let called = |scheme: &str| {
            let uri = http::Uri::builder().scheme(scheme).authority(REGISTRY_NAME);
            uri.path_and_query("/").build().expect("a URI made of constants is valid")
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        tonic::transport::Endpoint::from(called("http"))
            .origin(called(scheme))
            .connect_timeout(CONNECT_TIMEOUT)
            .connect_with_connector_lazy(connect)
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                self.secure(stream).await
            }
            Address::Unix(path) => self.secure(UnixStream::connect(path).await?).await,
        }
    }

    async fn secure<S: Stream + 'static>(&self, stream: S) -> io::Result<Box<dyn Stream>> {
        let Some(connector) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(REGISTRY_NAME).map_err(io::Error::other)?;
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}
