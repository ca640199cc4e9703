//! Two ends of a TLS connection in one process, and certificates for them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use orrery_pki::{Authority, Identity, IssueRequest, Role, Validity};
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// More than a handshake ever sends, so neither side waits for the other to read.
const PIPE_BYTES: usize = 64 * 1024;

/// The one place of these tests that reads the clock: rustls judges validity by the real one.
#[allow(clippy::disallowed_methods)]
pub fn now() -> SystemTime {
    SystemTime::now()
}

pub fn mk_authority() -> Authority {
    let domain = "orrery.test".parse().unwrap();
    Authority::generate(&domain, Validity::starting(now(), 30 * DAY)).unwrap()
}

pub fn mk_request(role: Role, name: &str) -> IssueRequest {
    IssueRequest::new(role, name).dns("localhost").ip(Ipv4Addr::LOCALHOST)
}

/// What each side saw of a connection that worked.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub client: Option<Identity>,
    pub server: Identity,
    pub alpn: Option<Vec<u8>>,
    pub version: rustls::ProtocolVersion,
}

/// Shakes hands and sends a byte each way; the error says what each side met. With TLS 1.3
/// a client is done before the server has judged its certificate, so only the bytes prove success.
pub async fn connect(server: Arc<ServerConfig>, client: Arc<ClientConfig>) -> Result<Seen, String> {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let (server, client) = tokio::join!(accept(server, far), dial(client, near));
    let (server, client) = match (server, client) {
        (Ok(server), Ok(client)) => (server, client),
        (server, client) => {
            return Err(format!("{}, {}", said("server", server), said("client", client)));
        }
    };
    let (_, session) = server.get_ref();
    let shown = session.peer_certificates().map(|chain| Identity::from_chain(chain).unwrap());
    Ok(Seen {
        client: shown,
        server: Identity::from_chain(client.get_ref().1.peer_certificates().unwrap()).unwrap(),
        alpn: session.alpn_protocol().map(<[u8]>::to_vec),
        version: session.protocol_version().unwrap(),
    })
}

fn said<T>(side: &str, outcome: std::io::Result<T>) -> String {
    outcome.map_or_else(|error| format!("{side}: {error}"), |_| format!("{side}: fine"))
}

async fn accept(
    config: Arc<ServerConfig>,
    stream: DuplexStream,
) -> std::io::Result<server::TlsStream<DuplexStream>> {
    let mut stream = TlsAcceptor::from(config).accept(stream).await?;
    let byte = stream.read_u8().await?;
    stream.write_u8(byte).await?;
    stream.flush().await?;
    Ok(stream)
}

async fn dial(
    config: Arc<ClientConfig>,
    stream: DuplexStream,
) -> std::io::Result<client::TlsStream<DuplexStream>> {
    let name = "localhost".try_into().expect("a valid DNS name");
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    stream.write_u8(7).await?;
    stream.flush().await?;
    assert_eq!(stream.read_u8().await?, 7);
    Ok(stream)
}
