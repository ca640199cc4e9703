//! What a request means is decided by the server, behind this trait.
use crate::middleware::Peer;
use async_trait::async_trait;
use futures::stream::BoxStream;
use orrery_proto::fleet::v1::{commander_from_server, commander_to_server};

/// A request of a commander.
pub type Request = commander_to_server::Message;
/// An answer to it.
pub type Reply = commander_from_server::Message;

/// The answer to a request.
pub enum Answer {
    One(Box<Reply>),
    /// Answers until the stream ends or the request is cancelled.
    Stream(BoxStream<'static, Reply>),
}

/// Answers requests.
#[async_trait]
pub trait CommandHandler: Send + Sync + 'static {
    async fn handle(&self, peer: &Peer, request: Request) -> Answer;
}
