//! Sending the output of instances to those who ask for it.
//!
//! Each stream is a task of its own that reads the files of one instance and sends as much as the
//! reader has paid for. It never holds up the agent or the program: what is not sent stays in the
//! files until newer output takes its room.
mod container;
pub(crate) mod folder;
mod order;
mod position;
mod reader;
mod source;
mod timed;
pub(crate) mod times;

use crate::clock;
use crate::model::InstanceId;
use folder::LOG_FOLDER;
use order::Order;
use orrery_proto::fleet::v1::{LogChunk, LogEnd, LogRequest, ToServer, to_server};
use position::Position;
use reader::Piece;
use source::Source;
use std::{collections::HashMap, io, path::PathBuf, sync::Arc, time::Duration};
use timed::Since;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

/// Bytes of one chunk; large enough that the frame around it does not matter.
const CHUNK_BYTES: usize = 32 << 10;

/// How often a followed log is looked at. Nobody reads faster than that, and a look costs three
/// system calls.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The file of a container's log, in the folder of the log of its instance.
pub(crate) const CONTAINER_LOG: &str = "container";

/// Streams at once. People open a handful; more is a mistake somewhere, and each costs a task.
const STREAMS_MAX: usize = 256;

/// The streams of one agent.
pub(crate) struct Logs {
    instances: PathBuf,
    to_server: mpsc::Sender<ToServer>,
    open: HashMap<String, Open>,
    tasks: JoinSet<()>,
}

struct Open {
    credit: Arc<Semaphore>,
    task: AbortHandle,
}

impl Logs {
    /// For the instances that have their folders in this one.
    pub(crate) fn new(instances: PathBuf, to_server: mpsc::Sender<ToServer>) -> Self {
        Self { instances, to_server, open: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Ends all streams: those who read them are gone with the connection.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.tasks.abort_all();
    }

    pub(crate) fn begin(&mut self, request: LogRequest) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|_, open| !open.task.is_finished());
        let credit = Arc::new(Semaphore::new(usize::try_from(request.credit).unwrap_or_default()));
        let stream = Stream {
            name: request.stream.clone(),
            credit: credit.clone(),
            to_server: self.to_server.clone(),
        };
        let name = request.stream.clone();
        let refusal = self.open.len() >= STREAMS_MAX;
        let folder = InstanceId::new(&request.id).map(|id| self.instances.join(id.as_str()));
        let task = self.tasks.spawn(async move {
            let outcome = match folder {
                Some(_) if refusal => Err(io::Error::other("too many read logs of this agent")),
                Some(folder) => stream.send(folder, &request).await,
                None => Err(io::Error::other("no instance can have this id")),
            };
            stream.end(outcome.err().map(|error| error.to_string())).await;
        });
        self.open.insert(name, Open { credit, task });
    }

    pub(crate) fn pay(&mut self, stream: &str, chunks: u32) {
        if let Some(open) = self.open.get(stream) {
            open.credit.add_permits(usize::try_from(chunks).unwrap_or_default());
        }
    }

    pub(crate) fn cancel(&mut self, stream: &str) {
        if let Some(open) = self.open.remove(stream) {
            open.task.abort();
        }
    }
}

/// One stream, as its task sees it.
struct Stream {
    name: String,
    credit: Arc<Semaphore>,
    to_server: mpsc::Sender<ToServer>,
}

impl Stream {
    async fn send(&self, folder: PathBuf, request: &LogRequest) -> io::Result<()> {
        let order = Order::of(request, clock::unix_now()).map_err(io::Error::other)?;
        let (logs, start) = (folder.join(LOG_FOLDER), order.start);
        let mut source = blocking(move || Source::open(&logs, start)).await?;
        if order.positions && !self.send_piece(&order, Piece::default(), source.position()?).await {
            return Ok(());
        }
        let mut since = Since::new(order.since_nanos);
        let mut passed_over = false;
        loop {
            let (back, look) = blocking(move || {
                let look = source.next(CHUNK_BYTES)?;
                Ok((source, look))
            })
            .await?;
            source = back;
            let piece = since.pass(look.piece);
            passed_over |= !look.ended && piece.data.is_empty();
            let news = !piece.data.is_empty() || look.ended && passed_over && order.positions;
            if news && !self.send_piece(&order, piece, source.position()?).await {
                return Ok(());
            }
            passed_over &= !news;
            if look.ended && (!order.follow || !tokio::fs::try_exists(&folder).await?) {
                return Ok(());
            }
            if look.ended {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Waits until the reader has room; false when there is no reader any more.
    async fn send_piece(&self, order: &Order, piece: Piece, position: Position) -> bool {
        let Ok(credit) = self.credit.acquire().await else { return false };
        credit.forget();
        let Piece { data, gap, marks } = piece;
        let marks = if order.times { marks } else { Vec::new() };
        let chunk = LogChunk {
            stream: self.name.clone(),
            data,
            gap,
            times: marks.into_iter().map(timed::Mark::on_the_wire).collect(),
            position: if order.positions { position.to_string() } else { String::new() },
        };
        self.say(to_server::Message::LogChunk(chunk)).await
    }

    async fn end(&self, problem: Option<String>) {
        let problem = problem.unwrap_or_default();
        let end = LogEnd { stream: self.name.clone(), problem };
        self.say(to_server::Message::LogEnd(end)).await;
    }

    async fn say(&self, message: to_server::Message) -> bool {
        self.to_server.send(ToServer { message: Some(message) }).await.is_ok()
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
