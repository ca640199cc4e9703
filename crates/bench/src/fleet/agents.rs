//! Agents that speak the protocol and run nothing.
use futures::StreamExt;
use orrery_client::Endpoint;
use orrery_client::agent::Transport;
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{
    AgentHello, Assignment, InstanceState, InstanceStates, ToServer, server_message::Message,
    to_server,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

/// Messages of one agent that wait to be sent.
const OUTGOING: usize = 1024;

/// Connections that are opened at once; the queue of a listening socket is not much longer.
const AT_ONCE: usize = 512;

/// What all agents together have seen.
#[derive(Default)]
pub struct Board {
    /// Assignments that arrived.
    pub delivered: AtomicUsize,
    /// Agents that got their first set.
    pub served: AtomicUsize,
    changed: Notify,
}

impl Board {
    /// Returns when the counter has come so far.
    pub async fn until(&self, counter: impl Fn(&Self) -> &AtomicUsize, wanted: usize) {
        loop {
            let changed = self.changed.notified();
            if wanted <= counter(self).load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }

    fn add(&self, counter: &AtomicUsize, more: usize) {
        counter.fetch_add(more, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}

/// A fleet of agents, connected as long as it is kept.
pub struct Agents {
    pub board: Arc<Board>,
    /// Kept open: an agent that closes its side is gone.
    _senders: Vec<mpsc::Sender<ToServer>>,
    _running: JoinSet<()>,
}

impl Agents {
    /// Connects so many, side by side. Those that `report` say that what they are assigned runs.
    pub async fn connect(url: &str, count: usize, report: bool) -> anyhow::Result<Self> {
        let board = Arc::new(Board::default());
        let connecting = (0..count).map(|number| connect(url.to_owned(), number));
        let connected: Vec<_> =
            futures::stream::iter(connecting).buffer_unordered(AT_ONCE).collect().await;
        let mut running = JoinSet::new();
        let mut senders = Vec::new();
        for connection in connected {
            let (sender, incoming) = connection?;
            senders.push(sender.clone());
            running.spawn(listen(incoming, sender, board.clone(), report));
        }
        let agents = Self { board, _senders: senders, _running: running };
        agents.board.until(|board| &board.served, count).await;
        Ok(agents)
    }
}

type Connection = (mpsc::Sender<ToServer>, orrery_client::agent::Incoming);

pub async fn connect(url: String, number: usize) -> anyhow::Result<Connection> {
    let endpoint = Endpoint::new(&url, None)?;
    let (sender, outgoing) = mpsc::channel(OUTGOING);
    let hello = AgentHello {
        name: name(number),
        version: orrery_client::VERSION.to_owned(),
        runtimes: vec!["process".to_owned()],
        ..AgentHello::default()
    };
    sender.try_send(ToServer { message: Some(to_server::Message::Hello(hello)) })?;
    let incoming = Transport::connect(&endpoint, ReceiverStream::new(outgoing)).await?;
    Ok((sender, incoming))
}

pub fn name(number: usize) -> String {
    format!("edge-{number}")
}

async fn listen(
    mut incoming: orrery_client::agent::Incoming,
    sender: mpsc::Sender<ToServer>,
    board: Arc<Board>,
    report: bool,
) {
    while let Some(Ok(call)) = incoming.next().await {
        let mut assigned = Vec::new();
        let mut served = 0;
        for message in call.messages {
            match message.message {
                Some(Message::Assign(assignment)) => assigned.push(assignment),
                Some(Message::Set(set)) => {
                    assigned.extend(set.assignments);
                    served += 1;
                }
                Some(_) | None => {}
            }
        }
        board.add(&board.delivered, assigned.len());
        board.add(&board.served, served);
        if report
            && !assigned.is_empty()
            && sender.send(states(&assigned, "Running")).await.is_err()
        {
            return;
        }
    }
}

/// That these are in a state.
pub fn states(assignments: &[Assignment], state: &str) -> ToServer {
    let states = assignments.iter().map(|assignment| InstanceState {
        id: assignment.id.clone(),
        status: Some(WorkloadInstanceStatus {
            state: if assignment.removing { "Removed" } else { state }.to_owned(),
            observed_generation: assignment.generation,
            ..WorkloadInstanceStatus::default()
        }),
    });
    let states = InstanceStates { states: states.collect() };
    ToServer { message: Some(to_server::Message::States(states)) }
}
