//! Agents for tests: they speak the protocol and run nothing.
use crate::world::{SOON, World};
use async_trait::async_trait;
use futures::StreamExt;
use orrery_client::Error;
use orrery_client::agent::{Incoming, Transport};
use orrery_fleet::agents::connection::AgentConnections;
use orrery_fleet::middleware::{Peer, Refusal};
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{
    AgentHello, Assignment, FromServer, InstanceState, InstanceStates, ServerMessage, ToServer,
    server_message, to_server,
};
use std::collections::VecDeque;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Hands messages over within the process.
pub struct InProcess {
    connections: AgentConnections,
    peer: Peer,
}

impl InProcess {
    pub fn new(world: &World, peer: Peer) -> Self {
        Self { connections: world.connections.agents.clone(), peer }
    }
}

#[async_trait]
impl Transport for InProcess {
    fn server(&self) -> String {
        "this process".to_owned()
    }

    async fn connect(&self, outgoing: ReceiverStream<ToServer>) -> Result<Incoming, Error> {
        let inbound = outgoing.map(Ok).boxed();
        let connected = self.connections.connect(self.peer.clone(), inbound).await;
        let outbound = connected.map_err(|refusal| refused(&self.server(), &refusal))?;
        Ok(outbound.map(Ok).boxed())
    }
}

/// The same words as over gRPC.
fn refused(server: &str, refusal: &Refusal) -> Error {
    let (server, message) = (server.to_owned(), refusal.to_string());
    match refusal {
        Refusal::NoVersion | Refusal::UnsupportedVersion { .. } => {
            Error::Version { server, message }
        }
        Refusal::NoHello { .. }
        | Refusal::BadName { .. }
        | Refusal::NotYou { .. }
        | Refusal::NameTaken { .. }
        | Refusal::OtherAgent { .. } => Error::Refused { server, message },
        Refusal::NotNow { .. } => Error::ConnectionLost { server, cause: message },
    }
}

/// An agent's end of a connection, in a test's hands.
pub struct FakeAgent {
    pub to_server: mpsc::Sender<ToServer>,
    incoming: Incoming,
    /// Messages of the last call that were not taken yet.
    waiting: VecDeque<server_message::Message>,
}

impl FakeAgent {
    /// Says a proper hello.
    pub async fn connect(transport: &dyn Transport, name: &str) -> Result<Self, Error> {
        Self::connect_labelled(transport, name, &[]).await
    }

    /// The same with labels for its node.
    pub async fn connect_labelled(
        transport: &dyn Transport,
        name: &str,
        labels: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let hello = AgentHello {
            name: name.to_owned(),
            version: orrery_client::VERSION.to_owned(),
            runtimes: vec!["process".to_owned()],
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..AgentHello::default()
        };
        Self::connect_with(transport, to_server::Message::Hello(hello)).await
    }

    /// Begins with any message.
    pub async fn connect_with(
        transport: &dyn Transport,
        first: to_server::Message,
    ) -> Result<Self, Error> {
        let (to_server, outgoing) = mpsc::channel(64);
        to_server.try_send(ToServer { message: Some(first) }).expect("the channel is new");
        let incoming = transport.connect(ReceiverStream::new(outgoing)).await?;
        Ok(Self { to_server, incoming, waiting: VecDeque::new() })
    }

    /// All messages of the next call; `None` when the server ended the connection.
    pub async fn call(&mut self) -> Option<Vec<ServerMessage>> {
        let next = tokio::time::timeout(SOON, self.incoming.next()).await;
        match next.expect("the server says something in time") {
            Some(Ok(FromServer { messages })) => Some(messages),
            Some(Err(_)) | None => None,
        }
    }

    /// The next message.
    pub async fn next(&mut self) -> Option<server_message::Message> {
        while self.waiting.is_empty() {
            let messages = self.call().await?;
            self.waiting.extend(messages.into_iter().filter_map(|message| message.message));
        }
        self.waiting.pop_front()
    }

    /// The next assignment, alone or in a set; other messages are passed over.
    pub async fn assignment(&mut self) -> Assignment {
        loop {
            match self.next().await.expect("the connection is open") {
                server_message::Message::Assign(assignment) => return assignment,
                server_message::Message::Set(set) => {
                    let each = set.assignments.into_iter().map(server_message::Message::Assign);
                    self.waiting.extend(each);
                }
                server_message::Message::Hello(_)
                | server_message::Message::Unassign(_)
                | server_message::Message::Dependencies(_)
                | server_message::Message::Log(_)
                | server_message::Message::LogCredit(_)
                | server_message::Message::LogCancel(_)
                | server_message::Message::Files(_)
                | server_message::Message::Exec(_)
                | server_message::Message::Load(_) => {}
            }
        }
    }

    /// Reports the state of one copy.
    pub async fn report(&self, id: &str, state: &str, generation: i64) {
        let status = WorkloadInstanceStatus {
            state: state.to_owned(),
            observed_generation: generation,
            ..WorkloadInstanceStatus::default()
        };
        let state = InstanceState { id: id.to_owned(), status: Some(status) };
        let states = InstanceStates { states: vec![state] };
        let message = ToServer { message: Some(to_server::Message::States(states)) };
        self.to_server.send(message).await.expect("the connection is open");
    }
}
