//! Wakes a task from outside, but not from its own turn: what happens there is seen before the turn ends.
use futures::task::AtomicWaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// One of the two that share a task.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Connection,
    Guest,
}

#[derive(Default)]
pub struct Relay {
    task: AtomicWaker,
    /// Which sides were woken, and not looked at yet.
    woken: [AtomicBool; 2],
    /// Whether the task runs and looks at `woken` itself.
    turn: AtomicBool,
}

impl Relay {
    /// What wakes one side.
    pub fn waker(self: &Arc<Self>, side: Side) -> Waker {
        Waker::from(Arc::new(Bell { relay: self.clone(), side }))
    }

    /// The task runs: nobody needs to wake it.
    pub fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.turn.store(true, Ordering::SeqCst);
    }

    /// Whether a side was woken since this was last asked.
    pub fn take(&self, side: Side) -> bool {
        self.woken[side as usize].swap(false, Ordering::SeqCst)
    }

    /// The turn is over. Whoever came too late to be seen in it wakes the task: either they see that it is
    /// over, or they are seen here.
    pub fn end(&self) {
        self.turn.store(false, Ordering::SeqCst);
        if self.woken.iter().any(|woken| woken.load(Ordering::SeqCst)) {
            self.task.wake();
        }
    }

    fn wake(&self, side: Side) {
        self.woken[side as usize].store(true, Ordering::SeqCst);
        if !self.turn.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

struct Bell {
    relay: Arc<Relay>,
    side: Side,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.relay.wake(self.side);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.relay.wake(self.side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_only_when_it_does_not_look_itself() {
        let count = Arc::new(Count::default());
        let woken = || count.0.load(Ordering::SeqCst);
        let task = Waker::from(count.clone());
        let relay = Arc::new(Relay::default());
        let guest = relay.waker(Side::Guest);
        relay.begin(&task);
        guest.wake_by_ref();
        assert!(relay.take(Side::Guest) && woken() == 0, "its own turn sees it");
        assert!(!relay.take(Side::Guest), "once");
        relay.end();
        assert_eq!(woken(), 0, "nothing was left");
        guest.wake_by_ref();
        assert_eq!(woken(), 1, "from outside");
        relay.begin(&task);
        assert!(!relay.take(Side::Connection), "it was the other side");
        relay.end();
        assert_eq!(woken(), 2, "what was not looked at in the turn is not lost");
    }
}
