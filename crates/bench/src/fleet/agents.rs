//! Agents that speak the protocol and run nothing.
use futures::StreamExt;
use orrery_bench::load::Method;
use orrery_bench::wire::Talk;
use orrery_client::Endpoint;
use orrery_client::agent::Transport;
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{
    AgentHello, Assignment, FromServer, InstanceState, InstanceStates, ToServer,
    server_message::Message, to_server,
};
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpStream;
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

    /// Counts what came, and tells what is to run.
    fn heard(&self, call: FromServer) -> Vec<Assignment> {
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
        self.add(&self.delivered, assigned.len());
        self.add(&self.served, served);
        assigned
    }

    fn add(&self, counter: &AtomicUsize, more: usize) {
        counter.fetch_add(more, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}

/// A fleet of agents, connected as long as it is kept.
pub struct Agents {
    pub board: Arc<Board>,
    running: JoinSet<()>,
}

impl Agents {
    /// Connects so many, side by side, with the client that real agents have. Those that `report` say that
    /// what they are assigned runs.
    pub async fn connect(url: &str, count: usize, report: bool) -> anyhow::Result<Self> {
        let connecting = (0..count).map(|number| connect(url.to_owned(), number));
        Self::all(connecting, |(sender, incoming), board| listen(incoming, sender, board, report))
            .await
    }

    /// The same with a client that leaves the processors to the server: a fleet has its own.
    pub async fn connect_light(url: &str, count: usize) -> anyhow::Result<Self> {
        let address = url.trim_start_matches("http://").to_owned();
        let path = "/orrery.fleet.v1.AgentConnection/ConnectAgent".to_owned();
        let method = Method { address, path };
        let connecting = (0..count).map(|number| talk(method.clone(), number));
        Self::all(connecting, answer).await
    }

    async fn all<C, F>(
        connecting: impl Iterator<Item = impl Future<Output = anyhow::Result<C>>>,
        run: impl Fn(C, Arc<Board>) -> F,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let board = Arc::new(Board::default());
        let mut connected = futures::stream::iter(connecting).buffer_unordered(AT_ONCE);
        let mut running = JoinSet::new();
        while let Some(connection) = connected.next().await {
            let agent = run(connection?, board.clone());
            running.spawn(async {
                if let Err(error) = agent.await {
                    eprintln!("an agent ended: {error:#}");
                }
            });
        }
        let agents = Self { board, running };
        agents.board.until(|board| &board.served, agents.running.len()).await;
        Ok(agents)
    }
}

type Connection = (mpsc::Sender<ToServer>, orrery_client::agent::Incoming);

pub async fn connect(url: String, number: usize) -> anyhow::Result<Connection> {
    let endpoint = Endpoint::new(&url, None)?;
    let (sender, outgoing) = mpsc::channel(OUTGOING);
    sender.try_send(hello(number))?;
    let incoming = Transport::connect(&endpoint, ReceiverStream::new(outgoing)).await?;
    Ok((sender, incoming))
}

async fn talk(method: Method, number: usize) -> anyhow::Result<Talk<TcpStream>> {
    let mut talk = method.talk().await?;
    talk.say(&hello(number).encode_to_vec()).await?;
    Ok(talk)
}

fn hello(number: usize) -> ToServer {
    let hello = AgentHello {
        name: name(number),
        version: orrery_client::VERSION.to_owned(),
        runtimes: vec!["process".to_owned()],
        ..AgentHello::default()
    };
    ToServer { message: Some(to_server::Message::Hello(hello)) }
}

pub fn name(number: usize) -> String {
    format!("edge-{number}")
}

/// Keeps its sender: an agent that closes its side is gone.
async fn listen(
    mut incoming: orrery_client::agent::Incoming,
    sender: mpsc::Sender<ToServer>,
    board: Arc<Board>,
    report: bool,
) -> anyhow::Result<()> {
    while let Some(call) = incoming.next().await {
        let assigned = board.heard(call?);
        if report && !assigned.is_empty() {
            sender.send(states(&assigned, "Running")).await?;
        }
    }
    Ok(())
}

async fn answer(mut talk: Talk<TcpStream>, board: Arc<Board>) -> anyhow::Result<()> {
    while let Some(call) = talk.hear().await? {
        let assigned = board.heard(FromServer::decode(call)?);
        if !assigned.is_empty() {
            talk.say(&states(&assigned, "Running").encode_to_vec()).await?;
        }
    }
    Ok(())
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
