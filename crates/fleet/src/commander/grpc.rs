//! The commander connection over gRPC: a thin adapter.
use super::connection::CommanderConnections;
use crate::middleware::Peer;
use futures::stream::{BoxStream, StreamExt};
use orrery_proto::fleet::v1::commander_connection_server::{
    CommanderConnection, CommanderConnectionServer,
};
use orrery_proto::fleet::v1::{CommanderFromServer, CommanderToServer};
use tonic::{Request, Response, Status, Streaming};

/// Largest message of a commander: an object of the largest size, as JSON, with room to spare.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

pub struct CommanderService {
    connections: CommanderConnections,
}

impl CommanderService {
    pub fn server(connections: CommanderConnections) -> CommanderConnectionServer<Self> {
        CommanderConnectionServer::new(Self { connections })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

#[tonic::async_trait]
impl CommanderConnection for CommanderService {
    type ConnectCommanderStream = BoxStream<'static, Result<CommanderFromServer, Status>>;

    async fn connect_commander(
        &self,
        request: Request<Streaming<CommanderToServer>>,
    ) -> Result<Response<Self::ConnectCommanderStream>, Status> {
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let header =
            |name: &str| request.metadata().get(name).and_then(|value| value.to_str().ok());
        let peer = peer.described(header);
        let inbound = request.into_inner().map(|m| m.map_err(|s| s.message().to_owned())).boxed();
        let outbound = self.connections.connect(peer, inbound).await?;
        Ok(Response::new(outbound.map(Ok).boxed()))
    }
}
