//! Wakes that are kept back until everything that belongs together is said.
//!
//! Whoever answers many at once wakes a thread with the first answer. That thread takes the processor, answers its
//! one peer, and sleeps again; then comes the second answer. Kept back, the wakes of all of them are one, in both
//! directions:
//!
//! ```text
//!   a turn of a thread of connections:  commit commit ... commit | wake the committer
//!   the committer, when it has synced:  answer answer ... answer | wake each thread of connections, once
//! ```
//! Only those who are patient are kept waiting, and only by the work that they can wait for: the committer waits for a
//! turn of its writers, and a thread of connections for the answers to a group. Whatever else wakes them, wakes at once.

use std::{
    cell::RefCell,
    sync::Arc,
    task::{Wake, Waker},
};

use futures::task::AtomicWaker;

/// What a thread does together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Commits of one turn, which the committer waits for.
    Commits,
    /// Answers to one group, which threads of connections wait for.
    Answers,
}

#[derive(Debug)]
struct Kept {
    work: Work,
    wakers: Vec<Waker>,
}

thread_local! {
    /// Whom this thread will wake; `None` where wakes are not kept back.
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Wakes somebody who can wait until all of such work is done, where this thread is at it.
pub fn patiently(work: Work, waker: &Waker) {
    let keep = |kept: &mut Option<Kept>| match kept {
        Some(kept) if kept.work == work => {
            if !kept.wakers.iter().any(|other| other.will_wake(waker)) {
                kept.wakers.push(waker.clone());
            }
            true
        }
        Some(_) | None => false,
    };
    // A thread that ends does nothing together any more.
    if !KEPT.try_with(|kept| keep(&mut kept.borrow_mut())).unwrap_or(false) {
        waker.wake_by_ref();
    }
}

/// Does the work, and then wakes everybody who was called [`patiently`] in it, each once.
pub fn together<T>(work: Work, doing: impl FnOnce() -> T) -> T {
    let is_within = KEPT.with_borrow(|kept| kept.as_ref().is_some_and(|kept| kept.work == work));
    let _end = (!is_within).then(|| {
        let kept = Kept { work, wakers: Vec::new() };
        End { outer: KEPT.replace(Some(kept)) }
    });
    doing()
}

/// Wakes in any case, even if the work panics.
struct End {
    /// The other work that this was a part of.
    outer: Option<Kept>,
}

impl Drop for End {
    fn drop(&mut self) {
        let kept = KEPT.replace(self.outer.take());
        kept.into_iter().flat_map(|kept| kept.wakers).for_each(Waker::wake);
    }
}

/// Stands between a task of many parts and those who wake them: it can wait until all of them were called.
#[derive(Debug, Default)]
pub struct Patient {
    task: Arc<Task>,
}

#[derive(Debug, Default)]
struct Task(AtomicWaker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl Patient {
    /// The task that is woken, until the next time.
    pub fn register(&self, task: &Waker) {
        self.task.0.register(task);
    }
}

impl Wake for Patient {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        patiently(Work::Answers, &Waker::from(Arc::clone(&self.task)));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::catch_unwind,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A patient with its waker and the number of times that its task was woken.
    fn patient() -> (Arc<Patient>, Waker, impl Fn() -> usize) {
        let (patient, count) = (Arc::new(Patient::default()), Arc::new(Count::default()));
        patient.register(&Waker::from(Arc::clone(&count)));
        let waker = Waker::from(Arc::clone(&patient));
        (patient, waker, move || count.0.load(Ordering::SeqCst))
    }

    #[test]
    fn alone_a_wake_is_a_wake() {
        let (_patient, waker, woken) = patient();
        waker.wake_by_ref();
        assert_eq!(woken(), 1);
    }

    #[test]
    fn together_each_is_woken_once_and_at_the_end() {
        let [(_a, first, first_woken), (_b, second, second_woken)] = [patient(), patient()];
        together(Work::Answers, || {
            (0..3).for_each(|_| first.wake_by_ref());
            // What is done together within the same is the same.
            together(Work::Answers, || second.wake_by_ref());
            assert_eq!((first_woken(), second_woken()), (0, 0));
        });
        assert_eq!((first_woken(), second_woken()), (1, 1));
        first.wake();
        assert_eq!(first_woken(), 1, "its task was woken and has not asked to be woken again");
    }

    #[test]
    fn whoever_is_called_patiently_is_woken_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        patiently(Work::Commits, &waker);
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "at once, where nothing is done together");
        together(Work::Commits, || {
            (0..3).for_each(|_| patiently(Work::Commits, &waker));
            assert_eq!(count.0.load(Ordering::SeqCst), 1);
        });
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn who_does_something_else_together_keeps_nobody_waiting() {
        let (_patient, waker, woken) = patient();
        together(Work::Commits, || {
            waker.wake_by_ref();
            assert_eq!(woken(), 1, "it may have its own sockets to look at");
        });
        assert_eq!(woken(), 1, "and not once more");
    }

    #[test]
    fn work_within_other_work_wakes_its_own() {
        let [inner, outer] = [Arc::new(Count::default()), Arc::new(Count::default())];
        let woken = || [&inner, &outer].map(|count| count.0.load(Ordering::SeqCst));
        together(Work::Commits, || {
            patiently(Work::Commits, &Waker::from(Arc::clone(&outer)));
            together(Work::Answers, || patiently(Work::Answers, &Waker::from(Arc::clone(&inner))));
            assert_eq!(woken(), [1, 0]);
        });
        assert_eq!(woken(), [1, 1]);
    }

    #[test]
    fn who_is_called_from_another_thread_is_woken_at_once() {
        let (_patient, waker, woken) = patient();
        together(Work::Answers, || {
            std::thread::spawn(move || waker.wake()).join().expect("no panic");
            assert_eq!(woken(), 1);
        });
    }

    #[test]
    fn a_panic_leaves_nobody_asleep() {
        let (_patient, waker, woken) = patient();
        let work = move || {
            together(Work::Answers, || {
                waker.wake_by_ref();
                panic!("planted");
            })
        };
        catch_unwind(std::panic::AssertUnwindSafe(work)).expect_err("it was planted");
        assert_eq!(woken(), 1);
        let (_patient, waker, woken) = patient();
        waker.wake();
        assert_eq!(woken(), 1, "nothing is kept back after it");
    }
}
