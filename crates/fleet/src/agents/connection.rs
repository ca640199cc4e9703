//! The agent connection: one session of one agent, whatever carries it.
use crate::fleet::Fleet;
use crate::middleware::claims::{AgentIdentity, Claims, Shown};
use crate::middleware::hello::{Refusal, VERSION, check_agent};
use crate::middleware::senders::Session;
use crate::middleware::{Outbox, Peer};
use futures::stream::{self, BoxStream, StreamExt};
use orrery_proto::fleet::v1::{
    AgentHello, FromServer, InstanceStates, ServerHello, ServerMessage, ToServer, server_message,
    to_server,
};
use orrery_runtime::Backoff;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What an agent sends, as its transport delivers it; an error is the end of the connection.
pub type Inbound = BoxStream<'static, Result<ToServer, String>>;
/// What an agent is sent; it ends when the session does.
pub type Outbound = BoxStream<'static, FromServer>;

/// A connection that does not say hello within this time is closed: it only costs.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Sessions that are opened at the same moment. When a thousand agents come back at once, each would hold what it
/// takes to write its node until all of them are written; so they take turns, and no agent can hold one up.
const OPENING_MAX: usize = 32;

/// Takes agents in.
#[derive(Clone)]
pub struct AgentConnections {
    fleet: Arc<Fleet>,
    sessions: TaskTracker,
    opening: Arc<Semaphore>,
    claims: Arc<Claims>,
    stop: CancellationToken,
}

impl AgentConnections {
    pub fn new(fleet: Arc<Fleet>, stop: CancellationToken) -> Self {
        let opening = Arc::new(Semaphore::new(OPENING_MAX));
        Self { fleet, sessions: TaskTracker::new(), opening, claims: Arc::default(), stop }
    }

    /// Opens a session, or says why not.
    pub async fn connect(&self, peer: Peer, mut inbound: Inbound) -> Result<Outbound, Refusal> {
        let mut hello = first_message(&mut inbound).await?;
        check_agent(&peer, &hello)?;
        if hello.address.is_empty() {
            // An agent in the server's own process comes from nowhere, which is here.
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            hello.address = peer.address.map_or(here, |from| from.ip().to_canonical()).to_string();
        }
        let (id, hostname) = (hello.agent_id.clone(), hello.hostname.clone());
        let shown = Shown {
            certificate: peer.identity.as_ref().map(|identity| identity.key),
            agent: AgentIdentity { id, hostname },
        };
        let claim = self.claims.claim(&hello.name, &shown);
        let _claim = claim.map_err(|claimed| taken(&hello.name, &shown, &claimed))?;
        self.check_connected(&hello.name, &shown)?;
        // In a box of its own, as all that is large and soon over: whoever waits here has room for the rest only.
        let epoch = Box::pin(self.open(&hello)).await?;
        let outbox = Arc::new(Outbox::default());
        let session = Session { epoch, shown, outbox: outbox.clone(), ..Session::default() };
        outbox.push([server_hello(epoch)]);
        self.fleet.senders().insert(&hello.name, session);
        self.fleet.assignments().open(&hello.name, &outbox);
        tracing::info!(agent = hello.name, epoch, version = hello.version, "agent connected");
        self.sessions.spawn(self.clone().pump(hello.name, epoch, inbound, outbox.clone()));
        Ok(outbound(outbox))
    }

    /// The epoch of a new session, once the agent's node says that it is there.
    async fn open(&self, hello: &AgentHello) -> Result<i64, Refusal> {
        self.fleet.ready().await;
        // It is never closed.
        let _turn = self.opening.acquire().await.ok();
        let opening = Box::pin(self.fleet.nodes().opening(hello));
        opening.await.map_err(|error| Refusal::NotNow { message: error.to_string() })
    }

    /// A name belongs to whoever is connected with it, until that connection is gone: two agents that took
    /// turns would each start everything. One that reconnects shows what it showed before.
    fn check_connected(&self, name: &str, shown: &Shown) -> Result<(), Refusal> {
        let Some(connected) = self.fleet.senders().session(name) else { return Ok(()) };
        if shown.may_be(&connected.shown) {
            return Ok(());
        }
        let refusal = taken(name, shown, &connected.shown);
        let is_new = matches!(refusal, Refusal::OtherAgent { .. })
            && !connected.contested.swap(true, Ordering::Relaxed);
        if is_new {
            tracing::warn!(
                agent = name,
                from = shown.agent.hostname,
                connected = connected.shown.agent.hostname,
                "refused a second agent of this name: stop one of them, or rename it"
            );
        }
        Err(refusal)
    }

    /// Ends when every session has ended.
    pub async fn drained(&self) {
        self.sessions.close();
        self.sessions.wait().await;
    }

