//! One connection to the server, from registration to loss.
use crate::data::DataProvider;
use crate::run::Options;
use crate::wire::{CAPABILITIES, Kind, PROTOCOL_VERSION, request};
use crate::work::{Answer, Running, Work};
use orrery_proto::infragrpc::driver_side::{HeartbeatResp, RegisterationResp, Response};
use orrery_proto::infragrpc::infragrpc_client::InfragrpcClient;
use orrery_proto::infragrpc::{DriverSide, McMside};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// Answers that wait for the transport.
const OUTBOX_MESSAGES: usize = 64;
/// From the opened connection to the server's first message.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(20);
/// A server that said how often its heart beats is gone after so many beats without one.
const BEATS_MISSED_MAX: u32 = 3;
/// A message with the names of ten thousand machines fits.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error("cannot register: {}", .0.message())]
    Open(Status),
    #[error("the server refuses this driver: {}", .0.message())]
    Refused(Status),
    #[error("the connection broke: {}", .0.message())]
    Broken(Status),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server said nothing for {0:?}")]
    Silent(Duration),
}

pub(crate) struct Conversation<'a> {
    options: &'a Options,
    work: &'a Work,
    data: &'a DataProvider,
    outbox: mpsc::Sender<DriverSide>,
    /// Those who wait to send an answer; they end with the connection, the operations do not.
    waiters: JoinSet<()>,
    open: Arc<Mutex<HashMap<i32, Running>>>,
}

/// Registers and serves until the connection is lost. Returns `Ok` when `stop` was asked for and
/// everything under way is answered.
pub(crate) async fn hold(
    options: &Options,
    work: &Work,
    data: &DataProvider,
    channel: Channel,
    stop: &CancellationToken,
) -> Result<(), Lost> {
    let (outbox, messages) = mpsc::channel(OUTBOX_MESSAGES);
    let mut client =
        InfragrpcClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let opened = timeout(REGISTER_TIMEOUT, client.register(ReceiverStream::new(messages)));
    let opened = opened.await.map_err(|_| Lost::Silent(REGISTER_TIMEOUT))?.map_err(Lost::Open)?;
    let mut incoming = opened.into_inner();
    let first = next(&mut incoming, Some(REGISTER_TIMEOUT)).await?;
    data.connect(channel, first.session_token.clone(), first.protocol_version >= 1);
    let waiters = JoinSet::new();
    let mut conversation =
        Conversation { options, work, data, outbox, waiters, open: Arc::default() };
    let silence = silence_of(&first);
    conversation.take(first).await;
    let ended = conversation.converse(&mut incoming, silence, stop).await;
    data.disconnect();
    ended
}

/// How long the server may say nothing; one of the first contract may for ever.
fn silence_of(first: &McMside) -> Option<Duration> {
    let beat = u64::try_from(first.heartbeat_interval_ms).ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(beat) * BEATS_MISSED_MAX)
}

async fn next(
    incoming: &mut Streaming<McMside>,
    silence: Option<Duration>,
) -> Result<McMside, Lost> {
    let message = match silence {
        None => incoming.message().await,
        Some(limit) => timeout(limit, incoming.message()).await.map_err(|_| Lost::Silent(limit))?,
    };
    match message {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(Lost::Closed),
        Err(status) if refuses(status.code()) => Err(Lost::Refused(status)),
        Err(status) => Err(Lost::Broken(status)),
    }
}

fn refuses(code: Code) -> bool {
    matches!(code, Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument)
}

impl Conversation<'_> {
    async fn converse(
        &mut self,
        incoming: &mut Streaming<McMside>,
        silence: Option<Duration>,
        stop: &CancellationToken,
    ) -> Result<(), Lost> {
        let mut leaving = false;
        loop {
            tokio::select! {
                message = next(incoming, silence) => self.take(message?).await,
                () = stop.cancelled(), if !leaving => {
                    leaving = true;
                    self.send(0, "unregister", None).await;
                }
                () = self.all_answered(), if leaving => return Ok(()),
            }
        }
    }

    /// Completes when every operation of this connection has its answer.
    async fn all_answered(&mut self) {
        while self.waiters.join_next().await.is_some() {}
    }

    /// Whatever the server sends, the driver goes on.
    async fn take(&mut self, message: McMside) {
        while self.waiters.try_join_next().is_some() {}
        let id = message.operation_id;
        match message.operation_type.as_str() {
            "register" => self.send(id, "register", Some(self.registration())).await,
            "heartbeat" => {
                let running = i32::try_from(self.work.running()).unwrap_or(i32::MAX);
                let beat = Response::Heartbeat(HeartbeatResp { running });
                self.send(id, "heartbeat", Some(beat)).await;
            }
            "changed" => self.data.changed(&message.changes),
            "cancel" => self.cancel(id),
            name => match Kind::parse(name) {
                Some(kind) => self.begin(kind, message).await,
                None => tracing::warn!(operation = name, "the server asks for what I do not know"),
            },
        }
    }

    fn cancel(&self, id: i32) {
        if let Some(running) = self.open.lock().remove(&id) {
            running.give_up();
        }
    }

    async fn begin(&mut self, kind: Kind, message: McMside) {
        let id = message.operation_id;
        let name = message.operation_type.clone();
        let request = request(message, self.data.clone(), Instant::now());
        match self.work.begin(kind, request) {
            Answer::Now(response) => self.send(id, &name, Some(response)).await,
            Answer::Later(running) => {
                self.open.lock().insert(id, running.clone());
                let (outbox, open) = (self.outbox.clone(), self.open.clone());
                self.waiters.spawn(async move {
                    let response = Some(running.outcome.await);
                    open.lock().remove(&id);
                    let answer = DriverSide { operation_id: id, operation_type: name, response };
                    // A closed outbox is a lost connection, which the conversation notices itself.
                    outbox.send(answer).await.ok();
                });
            }
        }
    }

    fn registration(&self) -> Response {
        let it = self.options;
        Response::RegisterResp(RegisterationResp {
            name: it.name.clone(),
            group: it.group.clone(),
            kind: it.kind.clone(),
            version: it.version.clone(),
            protocol_version: PROTOCOL_VERSION,
            capabilities: CAPABILITIES.map(String::from).to_vec(),
            instance_id: it.instance.clone(),
            max_concurrent: i32::try_from(it.max_concurrent).unwrap_or(i32::MAX),
            program_version: it.program_version.clone(),
        })
    }

    async fn send(&self, id: i32, name: &str, response: Option<Response>) {
        let message = DriverSide { operation_id: id, operation_type: name.into(), response };
        // A closed outbox is a lost connection, which the next read notices.
        self.outbox.send(message).await.ok();
    }
}
