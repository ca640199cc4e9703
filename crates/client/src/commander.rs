//! The commander connection: one stream, many requests, no retry.
use crate::endpoint::Endpoint;
use crate::error::{ApiError, Error};
use futures::StreamExt;
use orrery_proto::fleet::v1::commander_connection_client::CommanderConnectionClient;
use orrery_proto::fleet::v1::{
    CancelRequest, CommanderFromServer, CommanderHello, CommanderToServer, ExecEvent, ExecInput,
    ExecRequest, LogsRequest, LogsResponse, TopRequest, TopResponse, commander_from_server,
    commander_to_server, exec_input,
};
use orrery_proto::hub::v1 as hub;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

type Request = commander_to_server::Message;
type Reply = commander_from_server::Message;

/// Requests that wait to be sent, and answers of one request that wait to be read.
const WAITING_MAX: usize = 64;
/// A page of a list, with room to spare.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A connection to a server. Requests run side by side on it.
pub struct Commander {
    requests: mpsc::Sender<CommanderToServer>,
    shared: Arc<Shared>,
    next_id: AtomicU64,
    /// Reads the answers; dropped with the connection.
    _reading: JoinSet<()>,
}

struct Shared {
    server: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, mpsc::Sender<CommanderFromServer>>,
    /// Why the connection ended.
    lost: Option<String>,
}

