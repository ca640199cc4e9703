//! The edge that machine drivers register at: `infra.Infragrpc`, by default on port 5000.
//!
//! ```text
//!                    Drivers
//!    create  --->  +-----------------------------+       +--------+
//!    delete        | registry: key -> active,    | ----> | driver |  Register stream:
//!    list          |           standby, leaving  | <---- |        |  operations and answers
//!    status        +-----------------------------+       +--------+
//!    watch   <---    session 1   session 2  ...            |
//!                  ClassSource, SecretSource  <------------+  GetMachineClass, GetSecret
//! ```
//!
//! A driver is known by the (kind, group/version) of the classes it serves. The oldest connection
//! of a key is active, the others stand by. Drivers of the first published contract work: they get
//! only what they know, one operation at a time.
//!
//! Not in it: when to create or delete a machine (see [`crate::plan`]), where classes and secrets
//! are kept (the traits in [`source`]), listeners and TLS (the server; see [`transport`]).
mod access;
mod announce;
mod answer;
mod conversation;
pub mod error;
pub mod peer;
mod pending;
pub mod registry;
mod service;
mod session;
pub mod source;
pub mod wire;

pub use access::SESSION_METADATA;
pub use error::{Effect, ErrorCode, GoneReason, OpError, OpKind, Retry};
pub use peer::{Attributed, CertificateOrLoopback, Gate, Peer};
pub use registry::{DriverInfo, DriverState, Hello};
pub use service::Infra;
pub use session::Tally;
pub use source::{Class, ClassRef, ClassSource, DriverKey, SecretRef, SecretSource, SecretValue};
pub use wire::{Call, Created, Found, MachineArgs, Target};

use orrery_proto::infragrpc::driver_side::Response;
use orrery_proto::infragrpc::infragrpc_server::InfragrpcServer;
use parking_lot::Mutex;
use registry::{Refused, Registry};
use session::{Parts, Session};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Status;

/// Streams that have been opened and have not registered yet. Bounds what those who never will can
/// make us hold.
const GREETINGS_MAX: usize = 256;
/// A list of ten thousand machines with their addresses is about 2 MiB.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// How long things may take at this edge.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From the opened stream to the driver's registration.
    pub registration: Duration,
    /// Between two heartbeats to a driver.
    pub heartbeat: Duration,
    /// A driver that says nothing for so long is gone.
    pub silence: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let heartbeat = Duration::from_secs(10);
        Self { registration: Duration::from_secs(10), heartbeat, silence: heartbeat * 3 }
    }
}

/// What the edge needs from the rest of the server.
pub struct Config {
    pub classes: Arc<dyn ClassSource>,
    pub secrets: Arc<dyn SecretSource>,
    pub gate: Arc<dyn Gate>,
    pub timing: Timing,
}

/// A server builder whose connections are checked from below with HTTP/2 pings. Drivers of the first
/// contract know no heartbeats; this is how their half-open connections are found.
pub fn transport(timing: &Timing) -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(timing.heartbeat))
        .http2_keepalive_timeout(Some(timing.silence.saturating_sub(timing.heartbeat)))
}

/// All registered drivers, and the operations on them. Cheap to clone.
#[derive(Clone)]
pub struct Drivers(Arc<Inner>);

