//! One connection of one commander, whatever carries it: a hello, then requests, many at once.
use super::handler::{Answer, CommandHandler, Reply, Request};
use crate::middleware::Peer;
use crate::middleware::hello::{Refusal, VERSION, check_commander};
use futures::stream::{BoxStream, StreamExt};
use orrery_proto::fleet::v1::{
    CommanderFromServer, CommanderHello, CommanderToServer, ExecInput, ServerHello,
    commander_to_server,
};
use orrery_proto::hub::v1::Error as WireError;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub type Inbound = BoxStream<'static, Result<CommanderToServer, String>>;
pub type Outbound = BoxStream<'static, CommanderFromServer>;

/// A connection that does not say hello within this time is closed.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Answers that wait for a commander to read them; then its requests wait.
const ANSWERS_WAITING_MAX: usize = 64;
/// Requests of one commander at once; a person's command line has a handful.
const REQUESTS_MAX: usize = 64;

/// Words to one request that wait for it. A command gives less credit than that, and what needs none
/// is rare.
const WORDS_WAITING_MAX: usize = 64;

/// Takes commanders in.
#[derive(Clone)]
pub struct CommanderConnections {
    handler: Arc<dyn CommandHandler>,
    names: Arc<Mutex<HashSet<String>>>,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl CommanderConnections {
    pub fn new(handler: Arc<dyn CommandHandler>, stop: CancellationToken) -> Self {
        Self { handler, names: Arc::default(), connections: TaskTracker::new(), stop }
    }

    /// Opens a connection, or says why not.
    pub async fn connect(&self, peer: Peer, mut inbound: Inbound) -> Result<Outbound, Refusal> {
        let hello = first_message(&mut inbound).await?;
        check_commander(&peer, &hello)?;
        let name = Name::take(&self.names, hello.name)?;
        let (answers, outbound) = mpsc::channel(ANSWERS_WAITING_MAX);
        let hello = ServerHello { version: VERSION.to_owned(), session_epoch: 0 };
        // The channel is new and has room.
        let _ = answers.try_send(answer(0, true, Some(Reply::Hello(hello))));
        let connection = Connection {
            handler: self.handler.clone(),
            peer,
            answers,
            running: HashMap::new(),
            requests: JoinSet::new(),
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
            _name: name,
        };
        let stop = self.stop.clone();
        self.connections.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection.run(inbound) => {}
            }
        });
        Ok(ReceiverStream::new(outbound).boxed())
    }

    /// How many are connected.
    pub fn len(&self) -> usize {
        self.names.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends when every connection has ended.
    pub async fn drained(&self) {
        self.connections.close();
        self.connections.wait().await;
    }
}

/// A name is taken as long as its connection lives.
struct Name {
    names: Arc<Mutex<HashSet<String>>>,
    name: String,
}

impl Name {
    fn take(names: &Arc<Mutex<HashSet<String>>>, name: String) -> Result<Self, Refusal> {
        if !names.lock().insert(name.clone()) {
            return Err(Refusal::NameTaken { name });
        }
        Ok(Self { names: names.clone(), name })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.names.lock().remove(&self.name);
    }
}

struct Connection {
    handler: Arc<dyn CommandHandler>,
    peer: Peer,
    answers: mpsc::Sender<CommanderFromServer>,
    running: HashMap<u64, Running>,
    requests: JoinSet<u64>,
    /// A request has one until its last answer is on its way: whoever was answered may ask again,
    /// whether or not the request has been tidied away.
    places: Arc<Semaphore>,
    _name: Name,
}

/// A request under way.
struct Running {
    task: AbortHandle,
    words: mpsc::Sender<ExecInput>,
}

impl Connection {
    /// Until the commander is done sending, or does not listen any more.
    async fn run(mut self, mut inbound: Inbound) {
        loop {
            let message = tokio::select! {
                () = self.answers.closed() => return,
                Some(ended) = self.requests.join_next() => {
                    if let Ok(id) = ended {
                        self.running.remove(&id);
                    }
                    continue;
                }
                message = inbound.next() => message,
            };
            match message {
                Some(Ok(message)) => self.take(message).await,
                Some(Err(_)) => return,
                None => break,
            }
        }
        // A half-closed commander still reads the answers to what it asked.
        while self.requests.join_next().await.is_some() {}
    }

