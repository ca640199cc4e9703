//! One registered driver: sends it operations and matches the answers.
//!
//! ```text
//!   call: place (semaphore) -> waiter (pending) -> outbox -> answer | deadline | connection lost
//! ```
//!
//! Each step ends at the caller's deadline, and dropping the call cancels it. Nothing here is shared
//! between drivers, so one that does not read or answer only hurts its own operations.
use super::error::{GoneReason, OpError, OpKind};
use super::peer::Peer;
use super::pending::{ABANDONED_MAX, Answer, Pending, Settled};
use super::registry::Hello;
use super::source::SecretRef;
use super::wire;
use orrery_proto::infragrpc::{DriverSide, McMside, mc_mside::Change};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// How a driver fares, for its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub in_flight: usize,
    pub succeeded: u64,
    pub failed: u64,
    pub last_error: Option<String>,
}

pub(super) struct Session {
    pub epoch: u64,
    pub hello: Hello,
    pub peer: Peer,
    pub token: String,
    /// Cancelled when the session is over.
    pub ended: CancellationToken,
    outbox: mpsc::Sender<McMside>,
    pending: Mutex<Pending>,
    places: Semaphore,
    /// Secrets of single machines, readable while their operation runs.
    grants: Mutex<HashMap<SecretRef, usize>>,
    tally: Mutex<Tally>,
    /// An announcement did not fit into the outbox; the next heartbeat makes up for it.
    missed_change: AtomicBool,
}

/// What a session is made of.
pub(super) struct Parts {
    pub hello: Hello,
    pub peer: Peer,
    pub token: String,
    pub outbox: mpsc::Sender<McMside>,
    pub ended: CancellationToken,
}

impl Session {
    pub fn new(epoch: u64, parts: Parts) -> Self {
        Self {
            epoch,
            places: Semaphore::new(parts.hello.max_concurrent),
            hello: parts.hello,
            peer: parts.peer,
            token: parts.token,
            ended: parts.ended,
            outbox: parts.outbox,
            pending: Mutex::new(Pending::new()),
            grants: Mutex::default(),
            tally: Mutex::default(),
            missed_change: AtomicBool::new(false),
        }
    }

    pub fn speaks_extensions(&self) -> bool {
        self.hello.protocol >= 1
    }

    pub fn can(&self, capability: &str) -> bool {
        self.speaks_extensions() && self.hello.capabilities.iter().any(|it| it == capability)
    }

    pub fn grants(&self, secret: &SecretRef) -> bool {
        self.grants.lock().contains_key(secret)
    }

    pub fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// Does one operation: exactly one answer or one error, by `timeout` at the latest.
    pub async fn call(
        &self,
        kind: OpKind,
        message: McMside,
        bootstrap: Option<&SecretRef>,
        timeout: Duration,
    ) -> Result<Answer, OpError> {
        let until = Instant::now() + timeout;
        let _place = self.place(kind, until, timeout).await?;
        let _counted = Counted::start(self);
        let _grant = bootstrap.map(|secret| Grant::give(self, secret));
        self.exchange(kind, message, until, timeout).await
    }

