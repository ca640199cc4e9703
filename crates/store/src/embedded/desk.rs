//! Who does the committing: a thread of its own, which takes all that waits at once; or, for a commit that
//! comes alone, its caller.
//!
//! ```text
//!   many at once   caller ─▶ queue ─▶ thread: one batch, one sync ─▶ all callers
//!   one at a time  caller: one batch, one sync
//! ```
//!
//! To wake a thread and to be woken by it takes about as long as a quick disk takes to sync. Whoever
//! commits while nobody else does need not wait for either.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{mpsc, oneshot},
};

use super::{
    closed,
    committer::{Committer, Request},
};
use crate::{
    error::{Error, OpenError},
    model::{Op, Revision},
};

/// The most commits in one sync: enough that the sync no longer matters per commit.
const GROUP_COMMITS_MAX: usize = 512;

/// The most bytes in one sync, so that a burst of large values does not make all others wait.
const GROUP_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Desk {
    /// `None` once closed, or when it panicked.
    committer: Mutex<Option<Committer>>,
    /// How many commits are under way. Among many, whoever goes ahead alone would only make the
    /// groups of the others smaller.
    under_way: AtomicUsize,
}

impl Desk {
    /// The desk, and its thread, which ends when every sender of requests is gone.
    pub fn open(
        committer: Committer,
        requests: mpsc::Receiver<Request>,
    ) -> Result<(Arc<Self>, thread::JoinHandle<()>), OpenError> {
        let (committer, under_way) = (Mutex::new(Some(committer)), AtomicUsize::new(0));
        let desk = Arc::new(Self { committer, under_way });
        let own = Arc::clone(&desk);
        let thread = thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn(move || own.run(requests))
            .map_err(|e| Error::unavailable(format!("cannot start the committer: {e}")))?;
        Ok((desk, thread))
    }

    fn run(&self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut committer = self.committer.lock();
            let group = collect(first, &mut requests);
            serve(&mut committer, group);
        }
    }

    /// Commits, and waits for the answer.
    pub async fn commit(
        &self,
        ops: Vec<Op>,
        queue: mpsc::Sender<Request>,
    ) -> Result<Revision, Error> {
        let _present = Present::at(&self.under_way);
        // Whoever commits in the same moment, in the same task even, is seen after this.
        tokio::task::yield_now().await;
        let (answer, answered) = oneshot::channel();
        if let Some(request) = self.serve_alone(Request { ops, answer }) {
            queue.send(request).await.map_err(|_| closed())?;
        }
        answered.await.map_err(|_| Error::Uncertain {
            reason: "the engine stopped before it answered".to_owned(),
        })?
    }

    /// Serves a request at once, if it is the only one and this thread may wait for the disk; gives it
    /// back otherwise.
    fn serve_alone(&self, request: Request) -> Option<Request> {
        if self.under_way.load(Ordering::Relaxed) != 1 || !may_wait() {
            return Some(request);
        }
        let Some(mut committer) = self.committer.try_lock() else { return Some(request) };
        tokio::task::block_in_place(|| serve(&mut committer, vec![request]));
        None
    }

    /// Lets go of the files. To be called when the thread has ended.
    pub fn close(&self) {
        self.committer.lock().take();
    }
}

/// One of those who commit, until it is dropped.
struct Present<'a>(&'a AtomicUsize);

impl<'a> Present<'a> {
    fn at(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A committer that panics does not come back: nobody knows what it left undone. Whoever waits for an
/// answer is told that there is none.
fn serve(place: &mut Option<Committer>, group: Vec<Request>) {
    let Some(mut committer) = place.take() else { return };
    committer.serve(group);
    *place = Some(committer);
}

/// Whether the tasks of this thread can go on elsewhere while it waits.
fn may_wait() -> bool {
    let handle = Handle::try_current();
    handle.is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

fn collect(first: Request, requests: &mut mpsc::Receiver<Request>) -> Vec<Request> {
    let mut bytes = first.bytes();
    let mut group = vec![first];
    while group.len() < GROUP_COMMITS_MAX && bytes < GROUP_BYTES_MAX {
        let Ok(next) = requests.try_recv() else { break };
        bytes += next.bytes();
        group.push(next);
    }
    group
}
