//! The socket that the host connects to.
use super::handshake::Handshake;
use super::tls::{TlsError, acceptor};
use futures::stream::{self, BoxStream, StreamExt as _};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// Longest path of a socket, by the kernel.
const SOCKET_BYTES_MAX: usize = 107;
/// Handshakes that are under way at once; the host opens one connection, or two.
const HANDSHAKES_MAX: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot listen on a socket in {}: {cause}", .folder.display())]
    Listen { folder: PathBuf, cause: io::Error },
    #[error("cannot tell the host where to connect to: {0}")]
    Tell(io::Error),
}

/// A socket in a folder of its own, which goes with it.
pub struct Serving {
    listener: UnixListener,
    tls: Option<TlsAcceptor>,
    line: String,
    _folder: TempDir,
}

impl Serving {
    pub fn open(handshake: Handshake) -> Result<Self, ServingError> {
        let (tls, certificate) = handshake.host.map(acceptor).transpose()?.unzip();
        let usual = std::env::temp_dir();
        let failed = |cause| ServingError::Listen { folder: usual.clone(), cause };
        let folder = folder_in(&usual).map_err(failed)?;
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        let line = Handshake::line(handshake.protocol, &socket, certificate.as_ref());
        Ok(Self { listener, tls, line, _folder: folder })
    }

    /// Tells the host where we are: the first and last thing on standard output.
    pub fn tell(&self) -> Result<(), ServingError> {
        let mut out = io::stdout().lock();
        out.write_all(self.line.as_bytes()).and_then(|()| out.flush()).map_err(ServingError::Tell)
    }

    /// Connections of the host. One that fails says so in the log, and the next is taken.
    pub fn connections(&self) -> BoxStream<'_, io::Result<Connection>> {
        let accepted = stream::unfold(&self.listener, |listener| async move {
            Some((listener.accept().await, listener))
        });
        let shaken = accepted.map(|accepted| async {
            match (accepted, self.tls.clone()) {
                (Err(error), _) => Err(error),
                (Ok((plain, _)), None) => Ok(Connection::Plain(plain)),
                (Ok((plain, _)), Some(tls)) => {
                    Ok(Connection::Tls(Box::new(tls.accept(plain).await?)))
                }
            }
        });
        let connected = shaken.buffer_unordered(HANDSHAKES_MAX);
        connected
            .filter_map(|connection| async {
                connection.inspect_err(|error| tracing::warn!(%error, "a connection failed")).ok()
            })
            .map(Ok)
            .boxed()
    }
}

/// In the usual place, or in the shortest one where that makes a path that no socket can have.
fn folder_in(usual: &std::path::Path) -> io::Result<TempDir> {
    let named = tempfile::Builder::new().prefix("orrery-tf-").to_owned();
    let folder = named.tempdir_in(usual)?;
    if folder.path().as_os_str().len() + "/s".len() <= SOCKET_BYTES_MAX {
        return Ok(folder);
    }
    named.tempdir_in("/tmp")
}

/// A connection of the host.
pub enum Connection {
    Plain(UnixStream),
    Tls(Box<TlsStream<UnixStream>>),
}

impl Connected for Connection {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