impl Commander {
    /// Connects and says hello, under a name that nobody else has. It is tried once.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, Error> {
        let hello = CommanderHello { name: unique_name(), version: crate::VERSION.to_owned() };
        Self::connect_with(endpoint, hello).await
    }

    /// The same with a hello of the caller's.
    pub async fn connect_with(endpoint: &Endpoint, hello: CommanderHello) -> Result<Self, Error> {
        let server = endpoint.server();
        let channel = endpoint.connect().await?;
        let mut client =
            CommanderConnectionClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (requests, outgoing) = mpsc::channel(WAITING_MAX);
        // The channel is new and has room.
        let _ = requests.try_send(message(0, Request::Hello(hello)));
        let response =
            client.connect_commander(endpoint.request(ReceiverStream::new(outgoing))).await;
        let response = response.map_err(|status| endpoint.failed(&status))?;
        let mut incoming = response.into_inner();
        match incoming.next().await {
            Some(Ok(CommanderFromServer { message: Some(Reply::Hello(_)), .. })) => {}
            Some(Err(status)) => return Err(endpoint.failed(&status)),
            Some(Ok(_)) => return Err(Error::Unexpected),
            None => {
                let cause = "the server closed it".to_owned();
                return Err(Error::ConnectionLost { server, cause });
            }
        }
        let shared = Arc::new(Shared { server, state: Mutex::default() });
        let mut reading = JoinSet::new();
        reading.spawn(read(shared.clone(), incoming));
        let next_id = AtomicU64::new(1);
        Ok(Self { requests, shared, next_id, _reading: reading })
    }

    /// Whether the connection has ended; another one is had by connecting again.
    pub fn is_lost(&self) -> bool {
        self.shared.state.lock().lost.is_some()
    }

    pub async fn discover(&self) -> Result<hub::DiscoverResponse, Error> {
        match self.ask(Request::Discover(hub::DiscoverRequest {})).await? {
            Reply::Discover(response) => Ok(response),
            other => unexpected(other),
        }
    }

    pub async fn get(&self, request: hub::GetRequest) -> Result<hub::GetResponse, Error> {
        match self.ask(Request::Get(request)).await? {
            Reply::Get(response) => Ok(response),
            other => unexpected(other),
        }
    }

    /// The versions of an object, the latest first.
    pub async fn list_versions(
        &self,
        request: hub::ListVersionsRequest,
    ) -> Result<hub::ListVersionsResponse, Error> {
        match self.ask(Request::ListVersions(request)).await? {
            Reply::ListVersions(response) => Ok(response),
            other => unexpected(other),
        }
    }

    /// One page of a list.
    pub async fn list(&self, request: hub::ListRequest) -> Result<hub::ListResponse, Error> {
        match self.ask(Request::List(request)).await? {
            Reply::List(response) => Ok(response),
            other => unexpected(other),
        }
    }

    pub async fn apply(&self, request: hub::ApplyRequest) -> Result<hub::ApplyResponse, Error> {
        match self.ask(Request::Apply(request)).await? {
            Reply::Apply(response) => Ok(response),
            other => unexpected(other),
        }
    }

    pub async fn delete(&self, request: hub::DeleteRequest) -> Result<hub::DeleteResponse, Error> {
        match self.ask(Request::Delete(request)).await? {
            Reply::Delete(response) => Ok(response),
            other => unexpected(other),
        }
    }

    /// Changes until the caller drops the replies or the server ends them.
    pub async fn watch(&self, request: hub::WatchRequest) -> Result<Watch, Error> {
        Ok(Watch { replies: self.send(Request::Watch(request)).await? })
    }

    /// Everything that the server keeps, in parts.
    pub async fn backup(&self) -> Result<Backup, Error> {
        Ok(Backup { replies: self.send(Request::Backup(hub::BackupRequest {})).await? })
    }

    /// The output of copies until there is no more, or the caller drops it.
    pub async fn logs(&self, request: LogsRequest) -> Result<Logs, Error> {
        Ok(Logs { replies: self.send(Request::Logs(request)).await? })
    }

    /// Begins a command beside a copy.
    pub async fn exec(&self, request: ExecRequest) -> Result<Exec, Error> {
        Ok(Exec { replies: self.send(Request::Exec(request)).await? })
    }

    /// What nodes or copies use at the moment.
    pub async fn top(&self, request: TopRequest) -> Result<TopResponse, Error> {
        match self.ask(Request::Top(request)).await? {
            Reply::Top(response) => Ok(response),
            other => unexpected(other),
        }
    }

    /// Seals everything secret with another key: a new one, or one that every server holds already.
    pub async fn rotate_key(&self, key: String) -> Result<hub::RotateKeyResponse, Error> {
        match self.ask(Request::RotateKey(hub::RotateKeyRequest { key })).await? {
            Reply::RotateKey(response) => Ok(response),
            other => unexpected(other),
        }
    }

    /// What is sealed with which key.
    pub async fn sealing_status(&self) -> Result<hub::SealingStatus, Error> {
        match self.ask(Request::SealingStatus(hub::SealingStatusRequest {})).await? {
            Reply::SealingStatus(status) => Ok(status),
            other => unexpected(other),
        }
    }

    /// The figures of the server, in the text that Prometheus reads.
    pub async fn metrics(&self) -> Result<String, Error> {
        match self.ask(Request::Metrics(hub::MetricsRequest {})).await? {
            Reply::Metrics(response) => Ok(response.text),
            other => unexpected(other),
        }
    }

    async fn ask(&self, request: Request) -> Result<Reply, Error> {
        let mut replies = self.send(request).await?;
        replies.next().await?.ok_or(Error::Unexpected)
    }

    async fn send(&self, request: Request) -> Result<Replies, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        {
            let mut state = self.shared.state.lock();
            if state.lost.is_some() {
                return Err(self.shared.lost(&state));
            }
            state.waiting.insert(id, sender);
        }
        let requests = self.requests.clone();
        if self.requests.send(message(id, request)).await.is_err() {
            return Err(self.shared.lost(&self.shared.state.lock()));
        }
        Ok(Replies { id, receiver, requests, shared: self.shared.clone(), ended: false })
    }
}

/// The answers to one request. Dropping it cancels the request.
pub struct Replies {
    id: u64,
    receiver: mpsc::Receiver<CommanderFromServer>,
    requests: mpsc::Sender<CommanderToServer>,
    shared: Arc<Shared>,
    ended: bool,
}

impl Replies {
    /// The next answer; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Reply>, Error> {
        if self.ended {
            return Ok(None);
        }
        let Some(reply) = self.receiver.recv().await else {
            self.ended = true;
            return Err(self.shared.lost(&self.shared.state.lock()));
        };
        self.ended = reply.last;
        match reply.message {
            Some(Reply::Error(hub::Error { reason, message, violations, .. })) => {
                Err(ApiError { reason, message, violations }.into())
            }
            other => Ok(other),
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.shared.state.lock().waiting.remove(&self.id);
        if !self.ended {
            // A full channel means that the connection is going down anyway.
            let _ = self.requests.try_send(message(self.id, Request::Cancel(CancelRequest {})));
        }
    }
}

