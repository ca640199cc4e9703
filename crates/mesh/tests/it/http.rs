//! The least of an HTTP client: one request, one connection.
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Status and body.
pub type Answer = (u16, String);

/// `None` if there is no answer.
pub async fn get(at: SocketAddr, host: &str, path: &str) -> Option<Answer> {
    get_on(TcpStream::connect(at).await.ok()?, host, path).await
}

/// The same on a connection that is there already, encrypted or not.
pub async fn get_on<S>(mut stream: S, host: &str, path: &str) -> Option<Answer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Some((status, if is_chunked { joined(body)? } else { body.to_owned() }))
}

/// Chunks, each behind its length, up to an empty one.
fn joined(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..length)?);
        body = rest.get(length..)?.strip_prefix("\r\n")?;
    }
}
