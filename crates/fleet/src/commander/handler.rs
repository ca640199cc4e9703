//! What a request means is decided by the server, behind this trait.
use crate::middleware::Peer;
use async_trait::async_trait;
use futures::stream::BoxStream;
use orrery_proto::fleet::v1::{ExecInput, commander_from_server, commander_to_server};
use tokio::sync::mpsc;

/// A request of a commander.
pub type Request = commander_to_server::Message;
/// An answer to it.
pub type Reply = commander_from_server::Message;

/// What a commander says to a request that is under way: a command that somebody types to.
pub type Words = mpsc::Receiver<ExecInput>;

/// The answer to a request.
pub enum Answer {
    One(Box<Reply>),
    /// Answers until the stream ends or the request is cancelled.
    Stream(BoxStream<'static, Reply>),
}

/// Answers requests.
#[async_trait]
pub trait CommandHandler: Send + Sync + 'static {
    async fn handle(&self, peer: &Peer, request: Request, words: Words) -> Answer;
}
