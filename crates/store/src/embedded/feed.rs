//! From the committer to followers and watchers: to followers before a commit is acknowledged, to watchers
//! afterwards; recent commits from memory, older ones from the log.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Shared, closed, followers::Followers, options::count, reader};
use crate::{
    engine::{Batch, Change, Changes, Follower, Watch},
    error::Error,
    model::Revision,
};

/// How many recent commits are kept in memory. The cache in front of the engine is rarely more
/// than a group behind; whoever is further behind reads the log.
const RECENT_COMMITS_MAX: usize = 1024;

/// How many bytes of values they may hold.
const RECENT_BYTES_MAX: usize = 16 << 20;

/// How many commits a watcher reads from the log at once.
const REPLAY: usize = 256;

/// How long a watcher that was woken for nothing under its prefix rests before it looks again: whoever commits much
/// elsewhere does not wake it for each group.
const REST: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Feed {
    /// Locked before `recent`, and for as long as commits are handed on.
    followers: Mutex<Followers>,
    recent: Mutex<Recent>,
    /// The last durable commit that followers have.
    reached: AtomicU64,
    /// The last durable commit; `None` once closed.
    head: watch::Sender<Option<Revision>>,
}

#[derive(Debug)]
struct Recent {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    /// The newest commit that is not in `batches`.
    floor: Revision,
}

impl Feed {
    pub fn new(head: Revision) -> Self {
        let recent = Recent { batches: VecDeque::new(), bytes: 0, floor: head };
        let (followers, recent) = (Mutex::default(), Mutex::new(recent));
        let reached = AtomicU64::new(head.0);
        Self { followers, recent, reached, head: watch::Sender::new(Some(head)) }
    }

    pub fn head(&self) -> Revision {
        Revision(self.reached.load(Ordering::Acquire))
    }

    /// Called by the committer alone, with commits that are durable, in order, before it acknowledges them.
    pub fn publish(&self, batches: Vec<Arc<Batch>>) {
        let mut followers = self.followers.lock();
        followers.give(&batches);
        let last = batches.last().map(|batch| batch.revision);
        let mut recent = self.recent.lock();
        for batch in batches {
            recent.push(batch);
        }
        if let Some(last) = last {
            self.reached.store(last.0, Ordering::Release);
        }
    }

    /// Called by the committer when what was published is acknowledged.
    pub fn tell(&self) {
        self.followers.lock().tell();
        let head = self.head();
        self.head.send_if_modified(|open| match open {
            Some(open) => {
                *open = head;
                true
            }
            None => false,
        });
    }

    /// Gives every commit after `after` to the follower from now on; `None` if one of them is only in the log.
    pub fn follow(
        shared: &Arc<Shared>,
        prefix: &str,
        after: Revision,
        follower: Arc<dyn Follower>,
    ) -> Option<Watch> {
        let mut followers = shared.feed.followers.lock();
        let missed = shared.feed.after(after)?;
        let (id, ended) = followers.add(prefix, follower, &missed);
        let place = Place { shared: Arc::clone(shared), id };
        let end = async move {
            let _place = place;
            Err(ended.await.unwrap_or_else(|_| closed()))
        };
        Some(stream::once(end).boxed())
    }

    pub fn close(&self) {
        *self.followers.lock() = Followers::default();
        self.head.send_replace(None);
    }

    #[cfg(test)]
    pub fn followers(&self) -> usize {
        self.followers.lock().len()
    }

    /// What follows `after` in memory; `None` if part of it is only in the log.
    fn after(&self, after: Revision) -> Option<Vec<Arc<Batch>>> {
        let recent = self.recent.lock();
        if after < recent.floor {
            return None;
        }
        let from = recent.batches.partition_point(|batch| batch.revision <= after);
        Some(recent.batches.range(from..).cloned().collect())
    }
}

impl Recent {
    fn push(&mut self, batch: Arc<Batch>) {
        self.bytes += bytes(&batch);
        self.batches.push_back(batch);
        while RECENT_COMMITS_MAX < self.batches.len() || RECENT_BYTES_MAX < self.bytes {
            let Some(oldest) = self.batches.pop_front() else { return };
            self.bytes -= bytes(&oldest);
            self.floor = oldest.revision;
        }
    }
}

