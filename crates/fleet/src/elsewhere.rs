//! Agents that are connected to another server.
use async_trait::async_trait;
use futures::stream::BoxStream;
use orrery_proto::fleet::v1::{
    CopyLogsRequest, ExecClient, ExecEvent, ExecInput, LoadsRequest, LoadsResponse, LogsResponse,
};
use tokio::sync::mpsc;

/// Asks other servers about their agents. The asking server has checked who wants to know.
#[async_trait]
pub trait Elsewhere: Send + Sync + 'static {
    /// The output of a copy.
    async fn logs(
        &self,
        server: &str,
        request: CopyLogsRequest,
    ) -> Result<BoxStream<'static, LogsResponse>, String>;

    /// A command beside a copy.
    async fn exec(
        &self,
        server: &str,
        first: ExecClient,
        words: mpsc::Receiver<ExecInput>,
    ) -> Result<BoxStream<'static, ExecEvent>, String>;

    /// What agents use.
    async fn loads(&self, server: &str, request: LoadsRequest) -> Result<LoadsResponse, String>;
}

/// For a server that is alone.
pub struct Nowhere;

#[async_trait]
impl Elsewhere for Nowhere {
    async fn logs(
        &self,
        server: &str,
        _: CopyLogsRequest,
    ) -> Result<BoxStream<'static, LogsResponse>, String> {
        Err(unreachable_server(server))
    }

    async fn exec(
        &self,
        server: &str,
        _: ExecClient,
        _: mpsc::Receiver<ExecInput>,
    ) -> Result<BoxStream<'static, ExecEvent>, String> {
        Err(unreachable_server(server))
    }

    async fn loads(&self, server: &str, _: LoadsRequest) -> Result<LoadsResponse, String> {
        Err(unreachable_server(server))
    }
}

fn unreachable_server(server: &str) -> String {
    format!("its agent is connected to the server at {server:?}, which this one does not reach")
}
