//! Wakes a task from outside, but not from its own turn: what happens there is seen before the turn ends.
use futures::task::AtomicWaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

#[derive(Default)]
pub struct Relay {
    task: AtomicWaker,
    woken: AtomicBool,
    /// Whether the task runs and looks at `woken` itself.
    turn: AtomicBool,
}

impl Relay {
    /// The task runs: nobody needs to wake it.
    pub fn begin(&self, task: &Waker) {
        self.task.register(task);
        self.turn.store(true, Ordering::SeqCst);
    }

    /// Forgets what happened; what happens from here on is seen by [`Relay::happened`].
    pub fn look(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }

    pub fn happened(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// The turn is over. Whoever came too late to be seen in it wakes the task: either they see that it is
    /// over, or they are seen here.
    pub fn end(&self) {
        self.turn.store(false, Ordering::SeqCst);
        if self.happened() {
            self.task.wake();
        }
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.turn.load(Ordering::SeqCst) {
            self.task.wake();
        }
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
        relay.begin(&task);
        relay.look();
        relay.wake_by_ref();
        assert!(relay.happened() && woken() == 0, "its own turn sees it");
        relay.look();
        relay.end();
        assert_eq!(woken(), 0, "nothing was left");
        relay.wake_by_ref();
        assert_eq!(woken(), 1, "from outside");
        relay.begin(&task);
        relay.look();
        relay.wake_by_ref();
        relay.end();
        assert_eq!(woken(), 2, "what was not looked at in the turn is not lost");
    }
}
