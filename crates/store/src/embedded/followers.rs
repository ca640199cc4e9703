//! Those who hear of commits before anybody else.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    engine::{Batch, Follower},
    error::Error,
};

#[derive(Debug, Default)]
pub(super) struct Followers {
    all: Vec<Attached>,
    /// How many there ever were.
    count: u64,
}

struct Attached {
    id: u64,
    prefix: Box<str>,
    follower: Arc<dyn Follower>,
    /// Taken when the follower wants no more.
    end: Option<oneshot::Sender<Error>>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Followers {
    /// Adds one, and gives it what it has missed; why it ends comes with the receiver.
    pub fn add(
        &mut self,
        prefix: &str,
        follower: Arc<dyn Follower>,
        missed: &[Arc<Batch>],
    ) -> (u64, oneshot::Receiver<Error>) {
        let (end, ended) = oneshot::channel();
        self.count += 1;
        let id = self.count;
        let mut new = Attached { id, prefix: prefix.into(), follower, end: Some(end) };
        if missed.is_empty() {
            self.all.push(new);
        } else if new.take(missed) {
            new.follower.acknowledged();
            self.all.push(new);
        }
        (id, ended)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn remove(&mut self, id: u64) {
        self.all.retain(|attached| attached.id != id);
    }

    /// Gives commits that are durable to all.
    pub fn give(&mut self, batches: &[Arc<Batch>]) {
        self.all.retain_mut(|attached| attached.take(batches));
    }

    /// What was given is acknowledged.
    pub fn tell(&self) {
        self.all.iter().for_each(|attached| attached.follower.acknowledged());
    }
}

impl Attached {
    /// Whether it wants more.
    fn take(&mut self, batches: &[Arc<Batch>]) -> bool {
        let inside = batches.iter().map(|batch| batch.filtered(&self.prefix)).collect();
        let Err(error) = self.follower.take(inside) else { return true };
        if let Some(end) = self.end.take() {
            // Nobody waits for it any more if it is about to be removed.
            let _ = end.send(error);
        }
        false
    }
}
