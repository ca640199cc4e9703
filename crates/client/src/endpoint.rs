//! Where a server is, and how to reach it.
use crate::error::Error;
use hyper_util::rt::TokioIo;
use orrery_pki::TlsMaterial;
use rustls_pki_types::ServerName;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

/// A server that does not take a connection within this time is not available.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is silent for this long is asked whether it still lives ...
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
/// ... and given up when it does not answer within this: a pulled cable is noticed in 8 s.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server's address, and what to show it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    uri: Uri,
    tls: Option<TlsMaterial>,
}

impl Endpoint {
    /// `https` needs TLS material, and TLS material needs `https`.
    pub fn new(address: &str, tls: Option<TlsMaterial>) -> Result<Self, Error> {
        let bad = |problem: &str| Error::BadAddress {
            address: address.to_owned(),
            problem: problem.to_owned(),
        };
        let uri: Uri = address.parse().map_err(|_| bad("it cannot be read"))?;
        if uri.host().is_none() || uri.port_u16().is_none() {
            return Err(bad("host or port is missing"));
        }
        match (uri.scheme_str(), &tls) {
            (Some("https"), Some(_)) | (Some("http"), None) => Ok(Self { uri, tls }),
            (Some("https"), None) => Err(bad("https needs --root, --certificate and --key")),
            (Some("http"), Some(_)) => Err(bad("certificates were given, but http uses none")),
            (_, _) => Err(bad("it must begin with http:// or https://")),
        }
    }

    /// The address, for messages.
    pub fn server(&self) -> String {
        self.uri.to_string().trim_end_matches('/').to_owned()
    }

    /// Connects once.
    pub async fn connect(&self) -> Result<Channel, Error> {
        let builder = Channel::builder(self.dialled())
            .origin(self.uri.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        let endpoint = self.clone();
        let connector = service_fn(move |_: Uri| {
            let endpoint = endpoint.clone();
            async move { endpoint.open().await.map(TokioIo::new) }
        });
        let connected =
            tokio::time::timeout(2 * CONNECT_TIMEOUT, builder.connect_with_connector(connector));
        let cause = match connected.await {
            Ok(Ok(channel)) => return Ok(channel),
            Ok(Err(error)) => Error::root_cause(&error),
            Err(_) => "it did not answer in time".to_owned(),
        };
        Err(Error::NotAvailable { server: self.server(), cause })
    }

    /// What tonic believes it dials: our own connector does the TLS, and tonic would refuse to see
    /// `https` without its own.
    fn dialled(&self) -> Uri {
        let mut parts = self.uri.clone().into_parts();
        parts.scheme = Some(http::uri::Scheme::HTTP);
        Uri::from_parts(parts).unwrap_or_else(|_| self.uri.clone())
    }

    async fn open(&self) -> Result<Connection, std::io::Error> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.uri.port_u16().unwrap_or_default();
        let tcp = TcpStream::connect((host, port)).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Connection::Plain(tcp)) };
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        let connector = TlsConnector::from(tls.client_config());
        Ok(Connection::Tls(Box::new(connector.connect(name, tcp).await?)))
    }
}

/// A connection with or without TLS.
enum Connection {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

mod io {
    use super::Connection;
    use std::io::Result;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    impl AsyncRead for Connection {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<Result<()>> {
            match self.get_mut() {
                Self::Plain(io) => Pin::new(io).poll_read(cx, buffer),
                Self::Tls(io) => Pin::new(io).poll_read(cx, buffer),
            }
        }
    }

    impl AsyncWrite for Connection {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<Result<usize>> {
            match self.get_mut() {
                Self::Plain(io) => Pin::new(io).poll_write(cx, bytes),
                Self::Tls(io) => Pin::new(io).poll_write(cx, bytes),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
            match self.get_mut() {
                Self::Plain(io) => Pin::new(io).poll_flush(cx),
                Self::Tls(io) => Pin::new(io).poll_flush(cx),
            }
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
            match self.get_mut() {
                Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
                Self::Tls(io) => Pin::new(io).poll_shutdown(cx),
            }
        }
    }
}