    /// Forwards what the agent says until its connection ends, then says that it is gone.
    async fn pump(self, agent: String, epoch: i64, mut inbound: Inbound, outbox: Arc<Outbox>) {
        let why = loop {
            let message = tokio::select! {
                () = self.stop.cancelled() => {
                    // The server stops; its agents go on and will be back.
                    outbox.close();
                    self.fleet.lost(&agent, epoch);
                    return;
                }
                () = outbox.closed() => break "a newer session took its place".to_owned(),
                message = inbound.next() => message,
            };
            let states = match self.take(&agent, message) {
                Heard::States(states) => states,
                Heard::All => continue,
                Heard::End(why) => break why,
            };
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = outbox.closed() => {}
                // In a box: most of what a session has to say takes less room than this, and most of the
                // time it says nothing.
                () = Box::pin(self.store(&agent, &states)) => {}
            }
        };
        Box::pin(self.gone(&agent, epoch, &why)).await;
    }

    /// Takes in what came of an agent, except for states. A function of its own, so that a session that waits keeps
    /// no room for a message.
    fn take(&self, agent: &str, came: Option<Result<ToServer, String>>) -> Heard {
        let message = match came {
            Some(Ok(ToServer { message })) => message,
            Some(Err(error)) => return Heard::End(format!("its connection broke: {error}")),
            None => return Heard::End("it closed its connection".to_owned()),
        };
        match message {
            Some(to_server::Message::States(states)) => return Heard::States(states),
            Some(to_server::Message::Goodbye(goodbye)) => {
                return Heard::End(format!("it said goodbye: {}", goodbye.reason));
            }
            Some(to_server::Message::LogChunk(chunk)) => self.fleet.logs().chunk(agent, chunk),
            Some(to_server::Message::LogEnd(end)) => self.fleet.logs().end(agent, end),
            Some(to_server::Message::ExecOutput(output)) => {
                self.fleet.execs().output(agent, output);
            }
            Some(to_server::Message::Load(report)) => self.fleet.loads().report(agent, report),
            Some(to_server::Message::Hello(_)) => {
                tracing::warn!(agent, "an agent said hello twice");
            }
            None => tracing::warn!(agent, "an agent sent a message of a kind unknown here"),
        }
        Heard::All
    }

    /// Returns when states are stored. A store that cannot take them now holds up this agent, which is
    /// not read from meanwhile, and loses nothing.
    async fn store(&self, agent: &str, states: &InstanceStates) {
        let mut failures = 0;
        while let Err(error) = self.fleet.states().take(agent, states).await {
            failures += 1;
            let wait = Backoff::RECONCILE.delay(failures, 0.5);
            tracing::warn!(agent, %error, ?wait, "cannot store states now, will try again");
            tokio::time::sleep(wait).await;
        }
    }

    async fn gone(&self, agent: &str, epoch: i64, why: &str) {
        tracing::info!(agent, epoch, why, "agent gone");
        self.fleet.lost(agent, epoch);
        if !self.fleet.senders().remove(agent, epoch) {
            return;
        }
        self.fleet.agent_gone(agent, epoch, why).await;
    }
}

/// What is left to do about something that an agent said.
enum Heard {
    All,
    /// To be stored before the next message is read.
    States(InstanceStates),
    /// It was the last; why.
    End(String),
}

/// Why an agent does not get a name that another one has.
fn taken(name: &str, shown: &Shown, holder: &Shown) -> Refusal {
    let name = name.to_owned();
    match shown.certificate == holder.certificate {
        true => Refusal::OtherAgent { name, hostname: holder.agent.hostname.clone() },
        false => Refusal::NameTaken { name },
    }
}

async fn first_message(inbound: &mut Inbound) -> Result<AgentHello, Refusal> {
    let no_hello = Refusal::NoHello { expected: "AgentHello" };
    let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.next()).await;
    match first {
        Ok(Some(Ok(ToServer { message: Some(to_server::Message::Hello(hello)) }))) => Ok(hello),
        Ok(_) | Err(_) => Err(no_hello),
    }
}

fn server_hello(epoch: i64) -> ServerMessage {
    let hello = ServerHello { version: VERSION.to_owned(), session_epoch: epoch };
    ServerMessage { message: Some(server_message::Message::Hello(hello)) }
}

fn outbound(outbox: Arc<Outbox>) -> Outbound {
    stream::unfold(outbox, |outbox| async move {
        let messages = outbox.next().await?;
        Some((FromServer { messages }, outbox))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How large what a function makes is; it need not be made for that.
    fn bytes<A, B, C, D, E, F>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    /// A server holds thousands of sessions that have nothing to say.
    #[test]
    fn a_session_takes_little_memory() {
        let (session, outbox) = (bytes(AgentConnections::pump), size_of::<Outbox>());
        assert!(session <= 640, "the task: {session} bytes");
        assert!(outbox <= 128, "what waits: {outbox} bytes");
    }
}
