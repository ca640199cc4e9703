//! Other servers: asking them about the agents that are connected to them.
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use orrery_client::Endpoint;
use orrery_fleet::elsewhere::Elsewhere;
use orrery_pki::LiveTls;
use orrery_proto::fleet::v1::server_connection_client::ServerConnectionClient;
use orrery_proto::fleet::v1::{
    CopyLogsRequest, ExecClient, ExecEnd, ExecEvent, ExecInput, LoadsRequest, LoadsResponse,
    LogsResponse, exec_event,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Reaches other servers with this one's own certificate. People ask seldom, so a connection is made
/// for each question and closed with its answer.
pub struct Peers {
    tls: Option<LiveTls>,
}

impl Peers {
    pub fn new(tls: Option<LiveTls>) -> Self {
        Self { tls }
    }

    async fn dial(&self, server: &str) -> Result<ServerConnectionClient<Channel>, String> {
        let endpoint = Endpoint::live(server, self.tls.clone());
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let channel = endpoint.connect().await.map_err(|error| {
            format!("its agent is connected to another server, which does not answer: {error}")
        })?;
        Ok(ServerConnectionClient::new(channel))
    }
}

fn said(status: &tonic::Status) -> String {
    format!("the server of its agent says: {}", status.message())
}

#[async_trait]
impl Elsewhere for Peers {
    async fn logs(
        &self,
        server: &str,
        request: CopyLogsRequest,
    ) -> Result<BoxStream<'static, LogsResponse>, String> {
        let instance = request.instance.clone();
        let answer = self.dial(server).await?.logs(request).await;
        let output = answer.map_err(|status| said(&status))?.into_inner();
        let broken = move |status: &tonic::Status| LogsResponse {
            instance: instance.clone(),
            problem: said(status),
            away: true,
            ..LogsResponse::default()
        };
        Ok(output.map(move |piece| piece.unwrap_or_else(|status| broken(&status))).boxed())
    }

    async fn exec(
        &self,
        server: &str,
        first: ExecClient,
        words: mpsc::Receiver<ExecInput>,
    ) -> Result<BoxStream<'static, ExecEvent>, String> {
        let words = ReceiverStream::new(words)
            .map(|word| ExecClient { input: Some(word), ..ExecClient::default() });
        let outgoing = stream::iter([first]).chain(words);
        let answer = self.dial(server).await?.exec(outgoing).await;
        let events = answer.map_err(|status| said(&status))?.into_inner();
        let event =
            |reply: Result<orrery_proto::fleet::v1::ExecResponse, tonic::Status>| match reply {
                Ok(reply) => reply.event.unwrap_or_default(),
                Err(status) => {
                    let end = ExecEnd { exit_code: None, problem: said(&status) };
                    ExecEvent { message: Some(exec_event::Message::End(end)) }
                }
            };
        Ok(events.map(event).boxed())
    }

    async fn loads(&self, server: &str, request: LoadsRequest) -> Result<LoadsResponse, String> {
        let answer = self.dial(server).await?.load(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| said(&status))
    }
}
