//! The threads on which connections live.
//!
//! ```text
//!   accepted ──> the thread with the fewest connections:  one task ── connection, connection, connection
//!                                                             │
//!                                          aside ──> the runtime of everything else
//! ```
//! A connection stays where it is, and its thread too: what it needs is woken there, nobody looks for work to take over, and
//! however many connections of a thread are woken from outside at once, the thread is woken once. The price is that
//! whoever computes for long keeps its neighbours waiting, so what may do that runs [`aside`].
use super::moment;
use super::processors::Processors;
use crate::memory;
use crate::operations::ConnectionThreads;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use hyper::rt::Executor as _;
use hyper_util::rt::TokioExecutor;
use orrery_store::wakes::{Patient, Work, together};
use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// Connections that a thread has not looked at yet; whoever accepts waits meanwhile.
const ARRIVALS_MAX: usize = 64;

/// How often a thread looks whether it has little to do, and how often it is woken meanwhile then, at most. Then it
/// gives back the memory that it needs no more: a thousand agents at rest wake it a few hundred times.
const REST_INTERVAL: Duration = Duration::from_secs(3);
const REST_TURNS_MAX: u64 = 3_000;

thread_local! {
    /// The runtime of everything else, on a thread of connections.
    static ELSEWHERE: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Ends its threads when it is dropped.
pub struct Threads {
    /// None if connections are served where everything else is.
    all: Vec<Thread>,
    stop: DropGuard,
}

/// Makes the connection of what was accepted; on the thread where it will live, because a socket belongs to one.
type Arrival = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

struct Thread {
    arrivals: mpsc::Sender<Arrival>,
    /// How many connections live there.
    lives: Arc<AtomicUsize>,
    ended: oneshot::Receiver<()>,
}

impl Threads {
    /// What they run [`aside`] runs where this is called.
    pub fn start(which: ConnectionThreads) -> std::io::Result<Self> {
        let count = match which {
            ConnectionThreads::Own => thread::available_parallelism().map_or(1, usize::from),
            ConnectionThreads::Server => 0,
        };
        let stop = CancellationToken::new();
        let processors = Processors::allowed();
        let start = |at| Thread::start(at, count, processors, stop.child_token());
        let all = (0..count).map(start).collect::<Result<_, _>>()?;
        Ok(Self { all, stop: stop.drop_guard() })
    }

    /// Gives a connection to one of them, which makes it there.
    pub async fn take<F>(&self, connection: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let lives = |thread: &&Thread| thread.lives.load(Ordering::Relaxed);
        let Some(thread) = self.all.iter().min_by_key(lives) else {
            // It ends with its peer, or with the runtime.
            TokioExecutor::new().execute(connection());
            return;
        };
        let life = Life::of(&thread.lives);
        let arrival: Arrival = Box::new(move || alone(connection(), life).boxed());
        if let Err(refused) = thread.arrivals.send(arrival).await {
            // A thread ends only when it is told to. Whatever ended it, whoever comes is served.
            tracing::error!("a thread of connections has ended");
            TokioExecutor::new().execute((refused.0)());
        }
    }

    /// Ends them with everything that is still on them.
    pub async fn end(self) {
        drop(self.stop);
        for thread in self.all {
            // An error means that it has ended, too.
            let _ = thread.ended.await;
        }
    }
}

impl Thread {
    fn start(
        at: usize,
        count: usize,
        processors: Option<Processors>,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        // Whoever blocks for it is not kept where it is.
        let free = move || processors.iter().for_each(Processors::leave);
        let runtime = Builder::new_current_thread().enable_all().on_thread_start(free).build()?;
        let elsewhere = Handle::current();
        let (arrivals, arriving) = mpsc::channel(ARRIVALS_MAX);
        let (told, ended) = oneshot::channel();
        let run = move || {
            processors.iter().for_each(|processors| processors.keep(at, count));
            ELSEWHERE.set(Some(elsewhere));
            // In a task: whatever wakes it on its own thread costs no system call then.
            let living = runtime.spawn(live(arriving));
            runtime.block_on(stop.run_until_cancelled(living));
            // Not waited for: what is on its way to a disk ends by itself.
            runtime.shutdown_background();
            let _ = told.send(());
        };
        thread::Builder::new().name(format!("connections-{at}")).spawn(run)?;
        Ok(Self { arrivals, lives: Arc::default(), ended })
    }
}

/// Lives through all connections that come.
async fn live(mut arriving: mpsc::Receiver<Arrival>) {
    let mut all = FuturesUnordered::new();
    let mut rest = tokio::time::interval(REST_INTERVAL);
    rest.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turns = 0;
    // Commits that are answered together wake the thread once.
    let patient = Arc::new(Patient::default());
    let waker = Waker::from(patient.clone());
    loop {
        let turn = poll_fn(|context| {
            turns += 1;
            patient.register(context.waker());
            let mut context = Context::from_waker(&waker);
            // What they commit is told when all of them have had their turn.
            moment::turn(|| together(Work::Commits, || all.poll_next_unpin(&mut context)))
        });
        tokio::select! {
            biased;
            arrival = arriving.recv() => match arrival {
                Some(arrival) => all.extend(made(arrival)),
                None => break,
            },
            Some(()) = turn => {}
            _ = rest.tick() => {
                if turns < REST_TURNS_MAX {
                    memory::give_back();
                }
                turns = 0;
            }
        }
    }
    while all.next().await.is_some() {}
}

/// The connection, unless that panics, which ends nobody else.
fn made(arrival: Arrival) -> Option<BoxFuture<'static, ()>> {
    let made = catch_unwind(AssertUnwindSafe(arrival));
    made.inspect_err(|_| tracing::error!("a connection panicked before it began")).ok()
}

/// As in a task of its own: whoever panics takes nobody else along.
async fn alone(connection: impl Future<Output = ()>, _life: Life) {
    if AssertUnwindSafe(connection).catch_unwind().await.is_err() {
        tracing::error!("a connection panicked");
    }
}

/// A connection that is counted.
struct Life(Arc<AtomicUsize>);

impl Life {
    fn of(lives: &Arc<AtomicUsize>) -> Self {
        lives.fetch_add(1, Ordering::Relaxed);
        Self(lives.clone())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs what may take long where it keeps no connections waiting. It ends with whoever waits for it.
pub async fn aside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let Some(elsewhere) = elsewhere() else { return work.await };
    match AbortOnDropHandle::new(elsewhere.spawn(work)).await {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The process ends, and with it whoever waits.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

/// Begins what nobody waits for, beside the connection.
pub fn beside(work: impl Future<Output = ()> + Send + 'static) {
    match elsewhere() {
        Some(elsewhere) => drop(elsewhere.spawn(work)),
        None => TokioExecutor::new().execute(work),
    }
}

fn elsewhere() -> Option<Handle> {
    ELSEWHERE.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests;