    async fn place(
        &self,
        operation: OpKind,
        until: Instant,
        waited: Duration,
    ) -> Result<SemaphorePermit<'_>, OpError> {
        match timeout_at(until, self.places.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(self.not_sent(operation)),
            Err(_elapsed) => Err(self.busy(operation, waited)),
        }
    }

    async fn exchange(
        &self,
        kind: OpKind,
        mut message: McMside,
        until: Instant,
        waited: Duration,
    ) -> Result<Answer, OpError> {
        let opened = self.pending.lock().open();
        let Ok((id, answer)) = opened else { return Err(self.not_sent(kind)) };
        let mut waiting = Waiting { session: self, id, sent: false };
        message.operation_id = id;
        message.deadline_ms = wire::millis(until.saturating_duration_since(Instant::now())).max(1);
        match timeout_at(until, self.outbox.send(message)).await {
            Ok(Ok(())) => waiting.sent = true,
            Ok(Err(_closed)) => return Err(self.not_sent(kind)),
            Err(_elapsed) => return Err(self.busy(kind, waited)),
        }
        match timeout_at(until, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_dropped)) => Err(self.answer_lost(kind)),
            Err(_elapsed) => {
                Err(OpError::TimedOut { driver: self.label(), operation: kind, waited })
            }
        }
    }

    /// Counts the outcome of an operation, once it has been understood.
    pub fn record(&self, error: Option<&OpError>) {
        let mut tally = self.tally.lock();
        match error {
            None => tally.succeeded += 1,
            Some(error) => {
                tally.failed += 1;
                tally.last_error = Some(error.to_string());
            }
        }
    }

    /// Hands an answer to whoever waits for it. Whatever the driver sends, the session goes on.
    pub fn settle(&self, message: DriverSide) {
        let id = message.operation_id;
        let settled = self.pending.lock().settle(id, message.response);
        match settled {
            Settled::Delivered => {}
            Settled::Late => {
                tracing::info!(driver = %self.label(), id, "answer came after its deadline");
            }
            Settled::Unknown => {
                tracing::warn!(driver = %self.label(), id, "answer to no open operation");
            }
        }
    }

    /// Tells the driver that something it may have cached changed.
    pub fn announce(&self, change: Change) {
        if self.speaks_extensions() && self.outbox.try_send(wire::changed(change)).is_err() {
            self.missed_change.store(true, Ordering::Relaxed);
        }
    }

    /// Sends a heartbeat. A full outbox is no reason to wait: then the driver reads nothing, and
    /// its silence will tell.
    pub fn beat(&self) {
        if self.missed_change.swap(false, Ordering::Relaxed) {
            self.announce(Change::default());
        }
        if self.outbox.try_send(wire::heartbeat()).is_err() {
            tracing::debug!(driver = %self.label(), "no room for a heartbeat");
        }
    }

    /// Completes when nobody reads what we send any more.
    pub async fn unread(&self) {
        self.outbox.closed().await;
    }

    /// Ends the session: fails what waits and refuses what comes.
    pub fn end(&self, reason: GoneReason) {
        self.pending.lock().close(reason);
        self.places.close();
        self.ended.cancel();
    }

    pub fn reason(&self) -> GoneReason {
        self.pending.lock().reason()
    }

    pub fn label(&self) -> String {
        format!("{} of {} from {}", self.hello.name, self.hello.key, self.peer)
    }

    fn busy(&self, operation: OpKind, waited: Duration) -> OpError {
        OpError::Busy { driver: self.label(), operation, waited }
    }

    fn not_sent(&self, operation: OpKind) -> OpError {
        OpError::NotSent { driver: self.label(), operation, reason: self.reason() }
    }

    fn answer_lost(&self, operation: OpKind) -> OpError {
        OpError::AnswerLost { driver: self.label(), operation, reason: self.reason() }
    }

    fn give_up(&self, id: i32) {
        let abandoned = self.pending.lock().abandon(id);
        let Some(abandoned) = abandoned else { return };
        if abandoned > ABANDONED_MAX {
            self.end(GoneReason::Stuck(abandoned));
        } else if self.can(wire::CAPABILITY_CANCEL)
            && self.outbox.try_send(wire::cancel(id)).is_err()
        {
            tracing::debug!(driver = %self.label(), id, "no room to cancel; its deadline will");
        }
    }
}

/// An open entry in `pending`, cleaned up however its call ends.
struct Waiting<'a> {
    session: &'a Session,
    id: i32,
    sent: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.sent {
            self.session.give_up(self.id);
        } else {
            self.session.pending.lock().withdraw(self.id);
        }
    }
}

/// The right to read one secret, for the length of one operation.
struct Grant<'a> {
    session: &'a Session,
    secret: &'a SecretRef,
}

impl<'a> Grant<'a> {
    fn give(session: &'a Session, secret: &'a SecretRef) -> Self {
        *session.grants.lock().entry(secret.clone()).or_default() += 1;
        Self { session, secret }
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        let mut grants = self.session.grants.lock();
        if let Some(count) = grants.get_mut(self.secret) {
            *count -= 1;
            if *count == 0 {
                grants.remove(self.secret);
            }
        }
    }
}

struct Counted<'a>(&'a Session);

impl<'a> Counted<'a> {
    fn start(session: &'a Session) -> Self {
        session.tally.lock().in_flight += 1;
        Self(session)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.tally.lock().in_flight -= 1;
    }
}
