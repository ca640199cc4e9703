//! The agent's connection: kept for ever.
//!
//! ```text
//!   agent ──to_server──> Link ──hello first──> server
//!         <─from_server─      <───────────────
//! ```
//! What the agent leaves in `to_server` while there is no connection stays there; when the server is
//! back, its hello makes the agent tell everything anew.
use crate::endpoint::Endpoint;
use crate::error::Error;
use futures::StreamExt;
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
/// Largest set of assignments that is taken.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Keeps an agent connected.
pub struct Link {
    pub endpoint: Endpoint,
    pub hello: AgentHello,
    pub to_server: mpsc::Receiver<ToServer>,
    pub from_server: mpsc::Sender<FromServer>,
}

impl Link {
    /// Connects, and connects again, until it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
        let server = self.endpoint.server();
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
        let server = self.endpoint.server();
        let lost = |status: &tonic::Status| Error::from_status(&server, status);
        let channel = self.endpoint.connect().await?;
        let mut client =
            AgentConnectionClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (outgoing, outgoing_rx) = mpsc::channel(16);
        let hello = ToServer { message: Some(to_server::Message::Hello(self.hello.clone())) };
        // The channel is new and has room.
        let _ = outgoing.try_send(hello);
        let response = client.connect_agent(ReceiverStream::new(outgoing_rx)).await;
        let mut incoming = response.map_err(|status| lost(&status))?.into_inner();
        tracing::info!(server, "connected");
        said.clear();
        loop {
            tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(message)) => {
                        if self.from_server.send(message).await.is_err() {
                            return Ok(());
                        }
                    }
                    Some(Err(status)) => return Err(lost(&status)),
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
