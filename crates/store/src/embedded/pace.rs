//! How many commits are worth waiting for. Pure.
//!
//! A sync costs the same for one commit as for fifty. Where many write at once, those who were just answered come
//! again within a moment, and a group that begins with the first of them makes all others wait for a sync of its
//! own. So a group begins when a quarter of those who lately wrote are there:
//!
//! ```text
//!   committer    | some |   | others |   | some |
//!   connections  | others .. | some .. | others
//! ```
//! Nobody waits for all, and nobody who writes alone waits at all. Those whose connections share a thread come together anyway,
//! at the end of its turn ([`crate::wakes`]).

use std::time::Duration;

/// The longest wait for more: where a sync takes longer, it is not the number of syncs that matters.
const PATIENCE_MAX: Duration = Duration::from_millis(1);

/// What the committer would like to have before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub commits: usize,
    /// How long it waits for them once there is one.
    pub patience: Duration,
}

/// How many write at the same time, as far as it can be seen.
#[derive(Debug, Default)]
pub(super) struct Pace {
    crowd: usize,
    took: Duration,
}

impl Pace {
    pub fn wish(&self) -> Wish {
        Wish { commits: self.crowd / 4, patience: self.took.min(PATIENCE_MAX) }
    }

    /// Takes in how long a group took, how many were in it, and how many had come at its end.
    pub fn note(&mut self, group: usize, waiting: usize, took: Duration) {
        let fewer = self.crowd - self.crowd.div_ceil(8);
        self.crowd = fewer.max(group + waiting);
        self.took = took;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOOK: Duration = Duration::from_micros(300);

    /// The pace after groups of so many, with so many waiting at their ends.
    fn after(groups: &[(usize, usize)]) -> Pace {
        let mut pace = Pace::default();
        groups.iter().for_each(|(group, waiting)| pace.note(*group, *waiting, TOOK));
        pace
    }

    #[test]
    fn a_quarter_of_those_who_write_are_waited_for() {
        assert_eq!(after(&[]).wish().commits, 0, "nobody is known");
        assert_eq!(after(&[(1, 0)]).wish().commits, 0, "one who writes alone");
        assert_eq!(after(&[(3, 4)]).wish().commits, 1, "a few do not wait for each other");
        assert_eq!(after(&[(4, 4)]).wish().commits, 2);
        assert_eq!(after(&[(32, 32)]).wish().commits, 16);
        assert_eq!(after(&[(1, 63), (20, 5)]).wish().commits, 14, "most of them come again");
    }

    #[test]
    fn whoever_left_is_forgotten() {
        let alone = [(1, 0); 24];
        assert_eq!(after(&[[(32, 32)].as_slice(), &alone].concat()).wish().commits, 0);
    }

    #[test]
    fn a_wait_is_never_longer_than_the_group_before_took() {
        assert_eq!(after(&[(4, 4)]).wish().patience, TOOK);
        let mut slow = Pace::default();
        slow.note(4, 4, Duration::from_secs(2));
        assert_eq!(slow.wish().patience, PATIENCE_MAX);
    }

    proptest! {
        /// Nobody waits for more than were ever there at once.
        #[test]
        fn no_more_are_wished_for_than_were_there(
            groups in prop::collection::vec((1_usize..512, 0_usize..1024), 0..50),
        ) {
            let most = groups.iter().map(|(group, waiting)| group + waiting).max().unwrap_or(0);
            prop_assert!(after(&groups).wish().commits <= most / 4);
        }
    }
}