    async fn take(&mut self, message: CommanderToServer) {
        let id = message.request_id;
        match message.message {
            Some(commander_to_server::Message::Cancel(_)) => {
                if let Some(running) = self.running.remove(&id) {
                    running.task.abort();
                }
            }
            Some(commander_to_server::Message::ExecInput(word)) => self.say(id, word).await,
            Some(commander_to_server::Message::Hello(_)) | None => {
                let problem = "this server does not know such a request; is the client newer?";
                self.refuse(id, tonic::Code::Unimplemented, problem).await;
            }
            Some(_) if self.running.contains_key(&id) => {
                let problem = format!("request id {id} is in use");
                self.refuse(id, tonic::Code::InvalidArgument, &problem).await;
            }
            Some(request) => match self.places.clone().try_acquire_owned() {
                Ok(place) => self.start(id, request, message.trace_parent, place),
                Err(_) => {
                    let problem = format!("more than {REQUESTS_MAX} requests at once");
                    self.refuse(id, tonic::Code::ResourceExhausted, &problem).await;
                }
            },
        }
    }

    fn start(
        &mut self,
        id: u64,
        request: Request,
        trace_parent: String,
        place: OwnedSemaphorePermit,
    ) {
        let (handler, peer) = (self.handler.clone(), self.peer.clone());
        let peer = Peer { trace_parent, ..peer };
        let answers = self.answers.clone();
        let (words, heard) = mpsc::channel(WORDS_WAITING_MAX);
        let task = self.requests.spawn(async move {
            let reply = handler.handle(&peer, request, heard).await;
            deliver(id, reply, &answers, place).await;
            id
        });
        self.running.insert(id, Running { task, words });
    }

    /// Hands a word to a request. Who says more than anybody asked for is cut off; what is said to a
    /// request that has ended is void.
    async fn say(&mut self, id: u64, word: ExecInput) {
        let Some(running) = self.running.get(&id) else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = running.words.try_send(word) {
            running.task.abort();
            self.running.remove(&id);
            let problem = "more was said than the command has room for";
            self.refuse(id, tonic::Code::ResourceExhausted, problem).await;
        }
    }

    async fn refuse(&self, id: u64, code: tonic::Code, message: &str) {
        let error = WireError {
            code: code as i32,
            reason: "BadRequest".into(),
            message: message.to_owned(),
            violations: Vec::new(),
        };
        // A commander that does not listen any more needs no refusal.
        let _ = self.answers.send(answer(id, true, Some(Reply::Error(error)))).await;
    }
}

async fn deliver(
    id: u64,
    reply: Answer,
    answers: &mpsc::Sender<CommanderFromServer>,
    place: OwnedSemaphorePermit,
) {
    let last = match reply {
        Answer::One(reply) => Some(*reply),
        Answer::Stream(mut replies) => {
            while let Some(reply) = replies.next().await {
                if answers.send(answer(id, false, Some(reply))).await.is_err() {
                    return;
                }
            }
            None
        }
    };
    // A commander that does not listen any more needs no answer.
    if let Ok(room) = answers.reserve().await {
        drop(place);
        room.send(answer(id, true, last));
    }
}

fn answer(request_id: u64, last: bool, message: Option<Reply>) -> CommanderFromServer {
    CommanderFromServer { request_id, last, message }
}

async fn first_message(inbound: &mut Inbound) -> Result<CommanderHello, Refusal> {
    let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.next()).await;
    match first {
        Ok(Some(Ok(CommanderToServer {
            message: Some(commander_to_server::Message::Hello(hello)),
            ..
        }))) => Ok(hello),
        Ok(_) | Err(_) => Err(Refusal::NoHello { expected: "CommanderHello" }),
    }
}

#[cfg(test)]
mod tests;
