//! One command and the socket that it is run over.
//!
//! ```text
//!   client ── typed ──> waiting ── as the command has room ──> words ──> agent
//!          <── written, one piece after the other ─────────── events <──
//! ```
//! Nothing is taken from either side that the other has no room for: while something typed waits, the socket is not
//! read; while the client does not read, the events are not.
use super::channels::{self, Channels, ERROR, End, Protocol, STDERR, STDOUT, Said, read, written};
use axum::body::Bytes;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use orrery_hub::Error;
use orrery_proto::fleet::v1::{ExecEnd, ExecEvent, ExecInput, exec_event, exec_input};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

/// What is typed goes to the agent in pieces of this size; a command gives room by the piece.
const PIECE_BYTES: usize = 16 << 10;

/// How often a client is asked whether it still is there. It need not answer soon: some read only when they wait for
/// something. That nobody is there at all is found by the connection.
const PING_INTERVAL: Duration = Duration::from_secs(15);

/// How long a client may take to hear the end. It has read what came before.
const FAREWELL: Duration = Duration::from_secs(2);

pub struct Session<S> {
    socket: WebSocketStream<S>,
    protocol: Protocol,
    channels: Channels,
    words: mpsc::Sender<ExecInput>,
    events: BoxStream<'static, Result<ExecEvent, Error>>,
    typed: Typed,
}

/// What is typed, until the command has room for it.
#[derive(Debug, Default)]
struct Typed {
    waiting: Bytes,
    /// Pieces that the command has room for.
    credit: u32,
    /// Whether nothing more will be typed, and whether the command was told.
    all: bool,
    told: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub fn new(
        socket: WebSocketStream<S>,
        protocol: Protocol,
        channels: Channels,
        words: mpsc::Sender<ExecInput>,
        events: BoxStream<'static, Result<ExecEvent, Error>>,
    ) -> Self {
        Self { socket, protocol, channels, words, events, typed: Typed::default() }
    }

    /// Until the command ends, the client goes, or it is over for another reason. Dropping the events ends a command
    /// that still runs.
    pub async fn run(mut self, over: impl Future<Output = End>) {
        // A server that stops ends the connections of its agents, too: the reason comes before what follows from it.
        let end = tokio::select! {
            biased;
            end = over => end,
            end = self.converse() => end,
        };
        drop(self.events);
        // Whoever does not listen any more needs no farewell.
        let _ = tokio::time::timeout(FAREWELL, farewell(self.socket, end)).await;
    }

