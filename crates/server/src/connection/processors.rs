//! A processor for each thread of connections.
//!
//! Whoever answers connections wakes their threads, and the kernel likes to put who is woken where the one is that
//! wakes. Then all of them are on one processor for a while, and another one rests:
//!
//! ```text
//!   free    processor 0:  committer, connections-0, connections-1     processor 1:  -
//!   kept    processor 0:  committer, connections-0                    processor 1:  connections-1
//! ```
//! Everything else runs where there is room, and gets out of their way.
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this process may use.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    all: CpuSet,
}

impl Processors {
    /// Those of the calling thread. None where the kernel does not tell.
    pub fn allowed() -> Option<Self> {
        let all = sched_getaffinity(None);
        let all = all.inspect_err(|error| tracing::debug!(%error, "processors are not known"));
        Some(Self { all: all.ok()? })
    }

    pub(super) fn numbers(&self) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|number| self.all.is_set(*number)).collect()
    }

    /// Keeps the calling thread, one of so many, on a processor of its own; where there is not exactly one for each of
    /// them, the kernel knows better.
    pub fn keep(&self, thread: usize, threads: usize) {
        if let Some(number) = place(&self.numbers(), thread, threads) {
            let mut one = CpuSet::new();
            one.set(number);
            let kept = sched_setaffinity(None, &one);
            // It runs as well elsewhere.
            let _ = kept.inspect_err(|error| tracing::debug!(%error, "a thread is not kept"));
        }
    }

    /// Lets the calling thread run anywhere again.
    pub fn leave(&self) {
        let left = sched_setaffinity(None, &self.all);
        let _ = left.inspect_err(|error| tracing::debug!(%error, "a thread stays kept"));
    }
}

/// The processor of a thread. Pure.
fn place(allowed: &[usize], thread: usize, threads: usize) -> Option<usize> {
    (allowed.len() == threads && 1 < threads).then(|| allowed.get(thread).copied()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_for_each_or_none_is_kept() {
        let places = |allowed: &[usize], threads: usize| -> Vec<Option<usize>> {
            (0..threads).map(|thread| place(allowed, thread, threads)).collect()
        };
        assert_eq!(places(&[0, 1], 2), [Some(0), Some(1)]);
        assert_eq!(places(&[3, 5, 9], 3), [Some(3), Some(5), Some(9)]);
        assert_eq!(places(&[0, 1, 2, 3], 2), [None; 2], "a quota of two, on any of four");
        assert_eq!(places(&[0, 1], 3), [None; 3]);
        assert_eq!(places(&[4], 1), [None], "it has no other");
    }

    #[test]
    fn who_was_kept_can_leave() {
        let run = || {
            let all = Processors::allowed().expect("they are known");
            let numbers = all.numbers();
            all.keep(0, numbers.len());
            let kept = Processors::allowed().expect("they are known").numbers();
            assert_eq!(kept, numbers[..1]);
            all.leave();
            assert_eq!(Processors::allowed().expect("they are known").numbers(), numbers);
        };
        std::thread::spawn(run).join().expect("no panic");
    }
}
