//! The output of copies, on its way from their agents to whoever reads it.
//!
//! ```text
//!   agent's files --> chunk, chunk, ... --> channel of one stream --> reader
//!                 <-- credit, one for each chunk that was read <--
//! ```
//! The agent has at most [`CREDIT`] chunks on their way that were not read. A stream's channel has
//! room for all of them, so taking one in never waits, and nothing is dropped here: what is not read
//! stays in the agent's files, and is there until newer output needs the room.
use crate::middleware::Senders;
use crate::middleware::senders::Session;
use futures::stream::{self, BoxStream, StreamExt};
use orrery_proto::fleet::v1::{
    LogCancel, LogChunk, LogCredit, LogEnd, LogRequest, ServerMessage, server_message::Message,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Chunks of one stream on their way; with 32 KiB each this is half a megabyte per reader at most,
/// and enough that a reader on a fast network does not wait for each of them.
pub const CREDIT: u32 = 16;

/// The room for all chunks that may be on their way, and for the end.
const ROOM: usize = 17;

/// One piece of output, or why there is no more.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Data(LogChunk),
    /// The agent cannot read it.
    Problem(String),
    /// The agent is not connected, or not any more; it may be back soon.
    Away(String),
}

/// The streams that are open.
#[derive(Debug)]
pub struct Logs {
    senders: Arc<Senders>,
    next: AtomicU64,
    streams: Mutex<HashMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    agent: String,
    epoch: i64,
    output: mpsc::Sender<Option<Output>>,
}

impl Logs {
    pub fn new(senders: Arc<Senders>) -> Self {
        Self { senders, next: AtomicU64::new(0), streams: Mutex::default() }
    }

    /// The output of a copy on this agent. The request says what of it; the stream is named here.
    /// Dropping it ends it.
    pub fn open(self: &Arc<Self>, agent: &str, request: LogRequest) -> BoxStream<'static, Output> {
        let Some(session) = self.senders.session(agent) else { return absent(agent) };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // The epoch keeps streams of a server before its restart apart from those after it.
        let name = format!("{}-{number}", session.epoch);
        let (output, received) = mpsc::channel(ROOM);
        let open = Open { agent: agent.to_owned(), epoch: session.epoch, output };
        self.streams.lock().insert(name.clone(), open);
        let reading = Reading { logs: self.clone(), name: name.clone(), session, received };
        // The session may have ended before the stream was known; then nobody would ever end it.
        let current = self.senders.session(agent).map(|session| session.epoch);
        if current != Some(reading.session.epoch) {
            return absent(agent);
        }
        reading.tell(Message::Log(LogRequest { stream: name, credit: CREDIT, ..request }));
        stream::unfold(Some(reading), Reading::next).boxed()
    }

    /// An agent sent a piece of output.
    pub fn chunk(&self, agent: &str, chunk: LogChunk) {
        let stream = chunk.stream.clone();
        self.deliver(agent, &stream, Some(Output::Data(chunk)));
    }

    /// An agent has no more output.
    pub fn end(&self, agent: &str, end: LogEnd) {
        let problem = Some(end.problem).filter(|problem| !problem.is_empty());
        if let Some(problem) = problem {
            self.deliver(agent, &end.stream, Some(Output::Problem(problem)));
        }
        self.deliver(agent, &end.stream, None);
        self.streams.lock().retain(|name, open| *name != end.stream || open.agent != agent);
    }

    /// A session of an agent is over, and with it all its streams.
    pub fn lost(&self, agent: &str, epoch: i64) {
        let mut streams = self.streams.lock();
        streams.retain(|_, open| open.agent != agent || epoch < open.epoch);
    }

    fn deliver(&self, agent: &str, stream: &str, output: Option<Output>) {
        let mut streams = self.streams.lock();
        let Some(open) = streams.get(stream).filter(|open| open.agent == agent) else { return };
        // Only an agent that sends more than it may fills the channel; its stream ends.
        if open.output.try_send(output).is_err() {
            streams.remove(stream);
        }
    }
}

fn absent(agent: &str) -> BoxStream<'static, Output> {
    let problem = format!("node {agent:?} is not connected");
    stream::iter([Output::Away(problem)]).boxed()
}

/// The reading end of a stream.
struct Reading {
    logs: Arc<Logs>,
    name: String,
    session: Session,
    received: mpsc::Receiver<Option<Output>>,
}

impl Reading {
    /// The next piece; when the session of the agent ends first, that is the last.
    async fn next(reading: Option<Self>) -> Option<(Output, Option<Self>)> {
        let mut reading = reading?;
        match reading.received.recv().await {
            Some(Some(output)) => {
                let stream = reading.name.clone();
                reading.tell(Message::LogCredit(LogCredit { stream, chunks: 1 }));
                Some((output, Some(reading)))
            }
            Some(None) => None,
            None => Some((Output::Away("the connection of its agent ended".to_owned()), None)),
        }
    }

    fn tell(&self, message: Message) {
        self.session.outbox.push([ServerMessage { message: Some(message) }]);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.logs.streams.lock().remove(&self.name).is_some() {
            self.tell(Message::LogCancel(LogCancel { stream: self.name.clone() }));
        }
    }
}

#[cfg(test)]
mod tests;