    async fn converse(&mut self) -> End {
        // An empty message tells clients of the dialect that it has begun.
        let channel = if self.channels.stdout { STDOUT } else { ERROR };
        if !self.say(channel, &[]).await {
            return End::Gone;
        }
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        loop {
            let end = tokio::select! {
                event = self.events.next() => self.happened(event).await,
                said = self.socket.next(), if self.typed.waiting.is_empty() => self.hear(said),
                _ = pings.tick() => {
                    let ping = self.socket.send(Message::Ping(Bytes::new())).await;
                    ping.err().map(|_| End::Gone)
                }
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Something came from the command.
    async fn happened(&mut self, event: Option<Result<ExecEvent, Error>>) -> Option<End> {
        let message = match event {
            Some(Ok(event)) => event.message?,
            Some(Err(error)) => return Some(End::Forbidden(error.to_string())),
            None => {
                let problem = "the server ended it without a word".to_owned();
                return Some(End::Ended(ExecEnd { exit_code: None, problem }));
            }
        };
        let listens = match message {
            exec_event::Message::Stdout(data) => {
                !self.channels.stdout || self.say(STDOUT, &data).await
            }
            exec_event::Message::Stderr(data) => {
                !self.channels.stderr || self.say(STDERR, &data).await
            }
            exec_event::Message::Credit(more) => {
                self.typed.credit = self.typed.credit.saturating_add(more);
                return self.hand_over();
            }
            exec_event::Message::End(end) => return Some(End::Ended(end)),
        };
        (!listens).then_some(End::Gone)
    }

    async fn say(&mut self, channel: u8, data: &[u8]) -> bool {
        self.socket.send(Message::Binary(written(channel, data))).await.is_ok()
    }

    /// Something came from the client.
    fn hear(
        &mut self,
        said: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Option<End> {
        use tokio_tungstenite::tungstenite::Error as Broken;
        let message = match said {
            Some(Ok(Message::Binary(message))) => message,
            Some(Ok(Message::Text(message))) => message.into(),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return None,
            Some(Ok(Message::Close(_))) | None => return Some(End::Gone),
            Some(Err(Broken::Capacity(error))) => return Some(End::Misspoken(error.to_string())),
            Some(Err(_)) => return Some(End::Gone),
        };
        match read(self.protocol, message) {
            Ok(Said::Typed(data)) if self.channels.stdin && !self.typed.all => {
                self.typed.waiting = data;
                self.hand_over()
            }
            Ok(Said::TypedAll) => {
                self.typed.all = true;
                self.hand_over()
            }
            Ok(Said::Resized(size)) => self.tell(exec_input::Message::Resize(size)),
            Ok(Said::Typed(_) | Said::Nothing) => None,
            Err(problem) => Some(End::Misspoken(problem)),
        }
    }

    /// Hands over as much of what was typed as the command has room for.
    fn hand_over(&mut self) -> Option<End> {
        while let Some(piece) = self.typed.next() {
            if let Some(end) = self.tell(exec_input::Message::Data(piece.into())) {
                return Some(end);
            }
        }
        let ends = self.typed.ends() && self.channels.stdin;
        ends.then(|| self.tell(exec_input::Message::End(true))).flatten()
    }

    /// Words are passed on whenever events are asked for, so that there is room for all that may be said.
    fn tell(&self, message: exec_input::Message) -> Option<End> {
        match self.words.try_send(ExecInput { message: Some(message) }) {
            Ok(()) => None,
            // The command has ended, which it says itself.
            Err(mpsc::error::TrySendError::Closed(_)) => None,
            Err(mpsc::error::TrySendError::Full(_)) => {
                Some(End::Misspoken("more was said than the command has room for".to_owned()))
            }
        }
    }
}

impl Typed {
    /// The next piece, if there is one and there is room for it.
    fn next(&mut self) -> Option<Bytes> {
        if self.waiting.is_empty() {
            return None;
        }
        self.credit = self.credit.checked_sub(1)?;
        Some(self.waiting.split_to(self.waiting.len().min(PIECE_BYTES)))
    }

    /// Whether the command is to be told that this was all; it is told once.
    fn ends(&mut self) -> bool {
        self.all && self.waiting.is_empty() && !std::mem::replace(&mut self.told, true)
    }
}

/// Says how it ended, and waits until the client has heard it: what is unread when a connection closes may take along
/// what was sent.
async fn farewell<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, end: End) {
    if let Some(status) = end.status() {
        let status = written(channels::ERROR, status.to_string().as_bytes());
        if socket.send(Message::Binary(status)).await.is_err() {
            return;
        }
    }
    let code = match end {
        End::Ended(_) | End::Gone => CloseCode::Normal,
        End::Forbidden(_) | End::Unproven(_) => CloseCode::Policy,
        End::Stopped => CloseCode::Away,
        End::Misspoken(_) => CloseCode::Protocol,
    };
    if socket.close(Some(CloseFrame { code, reason: "".into() })).await.is_err() {
        return;
    }
    while let Some(Ok(_)) = socket.next().await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_waits_for_room_and_its_end_for_it() {
        let mut typed = Typed { waiting: vec![7; 2 * PIECE_BYTES + 1].into(), ..Typed::default() };
        typed.all = true;
        assert_eq!(typed.next(), None, "there is no room yet");
        typed.credit = 2;
        let lengths = [typed.next(), typed.next()].map(|piece| piece.map(|piece| piece.len()));
        assert_eq!(lengths, [Some(PIECE_BYTES); 2]);
        assert!(typed.next().is_none() && !typed.ends(), "the rest waits");
        typed.credit = 5;
        assert_eq!(typed.next().map(|piece| piece.len()), Some(1));
        assert_eq!((typed.next(), typed.credit), (None, 4));
        assert!(typed.ends() && !typed.ends(), "once");
    }
}
