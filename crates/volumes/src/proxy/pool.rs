//! Upstream connections, a few per controller, shared by all calls.
//!
//! A call takes a [`Lease`] on the connection with the fewest streams. A connection is opened when
//! there is none, or when all are busy and there may be another; calls that need it wait for the same
//! attempt and share its failure, so a controller that is gone costs one attempt at a time. A
//! connection leaves the pool when it ends, when it was idle for long, and when its controller is
//! registered elsewhere or removed; streams on it finish all the same.
use super::{
    ProxyConfig,
    dial::{DialError, Dialer, Driver, Sender},
};
use crate::{Change, ControllerDirectory, ControllerId, Entry};
use futures::{FutureExt, StreamExt, future::BoxFuture, future::Shared};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Beyond this many streams on each connection another one is opened: servers commonly allow 100, and
/// a stream that waits for its turn has lost more than a connection costs.
const STREAMS_PER_CONNECTION: usize = 64;
/// Four connections carry 400 streams at the common limit and use more than one core.
const CONNECTIONS_PER_CONTROLLER_MAX: usize = 4;

type Dialing = Shared<BoxFuture<'static, Result<Arc<Connection>, DialError>>>;

pub struct Pool {
    dialer: Dialer,
    idle_timeout: Duration,
    slots: Mutex<HashMap<ControllerId, Arc<Slot>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The connections to one controller at one address.
struct Slot {
    entry: Entry,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Vec<Arc<Connection>>,
    dialing: Option<Dialing>,
}

pub struct Connection {
    sender: Sender,
    streams: AtomicUsize,
    /// Set by every lease and cleared by the idle check: true means "used since the last check".
    used: AtomicBool,
}

/// One stream's share of a connection.
pub struct Lease {
    connection: Arc<Connection>,
    slot: Weak<Slot>,
}

enum Pick {
    Now(Arc<Connection>),
    Soon(Dialing),
}

impl Lease {
    fn new(connection: Arc<Connection>, slot: &Arc<Slot>) -> Self {
        connection.streams.fetch_add(1, Ordering::Relaxed);
        connection.used.store(true, Ordering::Relaxed);
        Self { connection, slot: Arc::downgrade(slot) }
    }

    pub fn sender(&self) -> Sender {
        self.connection.sender.clone()
    }