/// The changes of a watch.
pub struct Watch {
    replies: Replies,
}

impl Watch {
    pub async fn next(&mut self) -> Result<Option<hub::WatchResponse>, Error> {
        match self.replies.next().await? {
            Some(Reply::Watch(event)) => Ok(Some(event)),
            Some(other) => unexpected(other),
            None => Ok(None),
        }
    }
}

/// The parts of a backup.
pub struct Backup {
    replies: Replies,
}

impl Backup {
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.replies.next().await? {
            Some(Reply::Backup(chunk)) => Ok(Some(chunk.data)),
            Some(other) => unexpected(other),
            None => Ok(None),
        }
    }
}

/// The output of copies.
pub struct Logs {
    replies: Replies,
}

impl Logs {
    pub async fn next(&mut self) -> Result<Option<LogsResponse>, Error> {
        match self.replies.next().await? {
            Some(Reply::Logs(piece)) => Ok(Some(piece)),
            Some(other) => unexpected(other),
            None => Ok(None),
        }
    }
}

/// A command that runs beside a copy. Dropping it ends the command.
pub struct Exec {
    replies: Replies,
}

/// Says things to a command, from wherever what is typed comes from. No more data is to be sent than
/// the command has given credit for.
#[derive(Clone)]
pub struct ExecVoice {
    id: u64,
    requests: mpsc::Sender<CommanderToServer>,
}

impl Exec {
    /// What the command says next; nothing after its end.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, Error> {
        match self.replies.next().await? {
            Some(Reply::Exec(response)) => Ok(response.event),
            Some(other) => unexpected(other),
            None => Ok(None),
        }
    }

    pub fn voice(&self) -> ExecVoice {
        ExecVoice { id: self.replies.id, requests: self.replies.requests.clone() }
    }
}

impl ExecVoice {
    /// False when nobody hears it any more.
    pub async fn say(&self, word: exec_input::Message) -> bool {
        let word = ExecInput { message: Some(word) };
        self.requests.send(message(self.id, Request::ExecInput(word))).await.is_ok()
    }
}

impl Shared {
    fn lost(&self, state: &State) -> Error {
        let cause = state.lost.clone().unwrap_or_else(|| "the server closed it".to_owned());
        Error::ConnectionLost { server: self.server.clone(), cause }
    }
}

/// Hands each answer to the request that it belongs to, until the connection ends.
async fn read(shared: Arc<Shared>, mut incoming: tonic::Streaming<CommanderFromServer>) {
    let cause = loop {
        match incoming.next().await {
            Some(Ok(reply)) => deliver(&shared, reply).await,
            Some(Err(status)) => {
                break match std::error::Error::source(&status) {
                    Some(source) => Error::root_cause(source),
                    None => status.message().to_owned(),
                };
            }
            None => break "the server closed it".to_owned(),
        }
    };
    let mut state = shared.state.lock();
    state.lost = Some(cause);
    state.waiting.clear();
}

async fn deliver(shared: &Shared, reply: CommanderFromServer) {
    let (id, last) = (reply.request_id, reply.last);
    let receiver = shared.state.lock().waiting.get(&id).cloned();
    // Nobody waits for what was cancelled.
    if let Some(receiver) = receiver {
        let _ = receiver.send(reply).await;
    }
    if last {
        shared.state.lock().waiting.remove(&id);
    }
}

fn message(request_id: u64, message: Request) -> CommanderToServer {
    let trace_parent = orrery_trace::current();
    CommanderToServer { request_id, trace_parent, message: Some(message) }
}

fn unexpected<T>(reply: Reply) -> Result<T, Error> {
    // Not what it is: it may hold a secret.
    drop(reply);
    tracing::debug!("an answer to another question");
    Err(Error::Unexpected)
}

/// Unique among all commanders, and still telling where it comes from.
fn unique_name() -> String {
    format!("cli-{}", uuid::Uuid::new_v4().simple())
}
