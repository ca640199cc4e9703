//! The way to the server: plain on loopback, otherwise TLS with a certificate of the driver's own.
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

/// The port that servers listen on for drivers unless told otherwise.
pub const DEFAULT_PORT: u16 = 5000;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was cut without a word is found by HTTP/2 pings after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{address:?} is no address of a server; write host:port")]
    BadAddress { address: String },
}

/// A channel to `address` (`host:port`, or `host` for port 5000) that connects when it is used, and
/// again after every loss.
pub fn channel(
    address: &str,
    tls: Option<Arc<rustls::ClientConfig>>,
) -> Result<Channel, ConnectError> {
    let bad = || ConnectError::BadAddress { address: address.to_owned() };
    let uri: Uri = format!("http://{address}").parse().map_err(|_| bad())?;
    let host = uri.host().ok_or_else(bad)?;
    let port = match address.strip_prefix(host) {
        Some("") => DEFAULT_PORT,
        Some(port) => port.strip_prefix(':').and_then(|it| it.parse().ok()).ok_or_else(bad)?,
        None => return Err(bad()),
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    let server = ServerName::try_from(host.clone()).map_err(|_| bad())?;
    let endpoint = Endpoint::from(uri)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        connect(host.clone(), port, tls.clone().map(|config| (config, server.clone())))
    })))
}

async fn connect(
    host: String,
    port: u16,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
) -> std::io::Result<TokioIo<Box<dyn Stream>>> {
    let limited = tokio::time::timeout(CONNECT_TIMEOUT, async {
        let tcp = TcpStream::connect((host.as_str(), port)).await?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(tcp),
            Some((config, server)) => {
                Box::new(TlsConnector::from(config).connect(server, tcp).await?)
            }
        };
        Ok(TokioIo::new(stream))
    });
    limited.await.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
}

trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_checked() {
        for good in ["127.0.0.1:5000", "server.example", "[::1]:5000", "localhost:1"] {
            assert!(channel(good, None).is_ok(), "{good}");
        }
        for bad in ["", ":5000", "a b", "host:port", "host:1/path", "-._:1"] {
            assert!(channel(bad, None).is_err(), "{bad}");
        }
    }
}
