//! What other servers ask about the agents that are connected to this one.
use crate::fleet::Fleet;
use crate::middleware::Peer;
use futures::stream::{BoxStream, StreamExt};
use orrery_pki::Role;
use orrery_proto::fleet::v1::server_connection_server::{ServerConnection, ServerConnectionServer};
use orrery_proto::fleet::v1::{
    CopyLogsRequest, ExecClient, ExecResponse, LoadsRequest, LoadsResponse, LogsResponse,
};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};

/// Words to a command on their way through this server; the agent gives less credit than that.
const WORDS_WAITING_MAX: usize = 64;

/// Largest message of another server: a piece of input.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Answers other servers.
pub struct PeerService {
    fleet: Arc<Fleet>,
    /// The commands whose words are passed on; each ends with its stream.
    talks: TaskTracker,
}

impl PeerService {
    pub fn server(fleet: Arc<Fleet>) -> ServerConnectionServer<Self> {
        ServerConnectionServer::new(Self { fleet, talks: TaskTracker::new() })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

/// The other server has checked who wants to know; that it is a server is checked here.
fn only_servers<T>(request: &Request<T>) -> Result<(), Status> {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    if peer.has_role(Role::Server) {
        return Ok(());
    }
    Err(Status::unauthenticated("show a certificate of the role server"))
}

#[tonic::async_trait]
impl ServerConnection for PeerService {
    type LogsStream = BoxStream<'static, Result<LogsResponse, Status>>;
    type ExecStream = BoxStream<'static, Result<ExecResponse, Status>>;

    async fn logs(
        &self,
        request: Request<CopyLogsRequest>,
    ) -> Result<Response<Self::LogsStream>, Status> {
        only_servers(&request)?;
        let output = self.fleet.logs_here(request.into_inner(), 1);
        Ok(Response::new(output.map(Ok).boxed()))
    }

    async fn exec(
        &self,
        request: Request<Streaming<ExecClient>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        only_servers(&request)?;
        let mut inbound = request.into_inner();
        let first = inbound.message().await?;
        let Some(ExecClient { node, id, start: Some(start), .. }) = first else {
            return Err(Status::invalid_argument("the first message begins the command"));
        };
        let (words, heard) = mpsc::channel(WORDS_WAITING_MAX);
        let events = self.fleet.execs().open(&node, &id, start, heard);
        self.talks.spawn(async move {
            while let Ok(Some(message)) = inbound.message().await {
                let Some(word) = message.input else { continue };
                if words.send(word).await.is_err() {
                    return;
                }
            }
        });
        let replies = events.map(|event| Ok(ExecResponse { event: Some(event) }));
        Ok(Response::new(replies.boxed()))
    }

    async fn load(
        &self,
        request: Request<LoadsRequest>,
    ) -> Result<Response<LoadsResponse>, Status> {
        only_servers(&request)?;
        Ok(Response::new(self.fleet.loads_here(request.into_inner()).await))
    }
}
