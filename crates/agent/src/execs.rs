//! Commands that people run beside instances.
//!
//! ```text
//!   server --ExecOrder--> queue of one command --> task --> runtime
//!          <-ExecOutput-------------------------- task <-- what it writes
//! ```
//! Both directions are paid for: the agent sends no more output than the reader has room for, and
//! gets no more input than it has asked for. So nobody waits for anybody but their own peer.
use crate::model::InstanceId;
use crate::runtime::Runtime;
use crate::runtime::exec::{Control, ExecRequest, Executing, Written};
use futures::StreamExt;
use orrery_proto::fleet::v1::{
    ExecEnd, ExecEvent, ExecInput, ExecOrder, ExecOutput, ExecStart, ToServer, exec_event,
    exec_input, to_server,
};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Commands at once. People run a handful; more is a mistake somewhere.
const COMMANDS_MAX: usize = 64;

/// Pieces of input that may be on their way; they are as large as their sender likes, within the
/// limit of a message.
const INPUT_CREDIT: u32 = 16;

/// Words to a command that wait for it: all input that is paid for, and a few others.
const WAITING_MAX: usize = 64;

/// Bytes of one piece of output.
const PIECE_BYTES: usize = 32 << 10;

/// The commands of one agent.
pub(crate) struct Execs {
    runtime: Arc<dyn Runtime>,
    to_server: mpsc::Sender<ToServer>,
    open: HashMap<String, Open>,
    tasks: JoinSet<()>,
}

struct Open {
    words: mpsc::Sender<ExecInput>,
    task: AbortHandle,
}

impl Execs {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, to_server: mpsc::Sender<ToServer>) -> Self {
        Self { runtime, to_server, open: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Ends all commands: those who ran them are gone with the connection.
    pub(crate) fn forget(&mut self) {
        // Their tasks see that nobody speaks to them any more, and end what they run.
        self.open.clear();
    }

    pub(crate) fn take(&mut self, order: ExecOrder) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|_, open| !open.task.is_finished());
        if let Some(start) = order.start {
            self.begin(&order.stream, &order.id, start);
        }
        let Some(open) = self.open.get(&order.stream) else { return };
        for word in order.input {
            // Who sends more than was asked for is not listened to any more.
            if open.words.try_send(word).is_err() {
                self.open.remove(&order.stream);
                return;
            }
        }
    }

    fn begin(&mut self, stream: &str, id: &str, start: ExecStart) {
        let (words, heard) = mpsc::channel(WAITING_MAX);
        let voice = Voice { stream: stream.to_owned(), to_server: self.to_server.clone() };
        let refusal =
            (COMMANDS_MAX <= self.open.len()).then_some("too many commands on this agent");
        let (runtime, id) = (self.runtime.clone(), InstanceId::new(id));
        let task = self.tasks.spawn(async move {
            let outcome = match (id, refusal) {
                (_, Some(refusal)) => Err(refusal.to_owned()),
                (None, None) => Err("no instance can have this id".to_owned()),
                (Some(id), None) => run(&*runtime, &id, start, heard, &voice).await,
            };
            voice.end(outcome).await;
        });
        self.open.insert(stream.to_owned(), Open { words, task });
    }
}

/// Speaks for one command.
#[derive(Clone)]
struct Voice {
    stream: String,
    to_server: mpsc::Sender<ToServer>,
}

impl Voice {
    async fn say(&self, event: exec_event::Message) -> bool {
        let event = Some(ExecEvent { message: Some(event) });
        let output = ExecOutput { stream: self.stream.clone(), event };
        let message = Some(to_server::Message::ExecOutput(output));
        self.to_server.send(ToServer { message }).await.is_ok()
    }

    async fn end(&self, outcome: Result<i32, String>) {
        let end = match outcome {
            Ok(code) => ExecEnd { exit_code: Some(code), problem: String::new() },
            Err(problem) => ExecEnd { exit_code: None, problem },
        };
        self.say(exec_event::Message::End(end)).await;
    }
}