fn bytes(batch: &Batch) -> usize {
    let size = |change: &Change| match change {
        Change::Put(entry) => entry.key.len() + entry.value.len(),
        Change::Delete { key, .. } => key.len(),
    };
    batch.changes.iter().map(size).sum()
}

/// A follower is one for as long as this is there.
struct Place {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.feed.followers.lock().remove(self.id);
    }
}

/// Where one watcher is.
pub(super) struct Cursor {
    shared: Arc<Shared>,
    head: watch::Receiver<Option<Revision>>,
    prefix: Box<str>,
    after: Revision,
    /// Whether nothing was found at the last look, which went up to the present.
    in_vain: bool,
}

impl Cursor {
    pub fn new(shared: Arc<Shared>, prefix: &str, after: Revision) -> Self {
        let head = shared.feed.head.subscribe();
        Self { shared, head, prefix: prefix.into(), after, in_vain: false }
    }

    pub fn into_watch(self) -> Watch {
        let read = |cursor: Option<Self>| async {
            let mut cursor = cursor?;
            match cursor.read().await {
                Ok(batches) => Some((batches.into_iter().map(Ok).collect(), Some(cursor))),
                Err(error) => Some((vec![Err(error)], None)),
            }
        };
        let reads = stream::unfold(Some(self), read);
        reads.flat_map(|items: Vec<Result<Batch, Error>>| stream::iter(items)).boxed()
    }

    /// The next commits under the prefix, reduced to it, and how far they go: at least one.
    async fn read(&mut self) -> Result<Vec<Batch>, Error> {
        if std::mem::take(&mut self.in_vain) {
            tokio::time::sleep(REST).await;
        }
        let after = self.after;
        let seen = self.head.wait_for(|head| head.is_none_or(|head| after < head)).await;
        seen.map_err(|_| closed())?.ok_or_else(closed)?;
        let recent = self.shared.feed.after(after);
        let is_present = recent.is_some();
        let (mut batches, up_to): (Vec<_>, _) = match recent {
            Some(batches) => {
                let up_to = batches.last().map_or(after, |batch| batch.revision);
                (batches.iter().filter_map(|batch| self.part(batch)).collect(), up_to)
            }
            None => self.replay().await?,
        };
        // Who has far to go does not rest on the way.
        self.in_vain = is_present && batches.is_empty();
        if batches.last().is_none_or(|last| last.revision < up_to) {
            batches.push(Batch { revision: up_to, changes: Changes::new() });
        }
        self.after = up_to;
        Ok(batches)
    }

    /// What a commit changed under the prefix, if anything.
    fn part(&self, batch: &Batch) -> Option<Batch> {
        Some(batch.filtered(&self.prefix)).filter(|part| !part.is_bookmark())
    }

    async fn replay(&self) -> Result<(Vec<Batch>, Revision), Error> {
        let (after, head) = (self.after, self.shared.feed.head());
        let read = self.shared.blocking(move |tables| reader::replay(tables, after, head, REPLAY));
        let reader::Replay { batches, up_to } = read.await?;
        count(&self.shared.counters.replayed, batches.len());
        Ok((batches.iter().filter_map(|batch| self.part(batch)).collect(), up_to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        embedded::{Embedded, EmbeddedOptions},
        engine::Engine as _,
        model::Op,
    };

    /// Each read of the log takes a part of it. Who rested after each would be overtaken by those who commit.
    #[tokio::test]
    async fn who_catches_up_does_not_rest_on_the_way() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let engine = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
        let engine = engine.expect("it opens");
        let ops = (0..3000).map(|number| vec![Op::create(format!("k/{number}"), "v")]);
        futures::future::join_all(ops.map(|ops| engine.commit(ops))).await;
        let mut cursor = Cursor::new(Arc::clone(&engine.shared), "other/", Revision(1));
        let head = engine.shared.feed.head();
        let mut parts = 0;
        while cursor.after < head {
            assert!(!cursor.in_vain, "it rests at {}", cursor.after);
            cursor.read().await.expect("it goes on");
            parts += 1;
        }
        assert!(2 < parts && cursor.in_vain, "after the last of {parts} there is time");
    }
}
