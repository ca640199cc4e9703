//! The agent connection over gRPC: a thin adapter.
use super::connection::AgentConnections;
use crate::middleware::{Peer, Refusal};
use futures::stream::{BoxStream, StreamExt};
use orrery_proto::fleet::v1::agent_connection_server::{AgentConnection, AgentConnectionServer};
use orrery_proto::fleet::v1::{FromServer, ToServer};
use tonic::{Request, Response, Status, Streaming};

/// Largest message of an agent; a batch of ten thousand states fits.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

pub struct AgentService {
    connections: AgentConnections,
}

impl AgentService {
    pub fn server(connections: AgentConnections) -> AgentConnectionServer<Self> {
        AgentConnectionServer::new(Self { connections })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

#[tonic::async_trait]
impl AgentConnection for AgentService {
    type ConnectAgentStream = BoxStream<'static, Result<FromServer, Status>>;

    async fn connect_agent(
        &self,
        request: Request<Streaming<ToServer>>,
    ) -> Result<Response<Self::ConnectAgentStream>, Status> {
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let inbound = request.into_inner().map(|m| m.map_err(|s| s.message().to_owned())).boxed();
        let outbound = self.connections.connect(peer, inbound).await?;
        Ok(Response::new(outbound.map(Ok).boxed()))
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NoHello { .. } | Refusal::BadName { .. } => tonic::Code::InvalidArgument,
            Refusal::NoVersion | Refusal::UnsupportedVersion { .. } => {
                tonic::Code::FailedPrecondition
            }
            Refusal::NotYou { .. } => tonic::Code::PermissionDenied,
            Refusal::NameTaken { .. } | Refusal::OtherAgent { .. } => tonic::Code::AlreadyExists,
            Refusal::NotNow { .. } => tonic::Code::Unavailable,
        };
        Status::new(code, refusal.to_string())
    }
}
