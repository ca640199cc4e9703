//! From the committer to whoever keeps a copy: told of each commit before its caller is answered.

use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Shared, closed};
use crate::{
    engine::{Batch, Follower, Following},
    error::Error,
    model::Revision,
};

/// Those who are told, all of whom have every commit up to `told`.
#[derive(Debug)]
pub(super) struct Followers(Mutex<Standing>);

#[derive(Debug)]
struct Standing {
    told: Revision,
    places: Vec<Place>,
    closed: bool,
}

#[derive(Debug)]
struct Place {
    prefix: Box<str>,
    follower: Arc<dyn Follower>,
    end: oneshot::Sender<Error>,
}

impl Place {
    fn tell(&self, batches: &[Arc<Batch>]) -> Result<(), Error> {
        self.follower.take(batches.iter().map(|batch| batch.filtered(&self.prefix)).collect())
    }

    fn end(self, error: Error) {
        // Who went away meanwhile no longer wants to know.
        let _ = self.end.send(error);
    }
}

impl Followers {
    pub fn new(told: Revision) -> Self {
        Self(Mutex::new(Standing { told, places: Vec::new(), closed: false }))
    }

    /// Called by the committer alone, with commits that are durable, in order.
    pub fn tell(&self, batches: &[Arc<Batch>]) {
        let mut standing = self.0.lock();
        if let Some(last) = batches.last() {
            standing.told = last.revision;
        }
        let mut at = 0;
        while let Some(place) = standing.places.get(at) {
            match place.tell(batches) {
                Ok(()) => at += 1,
                Err(error) => standing.places.swap_remove(at).end(error),
            }
        }
    }

    pub fn close(&self) {
        let mut standing = self.0.lock();
        standing.closed = true;
        for place in standing.places.drain(..) {
            place.end(closed());
        }
    }

    /// Nothing is told between the look at `after` and the place taken.
    fn join(&self, after: Revision, place: Place) -> bool {
        let mut standing = self.0.lock();
        let joins = standing.told == after && !standing.closed;
        if joins {
            standing.places.push(place);
        }
        joins
    }

    fn leave(&self, follower: &Arc<dyn Follower>) {
        self.0.lock().places.retain(|place| !Arc::ptr_eq(&place.follower, follower));
    }
}

/// See [`crate::Engine::follow`].
pub(super) fn follow(
    shared: &Arc<Shared>,
    prefix: &str,
    after: Revision,
    follower: Arc<dyn Follower>,
) -> Option<Following> {
    let (end, ended) = oneshot::channel();
    let place = Place { prefix: prefix.into(), follower: Arc::clone(&follower), end };
    if !shared.feed.followers.join(after, place) {
        return None;
    }
    let taken = Taken { shared: Arc::clone(shared), follower };
    Some(
        async move {
            let error = ended.await.unwrap_or_else(|_| closed());
            drop(taken);
            error
        }
        .boxed(),
    )
}

/// A place among the followers, given back when the future that holds it is dropped.
struct Taken {
    shared: Arc<Shared>,
    follower: Arc<dyn Follower>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shared.feed.followers.leave(&self.follower);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Embedded, EmbeddedOptions};
    use super::*;
    use crate::engine::Engine;
    use crate::model::Op;

    /// Remembers the revisions that it was told, and takes no more than so many.
    #[derive(Debug)]
    struct Noted {
        seen: Mutex<Vec<Revision>>,
        most: usize,
    }

    impl Noted {
        fn up_to(most: usize) -> Arc<Self> {
            Arc::new(Self { seen: Mutex::default(), most })
        }
    }

    impl Follower for Noted {
        fn take(&self, batches: Vec<Batch>) -> Result<(), Error> {
            let mut seen = self.seen.lock();
            if self.most < seen.len() + batches.len() {
                return Err(Error::unavailable("enough"));
            }
            seen.extend(batches.iter().filter(|b| !b.is_bookmark()).map(|batch| batch.revision));
            Ok(())
        }
    }

    async fn engine() -> (tempfile::TempDir, Arc<Embedded>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = EmbeddedOptions::default();
        let engine = Embedded::open(directory.path(), options).await.expect("it opens");
        (directory, engine)
    }

    async fn put(engine: &Embedded, key: &str) -> Revision {
        engine.commit(vec![Op::create(key, "v")]).await.expect("it is new")
    }

    fn join(engine: &Embedded, prefix: &str, follower: &Arc<Noted>) -> Following {
        let last = engine.shared.feed.head();
        engine.follow(prefix, last, Arc::clone(follower) as _).expect("nothing came between")
    }

    /// Each follower has a commit under its prefix by the time that its caller has the answer.
    #[tokio::test]
    async fn followers_know_before_the_caller() {
        let (_directory, engine) = engine().await;
        let (all, some) = (Noted::up_to(9), Noted::up_to(9));
        let following = (join(&engine, "", &all), join(&engine, "b/", &some));
        let first = put(&engine, "a/1").await;
        assert_eq!((&*all.seen.lock(), &*some.seen.lock()), (&vec![first], &vec![]));
        let second = put(&engine, "b/1").await;
        assert_eq!((&*all.seen.lock(), &*some.seen.lock()), (&vec![first, second], &vec![second]));
        drop(following);
        put(&engine, "b/2").await;
        assert_eq!((all.seen.lock().len(), some.seen.lock().len()), (2, 1));
    }

    /// Whoever is behind or ahead of the last commit is not told: it would miss something.
    #[tokio::test]
    async fn only_who_has_everything_follows() {
        let (_directory, engine) = engine().await;
        let last = put(&engine, "k").await;
        for wrong in [Revision(last.0 - 1), last.next()] {
            assert!(engine.follow("", wrong, Noted::up_to(9)).is_none());
        }
    }

    /// A follower that fails hears why, and the others and the callers go on.
    #[tokio::test]
    async fn who_fails_is_told_no_more() {
        let (_directory, engine) = engine().await;
        let (failing, other) = (Noted::up_to(1), Noted::up_to(9));
        let (failed, _going) = (join(&engine, "", &failing), join(&engine, "", &other));
        for key in ["a", "b", "c"] {
            put(&engine, key).await;
        }
        assert!(failed.await.to_string().contains("enough"));
        assert_eq!((failing.seen.lock().len(), other.seen.lock().len()), (1, 3));
    }

    #[tokio::test]
    async fn closing_ends_it() {
        let (_directory, engine) = engine().await;
        let follower = Noted::up_to(9);
        let following = join(&engine, "", &follower);
        let last = engine.shared.feed.head();
        engine.close().await;
        assert!(following.await.to_string().contains("closed"));
        assert!(engine.follow("", last, follower).is_none());
    }
}
