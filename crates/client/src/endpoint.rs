//! Where a server is, and how to reach it.
use crate::error::Error;
use hyper_util::rt::TokioIo;
use orrery_pki::{Fingerprint, LiveTls, TlsMaterial, pinned_client_config};
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

/// A server that does not take a connection within this time is not available.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is silent for this long is asked whether it still lives ...
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(4);
/// ... and given up when it does not answer within this: a pulled cable is noticed in 9 s.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const _: () = assert!(KEEPALIVE_INTERVAL.as_secs() + KEEPALIVE_TIMEOUT.as_secs() < 10);

/// A server's address, and what to show it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    uri: Uri,
    tls: Option<Trust>,
    token: Option<Token>,
    heard: Heard,
}

/// What TLS last said was wrong with a connection. A client of TLS 1.3 is told after its handshake that
/// its certificate is not taken, when all that whoever calls learns is that the connection was closed.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<Option<String>>>);

impl Heard {
    fn note(&self, outcome: &Poll<std::io::Result<()>>) {
        if let Poll::Ready(Err(error)) = outcome
            && error.kind() == std::io::ErrorKind::InvalidData
        {
            *self.0.lock() = Some(error.to_string());
        }
    }
}

/// A token to show with each call. `Debug` leaves it out.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// How a server is known, and what is shown to it.
#[derive(Clone, Debug)]
enum Trust {
    /// By the root; our certificate is shown as it is when the connection is opened.
    Live(LiveTls),
    /// By the hash of its authority; we have nothing to show yet.
    Pinned(Fingerprint),
    /// By the root; a token is shown instead of a certificate.
    Rooted(Arc<ClientConfig>),
}

impl Trust {
    fn config(&self) -> Arc<ClientConfig> {
        match self {
            Self::Live(live) => {
                if let Err(error) = live.refresh() {
                    tracing::error!(%error, "the changed certificate cannot be used, going on with the old one");
                }
                live.client_config()
            }
            Self::Pinned(authority) => pinned_client_config(*authority),
            Self::Rooted(config) => config.clone(),
        }
    }
}

impl Endpoint {
    /// `https` needs TLS material, and TLS material needs `https`.
    pub fn new(address: &str, tls: Option<TlsMaterial>) -> Result<Self, Error> {
        Self::live(address, tls.map(LiveTls::new))
    }

    /// The same with material that may change; each connection is opened with what is current.
    pub fn live(address: &str, tls: Option<LiveTls>) -> Result<Self, Error> {
        Self::with(address, tls.map(Trust::Live))
    }

    /// A server of which nothing is known but the hash of its authority's certificate.
    pub fn pinned(address: &str, authority: Fingerprint) -> Result<Self, Error> {
        Self::with(address, Some(Trust::Pinned(authority)))
    }

    /// A server that is shown a token. `root` says whom to trust, for `https`.
    pub fn with_token(
        address: &str,
        root: Option<Arc<ClientConfig>>,
        token: &str,
    ) -> Result<Self, Error> {
        let endpoint = Self::with(address, root.map(Trust::Rooted))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::BadToken);
        }
        Ok(Self { token: Some(Token(token.to_owned())), ..endpoint })
    }

    /// A call, with the token where there is one.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Some(value) = self.authorization().and_then(|text| text.parse().ok()) {
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    /// What is shown with each call, where there is a token.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|Token(token)| format!("Bearer {token}"))
    }

    fn with(address: &str, tls: Option<Trust>) -> Result<Self, Error> {
        let bad = |problem: &str| Error::BadAddress {
            address: address.to_owned(),
            problem: problem.to_owned(),
        };
        let uri: Uri = address.parse().map_err(|_| bad("it cannot be read"))?;
        if uri.host().is_none() || uri.port_u16().is_none() {
            return Err(bad("host or port is missing"));
        }
        match (uri.scheme_str(), &tls) {
            (Some("https"), Some(_)) | (Some("http"), None) => {
                Ok(Self { uri, tls, token: None, heard: Heard::default() })
            }
            (Some("https"), None) => Err(bad("https needs --root, --certificate and --key")),
            (Some("http"), Some(_)) => Err(bad("certificates were given, but http uses none")),
            (_, _) => Err(bad("it must begin with http:// or https://")),
        }
    }

    /// The address, for messages.
    pub fn server(&self) -> String {
        self.uri.to_string().trim_end_matches('/').to_owned()
    }

    /// Why a call has failed.
    pub fn failed(&self, status: &tonic::Status) -> Error {
        match Error::from_status(&self.server(), status) {
            Error::ConnectionLost { server, cause } => {
                let heard = self.heard.0.lock().take();
                Error::lost(server, heard.unwrap_or(cause))
            }
            other => other,
        }
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
        Err(Error::not_connected(self.server(), cause))
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
        let connector = TlsConnector::from(tls.config());
        let stream = connector.connect(name, tcp).await?;
        *self.heard.0.lock() = None;
        Ok(Connection::Tls(Box::new(stream), self.heard.clone()))
    }
}

/// A connection with or without TLS.
enum Connection {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>, Heard),
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
                Self::Tls(io, heard) => {
                    let outcome = Pin::new(io).poll_read(cx, buffer);
                    heard.note(&outcome);
                    outcome
                }
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
                Self::Tls(io, _) => Pin::new(io).poll_write(cx, bytes),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
            match self.get_mut() {
                Self::Plain(io) => Pin::new(io).poll_flush(cx),
                Self::Tls(io, _) => Pin::new(io).poll_flush(cx),
            }
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
            match self.get_mut() {
                Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
                Self::Tls(io, _) => Pin::new(io).poll_shutdown(cx),
            }
        }
    }
}
