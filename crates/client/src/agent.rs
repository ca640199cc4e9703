//! The agent's connection: kept for ever.
//!
//! ```text
//!   agent ──to_server──> Link ──hello first──> server
//!         <─from_server─      <───────────────
//! ```
//! What the agent leaves in `to_server` while there is no connection stays there; when the server is
//! back, its hello makes the agent tell everything anew. What carries the messages stands behind
//! [`Transport`], so that another carrier than gRPC can take its place.
use crate::endpoint::Endpoint;
use crate::error::Error;
use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use orrery_proto::fleet::v1::agent_connection_client::AgentConnectionClient;
use orrery_proto::fleet::v1::{AgentHello, FromServer, ToServer, to_server};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// How long to wait before the next try.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait when the server does not talk to this version: only an upgrade helps.
pub const RETRY_INTERVAL_OTHER_VERSION: Duration = Duration::from_secs(60);
/// Messages on their way to the server; the agent keeps the rest, and merges what it keeps.
const OUTGOING_MAX: usize = 16;
/// Largest set of assignments that is taken.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What the server sends, until the connection ends.
pub type Incoming = BoxStream<'static, Result<FromServer, Error>>;

/// Carries the messages of an agent.
#[async_trait]
pub trait Transport: Send + Sync {
    /// The server's name, for messages to people.
    fn server(&self) -> String;

    /// Connects once. The first message in `outgoing` is the hello.
    async fn connect(&self, outgoing: ReceiverStream<ToServer>) -> Result<Incoming, Error>;
}

#[async_trait]
impl Transport for Endpoint {
    fn server(&self) -> String {
        Self::server(self)
    }

    async fn connect(&self, outgoing: ReceiverStream<ToServer>) -> Result<Incoming, Error> {
        let channel = Self::connect(self).await?;
        let mut client =
            AgentConnectionClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let response = client.connect_agent(outgoing).await;
        let response = response.map_err(|status| self.failed(&status))?;
        let endpoint = self.clone();
        let lost = move |status: tonic::Status| endpoint.failed(&status);
        Ok(response.into_inner().map(move |message| message.map_err(&lost)).boxed())
    }
}

/// Keeps an agent connected.
pub struct Link<T> {
    pub transport: T,
    pub hello: AgentHello,
    pub to_server: mpsc::Receiver<ToServer>,
    pub from_server: mpsc::Sender<FromServer>,
}

impl<T: Transport> Link<T> {
    /// Connects, and connects again, until it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
        let server = self.transport.server();
        let mut said = String::new();
        loop {
            let outcome = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                outcome = self.session(&mut said) => outcome,
            };
            let wait = match &outcome {
                Err(Error::Version { .. }) => RETRY_INTERVAL_OTHER_VERSION,
                Ok(()) | Err(_) => RETRY_INTERVAL,
            };
            let text = outcome.map_or_else(|error| error.to_string(), |()| "closed".to_owned());
            // The same trouble every second is worth one line, not thousands.
            if text != said {
                tracing::warn!(server, problem = text, "not connected, will keep trying");
                said = text;
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// One connection, from its hello to its end.
    async fn session(&mut self, said: &mut String) -> Result<(), Error> {
        let (outgoing, outgoing_rx) = mpsc::channel(OUTGOING_MAX);
        let hello = ToServer { message: Some(to_server::Message::Hello(self.hello.clone())) };
        // The channel is new and has room.
        let _ = outgoing.try_send(hello);
        let mut incoming = self.transport.connect(ReceiverStream::new(outgoing_rx)).await?;
        tracing::info!(server = self.transport.server(), "connected");
        said.clear();
        loop {
            tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(message)) => {
                        if self.from_server.send(message).await.is_err() {
                            return Ok(());
                        }
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                },
                message = next(&mut self.to_server) => {
                    if outgoing.send(message).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// The next message of the agent; an agent that is gone has none.
async fn next(to_server: &mut mpsc::Receiver<ToServer>) -> ToServer {
    match to_server.recv().await {
        Some(message) => message,
        None => std::future::pending().await,
    }
}
