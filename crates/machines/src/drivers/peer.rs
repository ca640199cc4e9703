//! Who is at the other end of a connection.
use super::source::DriverKey;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// The other end of one connection: its address, and its identity if it showed a certificate.
///
/// The listener puts it in front of every request by wrapping the accepted connection in
/// [`Attributed`]. Without that wrapper only the address is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Address and port: while a connection is open, no other has the same.
    pub address: Option<SocketAddr>,
    /// The verified name, such as `spiffe://orrery/driver/aws`.
    pub identity: Option<String>,
}

impl Peer {
    pub fn of(extensions: &tonic::Extensions) -> Self {
        if let Some(peer) = extensions.get::<Self>() {
            return peer.clone();
        }
        let address = extensions.get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
        Self { address, identity: None }
    }

    /// A connection without a certificate from this machine itself.
    pub fn is_plain_loopback(&self) -> bool {
        self.identity.is_none() && self.address.is_some_and(|address| address.ip().is_loopback())
    }

    /// Whether both are one and the same connection.
    pub fn same_connection(&self, other: &Self) -> bool {
        self.address.is_some() && self == other
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.identity, &self.address) {
            (Some(identity), Some(address)) => write!(out, "{identity} at {address}"),
            (Some(identity), None) => out.write_str(identity),
            (None, Some(address)) => write!(out, "{address}"),
            (None, None) => out.write_str("an unknown address"),
        }
    }
}

/// Says which peer may register for which kind.
pub trait Gate: Send + Sync + 'static {
    /// `Err` with the reason refuses the registration.
    fn admit(&self, peer: &Peer, key: &DriverKey) -> Result<(), String>;
}

/// Everybody with a certificate, and without one only this machine itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateOrLoopback;

impl Gate for CertificateOrLoopback {
    fn admit(&self, peer: &Peer, key: &DriverKey) -> Result<(), String> {
        if peer.identity.is_some() || peer.is_plain_loopback() {
            return Ok(());
        }
        Err(format!("{peer} shows no certificate, so it may not register for {key}"))
    }
}

/// A connection that knows its peer.
pub struct Attributed<C> {
    connection: C,
    peer: Peer,
}

impl<C> Attributed<C> {
    pub fn new(connection: C, peer: Peer) -> Self {
        Self { connection, peer }
    }
}

impl<C> Connected for Attributed<C> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Attributed<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Attributed<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
