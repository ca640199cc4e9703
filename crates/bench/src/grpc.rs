//! A small client for unary calls, the same for us and for the peer, so that the load costs the
//! shared processors as little as it can: what is measured are the servers.
use anyhow::Context as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request, Uri};
use prost::Message;
use tokio::task::JoinSet;

/// A connection of its own.
pub struct Client {
    send: SendRequest<Bytes>,
    authority: String,
    /// The connection, which ends with its client.
    _running: JoinSet<Result<(), h2::Error>>,
}

impl Client {
    pub async fn connect(address: &str) -> anyhow::Result<Self> {
        let tcp = tokio::net::TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let (send, connection) = h2::client::handshake(tcp).await?;
        let mut running = JoinSet::new();
        running.spawn(connection);
        Ok(Self { send, authority: address.to_owned(), _running: running })
    }

    fn request(&self, path: &str) -> anyhow::Result<Request<()>> {
        let uri: Uri = format!("http://{}{path}", self.authority).parse()?;
        let request = Request::post(uri).header("content-type", "application/grpc");
        Ok(request.header("te", "trailers").body(())?)
    }

    /// Calls, and answers the bytes of the message that comes back.
    pub async fn call(&mut self, path: &str, message: &impl Message) -> anyhow::Result<Bytes> {
        self.call_encoded(path, &message.encode_to_vec()).await
    }

    /// The same with a message that is bytes already.
    pub async fn call_encoded(&mut self, path: &str, message: &[u8]) -> anyhow::Result<Bytes> {
        let request = self.request(path)?;
        let mut send = self.send.clone().ready().await?;
        let (response, mut stream) = send.send_request(request, false)?;
        stream.send_data(frame(message), true)?;
        let response = response.await?;
        check(response.headers())?;
        let mut body = response.into_body();
        let mut answer = BytesMut::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            answer.extend_from_slice(&chunk);
        }
        check(&body.trailers().await?.context("an answer ends with its status")?)?;
        anyhow::ensure!(PREFIX <= answer.len(), "the answer has no message");
        Ok(answer.split_off(PREFIX).freeze())
    }
}

/// Whether it is compressed, and its length.
const PREFIX: usize = 5;

fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.extend_from_slice(message);
    frame.freeze()
}

fn check(headers: &HeaderMap) -> anyhow::Result<()> {
    match headers.get("grpc-status").map(|status| status.as_bytes()) {
        None | Some(b"0") => Ok(()),
        Some(status) => {
            let message = headers.get("grpc-message").and_then(|m| m.to_str().ok());
            let status = String::from_utf8_lossy(status);
            anyhow::bail!("status {status}: {}", message.unwrap_or_default())
        }
    }
}
