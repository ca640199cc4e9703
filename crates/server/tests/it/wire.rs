//! HTTP over TLS, word by word.
use orrery_pki::TlsMaterial;
use orrery_testkit::world::{SOON, World};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub type Tls = TlsStream<TcpStream>;

/// The port of a server's API.
pub fn address(world: &World) -> SocketAddr {
    world.url.trim_start_matches("https://").parse().unwrap()
}

/// An open connection; with TLS 1.3 a client learns from the first read whether it is welcome.
pub async fn open(address: SocketAddr, who: &TlsMaterial, protocol: &[u8]) -> Tls {
    let mut config = (*who.client_config()).clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = address.ip().into();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
}

/// Waits until the server ends a connection.
pub async fn ended(mut connection: Tls) {
    let end = async {
        let mut bytes = [0; 1024];
        // A server that closes without a farewell has closed all the same.
        while connection.read(&mut bytes).await.is_ok_and(|length| length != 0) {}
    };
    tokio::time::timeout(SOON, end).await.expect("the connection ends");
}

/// Asks by REST. `more` are headers.
pub async fn ask(
    world: &World,
    who: &TlsMaterial,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let mut tls = open(address(world), who, b"http/1.1").await;
    let more: String = more.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}");
    let length = body.len();
    let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    (code.unwrap_or_default(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A watch by REST.
pub struct Watch {
    lines: BufReader<Tls>,
}

impl Watch {
    pub async fn open(world: &World, who: &TlsMaterial, path: &str, token: Option<&str>) -> Self {
        let mut tls = open(address(world), who, b"http/1.1").await;
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        let request = format!("GET {path}?watch=true HTTP/1.1\r\nHost: x\r\n{token}\r\n");
        tls.write_all(request.as_bytes()).await.unwrap();
        Self { lines: BufReader::new(tls) }
    }

    /// The next event, or none at the end of the stream; what stands between the events is skipped.
    pub async fn next(&mut self) -> Option<Value> {
        let next = async {
            loop {
                let mut line = String::new();
                let length = self.lines.read_line(&mut line).await.unwrap_or_default();
                if length == 0 || line == "0\r\n" {
                    return None;
                }
                if let Ok(event @ Value::Object(_)) = serde_json::from_str(&line) {
                    return Some(event);
                }
            }
        };
        tokio::time::timeout(SOON, next).await.expect("an event, or the end, in time")
    }
}
