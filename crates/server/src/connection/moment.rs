//! The time as connections see it: read once for a turn of their thread.
//!
//! hyper asks what time it is for every frame that it reads, only to know when a peer was last heard. A turn takes a
//! millisecond or two, and what is minded by this time takes seconds.
use std::cell::Cell;
use tokio::time::Instant;

thread_local! {
    /// When the turn of this thread began; `None` between turns, and on threads that have none.
    static TURN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// When the turn began, or now where there is none.
pub fn now() -> Instant {
    TURN.get().unwrap_or_else(Instant::now)
}

/// Does what belongs to one turn.
pub fn turn<T>(work: impl FnOnce() -> T) -> T {
    TURN.set(Some(Instant::now()));
    let _end = End;
    work()
}

/// The turn is over in any case, even if the work panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        TURN.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_turn_has_one_time_and_ends_with_its_work() {
        let before = now();
        let (first, last) = turn(|| {
            let first = now();
            while Instant::now() == first {}
            (first, now())
        });
        assert_eq!(first, last);
        assert!(before <= first && first < now());
        catch_unwind(|| turn(|| panic!("in a turn"))).expect_err("it panics");
        assert_eq!(TURN.get(), None);
    }
}
