//! The operations that a driver is working on. They belong to the driver and not to a connection:
//! one whose connection breaks goes on, and the server finds its outcome when it asks again with
//! the same idempotency key.
//!
//! ```text
//!   operation --key known, running--> joins it        \
//!             --key known, done-----> its answer       > answer under the operation's own id
//!             --otherwise-----------> starts          /
//! ```
use crate::model::{Driver, Request};
use crate::wire::{Kind, succeeded};
use crate::{Error, ErrorCode};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use orrery_proto::infragrpc::driver_side::Response;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

/// How long a finished operation is remembered: longer than a server takes to come back and ask.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// How many are remembered at most; the oldest go first.
const REMEMBERED_MAX: usize = 4096;
/// Operations that wait for a place, beyond those that run. A server that keeps the contract never
/// sends more than run at once.
const QUEUED_MAX: usize = 1024;

type Key = (Kind, String);
type Outcome = Shared<BoxFuture<'static, Response>>;

/// An operation under way.
#[derive(Clone)]
pub(crate) struct Running {
    pub outcome: Outcome,
    /// Tells this attempt from a later one with the same key.
    attempt: u64,
    askers: Arc<Mutex<usize>>,
    cancel: CancellationToken,
}

impl Running {
    /// One of those who asked does not want it any more; with the last of them it is cancelled.
    pub fn give_up(&self) {
        let mut askers = self.askers.lock();
        *askers = askers.saturating_sub(1);
        if *askers == 0 {
            self.cancel.cancel();
        }
    }
}

enum Entry {
    Running(Running),
    Done(Response),
}

#[derive(Default)]
struct Memory {
    entries: HashMap<Key, Entry>,
    /// Finished ones, oldest first.
    finished: VecDeque<(Instant, Key)>,
    attempts: u64,
}

/// Everything a driver is doing.
pub(crate) struct Work {
    driver: Arc<dyn Driver>,
    places: Arc<Semaphore>,
    places_total: usize,
    memory: Arc<Mutex<Memory>>,
    tasks: TaskTracker,
}

/// How an operation is answered.
pub(crate) enum Answer {
    Now(Response),
    Later(Running),
}

impl Work {
    pub fn new(driver: Arc<dyn Driver>, places_total: usize) -> Self {
        Self {
            driver,
            places: Arc::new(Semaphore::new(places_total)),
            places_total,
            memory: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    pub fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Completes when nothing is under way any more.
    pub async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub fn begin(&self, kind: Kind, request: Request) -> Answer {
        if request.idempotency_key.is_empty() {
            return self.start(kind, request, None, 0);
        }
        let key = (kind, request.idempotency_key.clone());
        let mut memory = self.memory.lock();
        memory.forget_before(Instant::now());
        match memory.entries.get(&key) {
            Some(Entry::Done(response)) => return Answer::Now(response.clone()),
            Some(Entry::Running(running)) if !running.cancel.is_cancelled() => {
                *running.askers.lock() += 1;
                return Answer::Later(running.clone());
            }
            Some(Entry::Running(_)) | None => {}
        }
        memory.attempts += 1;
        let attempt = memory.attempts;
        let answer = self.start(kind, request, Some(key.clone()), attempt);
        if let Answer::Later(running) = &answer {
            memory.entries.insert(key, Entry::Running(running.clone()));
        }
        answer
    }

    fn start(&self, kind: Kind, request: Request, key: Option<Key>, attempt: u64) -> Answer {
        if self.tasks.len() >= self.places_total + QUEUED_MAX {
            let busy = Error::unavailable("the driver has too much to do; try again");
            return Answer::Now(kind.failed(busy));
        }
        let cancel = CancellationToken::new();
        let (driver, places, memory) =
            (self.driver.clone(), self.places.clone(), self.memory.clone());
        let operation = run(driver, places, kind, request, cancel.clone());
        let task = self.tasks.spawn(async move {
            let response = operation.await;
            if let Some(key) = key {
                memory.lock().finish(key, attempt, &response, Instant::now());
            }
            response
        });
        let outcome = async move {
            task.await.unwrap_or_else(|error| {
                kind.failed(Error::internal(format!("the operation ended badly: {error}")))
            })
        };
        let outcome = outcome.boxed().shared();
        Answer::Later(Running { outcome, attempt, askers: Arc::new(Mutex::new(1)), cancel })
    }
}

/// One operation, from its place in line to its answer. A panic of the driver is the error of one
/// operation.
async fn run(
    driver: Arc<dyn Driver>,
    places: Arc<Semaphore>,
    kind: Kind,
    request: Request,
    cancel: CancellationToken,
) -> Response {
    let span = tracing::info_span!(
        "operation",
        ?kind,
        machine = request.machine_name,
        trace_parent = request.trace_parent
    );
    let deadline = request.deadline;
    let work = async move {
        let _place = places.acquire().await;
        let done = std::panic::AssertUnwindSafe(kind.perform(driver.as_ref(), &request));
        done.catch_unwind().await.unwrap_or_else(|_| Err(Error::internal("the driver panicked")))
    };
    let limited = async {
        match deadline {
            None => work.await,
            Some(deadline) => timeout_at(deadline, work).await.unwrap_or_else(|_| Err(too_late())),
        }
    };
    let outcome = cancel.run_until_cancelled(limited).instrument(span.clone()).await;
    let outcome = outcome.unwrap_or_else(|| Err(cancelled()));
    span.in_scope(|| match outcome {
        Ok(response) => {
            tracing::info!("done");
            response
        }
        Err(error) => {
            tracing::warn!(code = ?error.code, %error, "failed");
            kind.failed(error)
        }
    })
}

fn too_late() -> Error {
    Error::new(ErrorCode::DeadlineExceeded, "the operation was not done by its deadline")
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the server cancelled the operation")
}

impl Memory {
    fn finish(&mut self, key: Key, attempt: u64, response: &Response, now: Instant) {
        if !succeeded(response) {
            if self.is_attempt(&key, attempt) {
                self.entries.remove(&key);
            }
            return;
        }
        self.entries.insert(key.clone(), Entry::Done(response.clone()));
        self.finished.push_back((now, key));
        if self.finished.len() > REMEMBERED_MAX {
            self.forget_oldest();
        }
    }

    fn is_attempt(&self, key: &Key, attempt: u64) -> bool {
        matches!(self.entries.get(key), Some(Entry::Running(it)) if it.attempt == attempt)
    }

    fn forget_before(&mut self, now: Instant) {
        let old = |at: &Instant| now.saturating_duration_since(*at) > REMEMBERED_FOR;
        while self.finished.front().is_some_and(|(at, _)| old(at)) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.finished.pop_front() {
            self.entries.remove(&key);
        }
    }
}
