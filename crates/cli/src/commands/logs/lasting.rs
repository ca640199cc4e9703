//! Output that goes on over a lost connection, where it stopped.
//!
//! ```text
//!   pieces ──> told, each with the position where it ends
//!     │  ▲
//!     │  └── asked for again after the last position: one copy, or all of them
//!     ├── the agent of a copy is away ──> pause ──┘
//!     └── the connection is lost ──> pause, connect ──┘
//! ```
//! Positions are the agents'. What was written meanwhile is with them, so nothing is missed unless newer
//! output took its room, and they say so then.
use crate::connection::Target;
use crate::session::is_away;
use crate::watching::Away;
use futures::stream::{self, BoxStream, SelectAll, StreamExt as _};
use orrery_client::Commander;
use orrery_proto::fleet::v1::{LogsRequest, LogsResponse};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is said of a server that answers as if times had not been asked for.
const NO_TIMES: &str = "the server is of an earlier version, which knows no times of output: update it, or ask without times";

/// What is said beside a lost connection that cannot be gone on from.
const NO_POSITION: &str =
    "where the output stopped is not known: the agent or the server is of an earlier version";

/// What there is to tell.
#[derive(Debug)]
pub enum Told {
    Piece(LogsResponse),
    /// What became of a connection, for the person.
    Notice(String),
}

type Pieces = BoxStream<'static, anyhow::Result<LogsResponse>>;

/// The output of copies.
pub struct Output {
    target: Target,
    server: Arc<Commander>,
    request: LogsRequest,
    pieces: SelectAll<Pieces>,
    /// To be told before anything else.
    next: Option<LogsResponse>,
    /// Copies by their uid: where the last piece ended.
    positions: BTreeMap<String, String>,
    /// Copies by their uid whose agents are away.
    away: BTreeMap<String, Away>,
    /// Since the connection was lost, until a server has said something again.
    lost: Option<Away>,
    connected: bool,
}

impl Output {
    /// The first connection is tried once.
    pub async fn open(target: Target, request: LogsRequest) -> anyhow::Result<Self> {
        let server = Arc::new(target.connect().await?);
        let mut pieces = SelectAll::new();
        pieces.push(ask(server.clone(), request.clone()).await?);
        Ok(Self {
            target,
            server,
            request,
            pieces,
            next: None,
            positions: BTreeMap::new(),
            away: BTreeMap::new(),
            lost: None,
            connected: true,
        })
    }

    /// What comes next; nothing at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<Told>> {
        loop {
            if let Some(piece) = self.next.take() {
                return Ok(Some(Told::Piece(piece)));
            }
            let told = match self.connected {
                false => self.reach().await?,
                true => match self.pieces.next().await {
                    Some(Ok(piece)) => self.judge(piece)?,
                    Some(Err(error)) => self.lose(error)?,
                    None => return Ok(None),
                },
            };
            if let Some(told) = told {
                return Ok(Some(told));
            }
        }
    }

    /// What to tell of a piece, if anything.
    fn judge(&mut self, piece: LogsResponse) -> anyhow::Result<Option<Told>> {
        let timed = self.request.times
            || self.request.since_seconds.is_some()
            || self.request.since_time.is_some();
        if timed && piece.position.is_empty() && piece.problem.is_empty() {
            anyhow::bail!(NO_TIMES);
        }
        let known = self.positions.get(&piece.id).is_some_and(|position| !position.is_empty());
        if piece.away && self.request.follow && known {
            // The server has answered; what is away is the agent.
            self.lost = None;
            return Ok(self.ask_again(piece));
        }
        if piece.problem.is_empty() {
            self.positions.insert(piece.id.clone(), piece.position.clone());
        }
        let copy = self.away.remove(&piece.id).map(|_| format!("{}: ", piece.instance));
        let whole = self.lost.take().map(|_| String::new());
        if let Some(whose) = whole.or(copy).filter(|_| piece.problem.is_empty()) {
            self.next = Some(piece);
            return Ok(Some(Told::Notice(format!("{whose}connected again"))));
        }
        Ok(Some(Told::Piece(piece)))
    }

    /// Asks for the output of a copy whose agent is away, after a pause.
    fn ask_again(&mut self, piece: LogsResponse) -> Option<Told> {
        let first = !self.away.contains_key(&piece.id);
        let away = self.away.entry(piece.id.clone()).or_insert_with(Away::new);
        if away.is_too_long() {
            return Some(Told::Piece(piece));
        }
        let pause = away.next_pause();
        let request = LogsRequest { instance: piece.instance.clone(), ..self.again() };
        let server = self.server.clone();
        let notice = first
            .then(|| format!("{}: {}; trying to reach it again", piece.instance, piece.problem));
        let asking = async move {
            tokio::time::sleep(pause).await;
            match ask(server, request).await {
                Ok(pieces) => pieces,
                Err(error) if is_away(&error) => stream::iter([Err(error)]).boxed(),
                // There is no such copy any more.
                Err(error) => {
                    let problem = format!("{error:#}");
                    let gone = LogsResponse { problem, away: false, ..piece };
                    stream::iter([Ok(gone)]).boxed()
                }
            }
        };
        self.pieces.push(stream::once(asking).flatten().boxed());
        notice.map(Told::Notice)
    }

    /// What to tell of a connection that is lost, if it can be gone on from.
    fn lose(&mut self, error: anyhow::Error) -> anyhow::Result<Option<Told>> {
        if !self.request.follow || !is_away(&error) {
            return Err(error);
        }
        if self.positions.is_empty() || self.positions.values().any(String::is_empty) {
            return Err(error.context(NO_POSITION));
        }
        let first = self.lost.is_none();
        if self.lost.get_or_insert_with(Away::new).is_too_long() {
            return Err(error);
        }
        // All streams of this connection end with it.
        self.pieces = SelectAll::new();
        self.connected = false;
        Ok(first.then(|| Told::Notice(format!("{error:#}; trying to reach it again"))))
    }

    /// One attempt to connect again, after a pause, and to ask for everything after what has come.
    async fn reach(&mut self) -> anyhow::Result<Option<Told>> {
        tokio::time::sleep(self.lost.get_or_insert_with(Away::new).next_pause()).await;
        let request = self.again();
        let asked = async {
            let server = Arc::new(self.target.connect().await?);
            let pieces = ask(server.clone(), request).await?;
            anyhow::Ok((server, pieces))
        };
        match asked.await {
            Ok((server, pieces)) => {
                self.server = server;
                self.pieces.push(pieces);
                self.connected = true;
                Ok(None)
            }
            Err(error) => self.lose(error),
        }
    }

    /// What is asked for the second time. Copies that were not there before are shown from their
    /// beginning.
    fn again(&self) -> LogsRequest {
        LogsRequest {
            tail_lines: None,
            since_seconds: None,
            after: self.positions.clone().into_iter().collect(),
            ..self.request.clone()
        }
    }
}

async fn ask(server: Arc<Commander>, request: LogsRequest) -> anyhow::Result<Pieces> {
    let logs = server.logs(request).await?;
    // The connection is kept for as long as somebody listens.
    let pieces = stream::unfold((logs, server), |(mut logs, server)| async move {
        let piece = logs.next().await.map_err(anyhow::Error::from).transpose()?;
        Some((piece, (logs, server)))
    });
    Ok(pieces.boxed())
}
