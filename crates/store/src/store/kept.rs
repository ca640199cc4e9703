//! States of the recent past that lists go on from.
//!
//! The first page of a list is read from the present; those after it, from the same state a little
//! later. Going back to it through the history costs what has changed since, for each page; keeping
//! it costs the nodes of the map that have changed since, once.

use std::collections::VecDeque;

use super::snapshot::Snapshot;
use crate::model::Revision;

/// How many lists go on cheaply side by side; those beyond go back through the history.
const KEPT_MAX: usize = 32;

/// The one that was used last stands last.
#[derive(Debug, Default)]
pub(super) struct Kept(VecDeque<Snapshot>);

impl Kept {
    /// The state at this revision, or else the one from which the way back to it is the shortest.
    pub fn nearest(&mut self, revision: Revision) -> Option<Snapshot> {
        let later = self.0.iter().enumerate().filter(|(_, kept)| revision <= kept.revision());
        let (place, found) = later.min_by_key(|(_, kept)| kept.revision())?;
        let found = found.clone();
        if found.revision() == revision {
            self.0.remove(place);
            self.0.push_back(found.clone());
        }
        Some(found)
    }

    pub fn keep(&mut self, snapshot: &Snapshot) {
        self.0.retain(|kept| kept.revision() != snapshot.revision());
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(snapshot.clone());
    }

    /// What nobody can go back to any more is not kept either.
    pub fn forget_before(&mut self, floor: Revision) {
        self.0.retain(|kept| floor <= kept.revision());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::Entries;

    fn at(revision: u64) -> Snapshot {
        Snapshot { entries: Entries::default(), index: None, revision: Revision(revision) }
    }

    fn revisions(kept: &Kept) -> Vec<u64> {
        kept.0.iter().map(|kept| kept.revision().0).collect()
    }

    #[test]
    fn the_shortest_way_back_is_found() {
        let mut kept = Kept::default();
        for revision in [30, 10, 20] {
            kept.keep(&at(revision));
        }
        let mut nearest = |revision| kept.nearest(Revision(revision)).map(|kept| kept.revision().0);
        assert_eq!((nearest(10), nearest(11), nearest(21)), (Some(10), Some(20), Some(30)));
        assert_eq!(nearest(31), None);
    }

    #[test]
    fn only_so_many_are_kept_and_none_that_is_forgotten() {
        let mut kept = Kept::default();
        let many = u64::try_from(KEPT_MAX).expect("a small number");
        (0..many).for_each(|revision| kept.keep(&at(revision)));
        kept.nearest(Revision(0));
        kept.keep(&at(many));
        assert_eq!(kept.0.len(), KEPT_MAX);
        assert!(!revisions(&kept).contains(&1), "it was used the longest time ago");
        assert!(revisions(&kept).contains(&0));
        kept.forget_before(Revision(many - 1));
        assert_eq!(revisions(&kept), [many - 1, many]);
    }
}
