//! Commits on their way to the committer, who takes them in groups.

use std::{
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use super::{closed, committer::Request, pace::Wish};
use crate::{
    error::Error,
    wakes::{self, Work},
};

/// How many commits wait for the committer before callers do. A few groups' worth: more would
/// only hide that the disk is the bottleneck.
const WAITING_MAX: usize = 1024;

/// The most commits in one sync: enough that the sync no longer matters per commit.
const GROUP_COMMITS_MAX: usize = 512;

/// The most bytes in one sync, so that a burst of large values does not make all others wait.
const GROUP_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Queue {
    line: Mutex<Line>,
    /// There are as many as the committer waits for, or there will be no more.
    ripe: Arc<Ripe>,
    /// Says so.
    ripen: Waker,
    room: Semaphore,
}

/// Where the committer waits.
#[derive(Debug, Default)]
struct Ripe(Condvar);

impl Wake for Ripe {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[derive(Debug, Default)]
struct Line {
    waiting: Vec<Request>,
    /// The committer waits for so many; none while it is at work.
    wanted: usize,
    closed: bool,
}

impl Queue {
    pub fn new() -> Self {
        let room = Semaphore::new(WAITING_MAX);
        let ripe = Arc::new(Ripe::default());
        let ripen = Waker::from(Arc::clone(&ripe));
        Self { line: Mutex::default(), ripe, ripen, room }
    }

    pub async fn put(&self, request: Request) -> Result<(), Error> {
        // Given back when the committer takes the request.
        self.room.acquire().await.map_err(|_| closed())?.forget();
        let mut line = self.line.lock();
        if line.closed {
            return Err(closed());
        }
        line.waiting.push(request);
        let ripe = line.is_ripe();
        drop(line);
        if ripe {
            // Whoever has more to commit in the same turn says so once. Others do not wait for that turn.
            wakes::patiently(Work::Commits, &self.ripen);
        }
        Ok(())
    }

    /// Lets nobody in any more. Those who wait are still taken.
    pub fn close(&self) {
        self.line.lock().closed = true;
        self.room.close();
        self.ripe.0.notify_one();
    }

    /// The same when there is nobody to take them: they are told so by the end of their channels.
    pub fn abandon(&self) {
        self.close();
        self.line.lock().waiting.clear();
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.line.lock().waiting.len()
    }

    /// The next group, in order: what waits, with more that comes in time where more is wished for. None at the end.
    pub fn take(&self, wish: Wish) -> Option<Vec<Request>> {
        let mut line = self.line.lock();
        line.wanted = 1;
        self.ripe.0.wait_while(&mut line, |line| line.lacks(1));
        line.wanted = wish.commits;
        self.ripe.0.wait_while_for(&mut line, |line| line.lacks(wish.commits), wish.patience);
        line.wanted = 0;
        let group = line.group();
        self.room.add_permits(group.len());
        (!group.is_empty()).then_some(group)
    }
}

impl Line {
    /// Whether there are fewer, and more may come.
    fn lacks(&self, commits: usize) -> bool {
        self.waiting.len() < commits && !self.closed
    }

    /// Whether those who wait are as many as the committer waits for.
    fn is_ripe(&self) -> bool {
        self.wanted != 0 && self.wanted <= self.waiting.len()
    }

    /// Takes as many of those who wait as go into one group.
    fn group(&mut self) -> Vec<Request> {
        let mut bytes = 0;
        let fits = |request: &&Request| {
            let before = bytes;
            bytes += request.bytes();
            before < GROUP_BYTES_MAX
        };
        let count = self.waiting.iter().take(GROUP_COMMITS_MAX).take_while(fits).count();
        self.waiting.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread, time::Duration};

    use tokio::sync::oneshot;

    use super::*;
    use crate::model::{Expect, Op};

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(600);

    fn wish(commits: usize, patience: Duration) -> Wish {
        Wish { commits, patience }
    }

    fn request(bytes: usize) -> Request {
        let ops = vec![Op::put("k", vec![0; bytes], Expect::Absent)];
        Request { ops, answer: oneshot::channel().0 }
    }

    fn put(queue: &Queue, bytes: usize) {
        futures::executor::block_on(queue.put(request(bytes))).expect("there is room");
    }

    fn taken(queue: &Queue, wish: Wish) -> Option<usize> {
        queue.take(wish).map(|group| group.len())
    }

    #[test]
    fn what_waits_is_taken_at_once_where_no_more_is_wished_for() {
        let queue = Queue::new();
        (0..3).for_each(|_| put(&queue, 10));
        assert_eq!(taken(&queue, wish(3, LONG)), Some(3));
    }

    #[test]
    fn a_wish_is_waited_for() {
        let queue = Arc::new(Queue::new());
        put(&queue, 10);
        let taking = thread::spawn({
            let queue = Arc::clone(&queue);
            move || taken(&queue, wish(3, LONG))
        });
        while queue.line.lock().wanted != 3 {
            thread::yield_now();
        }
        put(&queue, 10);
        assert!(!taking.is_finished(), "two are not three");
        put(&queue, 10);
        assert_eq!(taking.join().expect("no panic"), Some(3));
    }

    #[test]
    fn nobody_waits_for_the_turn_of_somebody_else() {
        let queue = Arc::new(Queue::new());
        let taking = thread::spawn({
            let queue = Arc::clone(&queue);
            move || taken(&queue, wish(0, Duration::ZERO))
        });
        while queue.line.lock().wanted != 1 {
            thread::yield_now();
        }
        wakes::together(Work::Commits, || {
            put(&queue, 10);
            thread::scope(|scope| scope.spawn(|| put(&queue, 10)).join().expect("no panic"));
            assert_eq!(taking.join().expect("no panic"), Some(2), "this turn is not over");
        });
    }

    #[test]
    fn patience_ends() {
        let queue = Queue::new();
        put(&queue, 10);
        assert_eq!(taken(&queue, wish(1000, Duration::from_millis(1))), Some(1));
    }

    #[test]
    fn a_group_is_bounded_in_number_and_in_bytes() {
        let queue = Queue::new();
        (0..GROUP_COMMITS_MAX + 1).for_each(|_| put(&queue, 10));
        let none = wish(0, Duration::ZERO);
        assert_eq!(taken(&queue, none), Some(GROUP_COMMITS_MAX));
        assert_eq!(taken(&queue, none), Some(1));
        (0..3).for_each(|_| put(&queue, GROUP_BYTES_MAX / 2));
        assert_eq!(taken(&queue, none), Some(2));
        assert_eq!(taken(&queue, none), Some(1));
    }

    #[test]
    fn who_finds_no_room_waits_for_it() {
        let queue = Queue::new();
        (0..WAITING_MAX).for_each(|_| put(&queue, 1));
        let mut late = Box::pin(queue.put(request(1)));
        let waker = futures::task::noop_waker();
        let mut context = std::task::Context::from_waker(&waker);
        assert!(late.as_mut().poll(&mut context).is_pending());
        assert_eq!(taken(&queue, wish(0, Duration::ZERO)), Some(GROUP_COMMITS_MAX));
        assert!(late.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn at_the_end_those_who_wait_are_taken_and_nobody_else_is_let_in() {
        let queue = Queue::new();
        put(&queue, 10);
        queue.close();
        futures::executor::block_on(queue.put(request(1))).expect_err("it is closed");
        assert_eq!(taken(&queue, wish(5, LONG)), Some(1));
        assert_eq!(taken(&queue, wish(5, LONG)), None);
    }

    #[test]
    fn who_is_abandoned_is_told() {
        let queue = Queue::new();
        let (answer, mut answered) = oneshot::channel();
        let ops = vec![Op::put("k", "v", Expect::Absent)];
        futures::executor::block_on(queue.put(Request { ops, answer })).expect("there is room");
        queue.abandon();
        assert_eq!(answered.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