    /// Takes a connection that refused a request out of the pool.
    pub fn discard(self) {
        if let Some(slot) = self.slot.upgrade() {
            slot.remove(&self.connection);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.connection.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slot {
    fn remove(&self, connection: &Arc<Connection>) {
        self.state.lock().open.retain(|other| !Arc::ptr_eq(other, connection));
    }

    fn dialed(&self, connection: Option<&Arc<Connection>>) {
        let mut state = self.state.lock();
        state.dialing = None;
        state.open.extend(connection.cloned());
    }

    /// Takes a connection out of the pool if no call used it since the last time this was asked.
    fn retire_if_idle(&self, connection: &Weak<Connection>) {
        let mut state = self.state.lock();
        state.open.retain(|other| {
            let idle = Weak::ptr_eq(&Arc::downgrade(other), connection)
                && other.streams.load(Ordering::Relaxed) == 0
                && !other.used.swap(false, Ordering::Relaxed);
            !idle
        });
    }
}

impl Pool {
    pub fn new(config: &ProxyConfig) -> Self {
        Self {
            dialer: Dialer::new(config.tls.clone(), config.connect_timeout),
            idle_timeout: config.idle_timeout,
            slots: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// A share of a connection to the controller, opened if need be.
    pub async fn lease(&self, entry: &Entry) -> Result<Lease, DialError> {
        let slot = self.slot(entry);
        match self.pick(&slot) {
            Pick::Now(connection) => Ok(Lease::new(connection, &slot)),
            Pick::Soon(dialing) => Ok(Lease::new(dialing.await?, &slot)),
        }
    }

    /// The slot of the entry; one that was made for another address is replaced.
    fn slot(&self, entry: &Entry) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        match slots.get(&entry.id) {
            Some(slot) if slot.entry.address == entry.address => slot.clone(),
            _ => {
                let slot = Arc::new(Slot { entry: entry.clone(), state: Mutex::default() });
                slots.insert(entry.id.clone(), slot.clone());
                slot
            }
        }
    }

    fn pick(&self, slot: &Arc<Slot>) -> Pick {
        let mut state = slot.state.lock();
        let streams = |connection: &Arc<Connection>| connection.streams.load(Ordering::Relaxed);
        let best = state.open.iter().min_by_key(|connection| streams(connection)).cloned();
        if let Some(connection) = &best
            && (streams(connection) < STREAMS_PER_CONNECTION
                || state.open.len() >= CONNECTIONS_PER_CONTROLLER_MAX)
        {
            return Pick::Now(connection.clone());
        }
        let dialing = state.dialing.get_or_insert_with(|| self.start_dialing(slot)).clone();
        best.map_or(Pick::Soon(dialing), Pick::Now)
    }

    /// Opens a connection in a task of its own, which then drives it until its end. That way the
    /// attempt goes on when the call that asked for it is cancelled.
    fn start_dialing(&self, slot: &Arc<Slot>) -> Dialing {
        let (answer, answered) = oneshot::channel();
        let task = open(slot.clone(), self.dialer.clone(), self.idle_timeout, answer);
        self.spawn(task);
        let stopped = DialError::new(&slot.entry, "the registry is stopping");
        answered.map(|result| result.unwrap_or(Err(stopped))).boxed().shared()
    }

    /// Runs something for one stream that may outlive the call that began it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Follows the directory, so that connections to controllers that moved or left are let go of
    /// even if nobody calls them any more.
    pub async fn follow(&self, directory: &dyn ControllerDirectory) {
        let mut changes = directory.changes();
        while let Some(change) = changes.next().await {
            match change {
                Change::Put(entry) => self.forget(&entry.id, Some(&entry)),
                Change::Removed(id) => self.forget(&id, None),
                Change::Missed => self.slots.lock().clear(),
            }
        }
    }

    fn forget(&self, id: &ControllerId, unless: Option<&Entry>) {
        let mut slots = self.slots.lock();
        if slots.get(id).is_some_and(|slot| Some(&slot.entry) != unless) {
            slots.remove(id);
        }
    }

    /// Closes all connections, also those with streams on them.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn open(
    slot: Arc<Slot>,
    dialer: Dialer,
    idle_timeout: Duration,
    answer: oneshot::Sender<Result<Arc<Connection>, DialError>>,
) {
    let (connection, driver) = match dialer.dial(&slot.entry).await {
        Ok((sender, driver)) => {
            (Connection { sender, streams: 0.into(), used: true.into() }, driver)
        }
        Err(error) => {
            tracing::warn!(%error, "no connection to a controller");
            slot.dialed(None);
            // Nobody may be waiting any more, and then nobody needs to know.
            let _unheard = answer.send(Err(error));
            return;
        }
    };
    let connection = Arc::new(connection);
    slot.dialed(Some(&connection));
    let weak = Arc::downgrade(&connection);
    let _unheard = answer.send(Ok(connection));
    drive(driver, &slot, &weak, idle_timeout).await;
}

/// Moves the connection's bytes until it ends. It ends by itself once it has left the pool and its
/// last stream is done, since nothing can send on it any more.
async fn drive(mut driver: Driver, slot: &Slot, connection: &Weak<Connection>, idle: Duration) {
    loop {
        tokio::select! {
            ended = &mut driver => {
                if let Err(error) = ended {
                    tracing::debug!(controller = %slot.entry.id, %error, "a connection broke");
                }
                break;
            }
            () = tokio::time::sleep(idle) => slot.retire_if_idle(connection),
        }
    }
    if let Some(connection) = connection.upgrade() {
        slot.remove(&connection);
    }
}