async fn run(
    runtime: &dyn Runtime,
    id: &InstanceId,
    start: ExecStart,
    heard: mpsc::Receiver<ExecInput>,
    voice: &Voice,
) -> Result<i32, String> {
    if start.command.is_empty() {
        return Err("there is no command".to_owned());
    }
    let request = ExecRequest {
        command: start.command,
        stdin: start.stdin,
        tty: start.tty.then(|| start.size.unwrap_or_default()),
    };
    let executing = runtime.exec(id, request).await.map_err(|error| error.to_string())?;
    let Executing { input, output, mut control } = executing;
    // A command that does not read must be able to write meanwhile. Dropped with the conversation.
    let mut feeding = JoinSet::new();
    let input = input.map(|input| {
        let (typed, waiting) = mpsc::channel(WAITING_MAX);
        feeding.spawn(feed(input, waiting, voice.clone()));
        typed
    });
    let mut conversation =
        Conversation { heard, voice, input, credit: 0, output: Some(output), over: false };
    conversation.run(&mut *control).await;
    if conversation.over {
        control.kill().await;
        return Err("nobody listens to it any more".to_owned());
    }
    control.ended().await.map_err(|error| error.to_string())
}

/// Hands what is typed to a command, and asks for more as it is read.
async fn feed(
    mut input: Pin<Box<dyn AsyncWrite + Send>>,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    voice: Voice,
) {
    voice.say(exec_event::Message::Credit(INPUT_CREDIT)).await;
    while let Some(data) = waiting.recv().await {
        if input.write_all(&data).await.is_err() || input.flush().await.is_err() {
            // It reads no more. What it writes still matters, and what is typed is dropped.
            waiting.close();
        }
        voice.say(exec_event::Message::Credit(1)).await;
    }
    // The end of what is typed; a failure means that nobody reads it.
    let _ = input.shutdown().await;
}

/// One command and whoever runs it.
struct Conversation<'a> {
    heard: mpsc::Receiver<ExecInput>,
    voice: &'a Voice,
    /// What is typed; dropping it is the end of it.
    input: Option<mpsc::Sender<Vec<u8>>>,
    /// Pieces of output that may be sent.
    credit: u32,
    output: Option<futures::stream::BoxStream<'static, std::io::Result<Written>>>,
    /// Nobody wants it any more.
    over: bool,
}

impl Conversation<'_> {
    /// Until the command has no more to write, or nobody wants to know.
    async fn run(&mut self, control: &mut dyn Control) {
        while self.output.is_some() && !self.over {
            tokio::select! {
                word = self.heard.recv() => self.hear(word, control).await,
                piece = next(&mut self.output), if 0 < self.credit => self.wrote(piece).await,
            }
        }
    }

    async fn hear(&mut self, word: Option<ExecInput>, control: &mut dyn Control) {
        match word.and_then(|word| word.message) {
            Some(exec_input::Message::Data(data)) => self.typed(data),
            Some(exec_input::Message::End(_)) => self.input = None,
            Some(exec_input::Message::Resize(size)) => {
                if let Err(error) = control.resize(size).await {
                    tracing::debug!(%error, "cannot resize the terminal of a command");
                }
            }
            Some(exec_input::Message::Credit(more)) => {
                self.credit = self.credit.saturating_add(more)
            }
            Some(exec_input::Message::Cancel(_)) | None => self.over = true,
        }
    }

    /// Who types more than there is credit for is cut off.
    fn typed(&mut self, data: Vec<u8>) {
        if let Some(input) = &self.input
            && let Err(mpsc::error::TrySendError::Full(_)) = input.try_send(data)
        {
            self.over = true;
        }
    }

    async fn wrote(&mut self, piece: Option<std::io::Result<Written>>) {
        let (data, make): (_, Stream) = match piece {
            Some(Ok(Written::Out(data))) => (data, exec_event::Message::Stdout),
            Some(Ok(Written::Err(data))) => (data, exec_event::Message::Stderr),
            Some(Err(_)) | None => {
                self.output = None;
                return;
            }
        };
        for piece in data.chunks(PIECE_BYTES) {
            self.credit = self.credit.saturating_sub(1);
            self.over |= !self.voice.say(make(piece.to_vec())).await;
        }
    }
}

/// Says which of its two outputs a command wrote.
type Stream = fn(Vec<u8>) -> exec_event::Message;

async fn next(
    output: &mut Option<futures::stream::BoxStream<'static, std::io::Result<Written>>>,
) -> Option<std::io::Result<Written>> {
    match output {
        Some(output) => output.next().await,
        None => None,
    }
}
