//! Makes one HTTP/2 connection to a controller.
use super::{Gather, failure::innermost};
use crate::{Entry, address::Target};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use rustls_pki_types::ServerName;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;

/// Limits of HTTP/2, the same towards callers and towards controllers.
pub mod limits {
    /// Lets one stream move 1 MiB per round trip and bounds what is buffered for it.
    pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;
    /// Lets sixteen streams do so at once on one connection.
    pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
    /// Frames of this size make large messages cheaper to pass on than HTTP/2's 16 KiB.
    pub const FRAME_BYTES_MAX: u32 = 64 << 10;
    /// Metadata of one message; gRPC implementations commonly take 8 to 16 KiB.
    pub const HEADER_LIST_BYTES_MAX: u32 = 64 << 10;
}

/// The kernel notices a dead peer after about a minute. Pings of HTTP/2 would do it too, but common
/// gRPC servers close a connection that pings more often than every five minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 3;

/// Cancelled streams that are remembered, so that what the controller still sends for them is
/// recognised: as many as callers may have at once on one connection of theirs.
const RESET_STREAMS_MAX: usize = 1024;

/// What waits to be sent on one stream before its sender has to wait too.
const SEND_BUFFER_BYTES_MAX: usize = 1 << 20;
/// Streams that are begun before the controller has said how many it takes.
const FIRST_STREAMS_MAX: usize = 100;

pub type Sender = h2::client::SendRequest<Bytes>;
pub type Driver = BoxFuture<'static, Result<(), h2::Error>>;

/// A connection, whatever it is made of.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why there is no connection. Clonable because all calls that waited for it get it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot connect to the controller {id} at {address}: {reason}")]
pub struct DialError {
    id: String,
    address: String,
    reason: String,
}

impl DialError {
    pub fn new(entry: &Entry, reason: impl Into<String>) -> Self {
        let (id, address) = (entry.id.to_string(), entry.address.to_string());
        Self { id, address, reason: reason.into() }
    }
}

/// Holds what all connections have in common.
#[derive(Clone)]
pub struct Dialer {
    tls: Option<TlsConnector>,
    timeout: Duration,
}

impl Dialer {
    pub fn new(tls: Option<Arc<rustls::ClientConfig>>, timeout: Duration) -> Self {
        let tls = tls.map(|config| {
            let mut config = (*config).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            TlsConnector::from(Arc::new(config))
        });
        Self { tls, timeout }
    }

    pub async fn dial(&self, entry: &Entry) -> Result<(Sender, Driver), DialError> {
        match tokio::time::timeout(self.timeout, self.connect(entry)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(reason)) => Err(DialError::new(entry, reason)),
            Err(_) => Err(DialError::new(entry, format!("no answer within {:?}", self.timeout))),
        }
    }

    async fn connect(&self, entry: &Entry) -> Result<(Sender, Driver), String> {
        handshake(self.open(entry).await?).await
    }

    /// A connection without HTTP/2 on it yet.
    pub async fn stream(&self, entry: &Entry) -> Result<Box<dyn Stream>, DialError> {
        match tokio::time::timeout(self.timeout, self.open(entry)).await {
            Ok(opened) => opened.map_err(|reason| DialError::new(entry, reason)),
            Err(_) => Err(DialError::new(entry, format!("no answer within {:?}", self.timeout))),
        }
    }

    async fn open(&self, entry: &Entry) -> Result<Box<dyn Stream>, String> {
        match entry.address.target() {
            Target::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| error.to_string())?;
                tune(&stream).map_err(|error| error.to_string())?;
                self.secure(entry, stream).await
            }
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
                self.secure(entry, stream).await
            }
        }
    }

    /// With TLS the controller proves here, before it is sent anything, that it is the one whose id
    /// it registered under.
    async fn secure<S>(&self, entry: &Entry, stream: S) -> Result<Box<dyn Stream>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(connector) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(format!("controller.{}", entry.id))
            .map_err(|_| "the id cannot be a name in a certificate".to_owned())?;
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|error| format!("TLS handshake: {}", innermost(&error)))?;
        Ok(Box::new(stream))
    }
}

fn tune(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    Ok(())
}

async fn handshake<S>(stream: S) -> Result<(Sender, Driver), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_max_send_streams(FIRST_STREAMS_MAX)
        .initial_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
        .max_frame_size(limits::FRAME_BYTES_MAX)
        .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
        .handshake(Gather::new(stream))
        .await
        .map_err(|error| format!("HTTP/2 handshake: {}", innermost(&error)))?;
    Ok((sender, connection.boxed()))
}