struct Inner {
    classes: Arc<dyn ClassSource>,
    secrets: Arc<dyn SecretSource>,
    gate: Arc<dyn Gate>,
    timing: Timing,
    registry: Mutex<Registry<Arc<Session>>>,
    greetings: Arc<Semaphore>,
    published: watch::Sender<Arc<Vec<DriverInfo>>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Drivers {
    /// Starts without any driver. Must be called within a tokio runtime.
    pub fn start(config: Config) -> Self {
        let inner = Arc::new(Inner {
            classes: config.classes,
            secrets: config.secrets,
            gate: config.gate,
            timing: config.timing,
            registry: Mutex::new(Registry::new()),
            greetings: Arc::new(Semaphore::new(GREETINGS_MAX)),
            published: watch::Sender::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        inner.tasks.spawn(announce::run(inner.clone()));
        Self(inner)
    }

    /// The service, to be added to a server made with [`transport`].
    pub fn service(&self) -> InfragrpcServer<Infra> {
        InfragrpcServer::new(Infra(self.0.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The drivers that are connected, and the last ones that went; changes with every transition.
    pub fn watch(&self) -> watch::Receiver<Arc<Vec<DriverInfo>>> {
        self.0.published.subscribe()
    }

    /// Whether a driver of this key is connected and takes operations.
    pub fn serves(&self, key: &DriverKey) -> bool {
        self.0.active(key).is_ok()
    }

    /// How a connected driver fares.
    pub fn tally(&self, epoch: u64) -> Option<Tally> {
        self.0.sessions().iter().find(|it| it.epoch == epoch).map(|it| it.tally())
    }

    /// Ends all conversations, fails what is under way, and waits until all is put away.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Makes a machine. Repeating it with the same idempotency key makes no second one with a
    /// driver that keeps the contract; after [`Effect::Perhaps`] list first all the same.
    pub async fn create(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Created, OpError> {
        let session = self.0.active(&target.key)?;
        ask(&session, OpKind::Create, (target, machine, call), answer::created).await
    }

    /// Deletes a machine; one that is not there counts as deleted.
    pub async fn delete(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<(), OpError> {
        let session = self.0.active(&target.key)?;
        ask(&session, OpKind::Delete, (target, machine, call), answer::deleted).await
    }

    /// All machines of the class that the provider knows, or with an id just that one.
    pub async fn list(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Vec<Found>, OpError> {
        let session = self.0.active(&target.key)?;
        ask(&session, OpKind::List, (target, machine, call), answer::listed).await
    }

    /// One machine by its provider id, or `None` if it does not exist. A driver without `status` is
    /// asked for a list.
    pub async fn status(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Option<Found>, OpError> {
        let session = self.0.active(&target.key)?;
        if session.can(wire::CAPABILITY_STATUS) {
            return ask(&session, OpKind::Status, (target, machine, call), answer::status).await;
        }
        let all = ask(&session, OpKind::List, (target, machine, call), answer::listed).await?;
        Ok(all.into_iter().find(|it| it.provider_id == machine.id))
    }
}

/// Sends one operation, reads its answer and counts the outcome.
async fn ask<T>(
    session: &Session,
    kind: OpKind,
    (target, machine, call): (&Target, &MachineArgs, &Call),
    read: impl FnOnce(Response) -> Option<Result<T, OpError>>,
) -> Result<T, OpError> {
    let message = wire::operation(kind, target, machine, call);
    let answer = session.call(kind, message, machine.bootstrap.as_ref(), call.timeout).await;
    let outcome = answer.and_then(|answer| {
        let name = wire::answer_name(answer.as_ref());
        let wrong =
            || OpError::WrongAnswer { driver: session.label(), operation: kind, answer: name };
        answer.and_then(read).unwrap_or_else(|| Err(wrong()))
    });
    session.record(outcome.as_ref().err());
    outcome
}

impl Inner {
    fn sessions(&self) -> Vec<Arc<Session>> {
        self.registry.lock().sessions()
    }

    fn active(&self, key: &DriverKey) -> Result<Arc<Session>, OpError> {
        let active = self.registry.lock().active(key);
        active.ok_or_else(|| OpError::NoDriver { key: key.clone() })
    }

    fn enrol(&self, parts: Parts) -> Result<Arc<Session>, Status> {
        let (hello, peer) = (parts.hello.clone(), parts.peer.clone());
        // Not in the head of the loop: there the lock would be held while retiring takes it.
        let superseded = self.registry.lock().superseded(&hello, &peer);
        for old in superseded {
            self.retire(&old, GoneReason::Replaced);
        }
        let joined = self
            .registry
            .lock()
            .join(hello, peer, Instant::now(), |epoch| Arc::new(Session::new(epoch, parts)));
        let session =
            joined.map_err(|refused: Refused| Status::resource_exhausted(refused.to_string()))?;
        let (name, key, peer) = (&session.hello.name, &session.hello.key, &session.peer);
        tracing::info!(driver = name, %key, %peer, epoch = session.epoch, "driver registered");
        self.publish();
        Ok(session)
    }

    /// The driver gets nothing new; what it has begun goes on.
    fn leave(&self, session: &Session) {
        self.registry.lock().leave(session.epoch, Instant::now());
        tracing::info!(driver = session.hello.name, epoch = session.epoch, "driver is leaving");
        self.publish();
    }

    /// Ends a session and forgets it; the second time nothing happens.
    fn retire(&self, session: &Session, reason: GoneReason) {
        session.end(reason);
        let reason = session.reason();
        tracing::info!(driver = session.hello.name, epoch = session.epoch, %reason, "driver gone");
        self.registry.lock().remove(session.epoch, reason, Instant::now());
        self.publish();
    }

    fn why_ended(&self, session: &Session) -> GoneReason {
        if self.stop.is_cancelled() { GoneReason::Stopping } else { session.reason() }
    }

    /// The state is read while publishing, so that an older one never follows a newer.
    fn publish(&self) {
        self.published.send_if_modified(|last| {
            let infos = Arc::new(self.registry.lock().infos());
            let changed = *last != infos;
            *last = infos;
            changed
        });
    }
}
