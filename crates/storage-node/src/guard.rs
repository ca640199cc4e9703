//! One operation per volume at a time.
use crate::{
    error::{Error, Result},
    volume::VolumeName,
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::OwnedMutexGuard;

/// A call that has to wait longer for another one gets `Aborted` and comes again: callers of these
/// APIs retry, and a queue of calls behind a slow one helps nobody.
const PATIENCE: Duration = Duration::from_secs(10);

type Lock = Arc<tokio::sync::Mutex<()>>;

/// A lock per name. Locks that nobody holds or waits for are dropped.
#[derive(Default)]
pub struct Guards {
    locks: Mutex<HashMap<String, Lock>>,
}

/// Held for the time of an operation.
pub struct Guard(#[expect(dead_code, reason = "held for its drop")] Vec<OwnedMutexGuard<()>>);

impl Guards {
    pub async fn one(&self, name: &VolumeName) -> Result<Guard> {
        self.all(&[name.as_str()]).await
    }

    /// Several names at once, always taken in the same order, so that two operations that need the
    /// same two never wait for each other.
    pub async fn all(&self, names: &[&str]) -> Result<Guard> {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let mut held = Vec::with_capacity(names.len());
        for name in names {
            let lock = self.lock(name);
            match tokio::time::timeout(PATIENCE, lock.lock_owned()).await {
                Ok(guard) => held.push(guard),
                Err(_) => return Err(pending(name)),
            }
        }
        Ok(Guard(held))
    }

    fn lock(&self, name: &str) -> Lock {
        let mut locks = self.locks.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(name.to_owned()).or_default().clone()
    }
}

fn pending(name: &str) -> Error {
    Error::Pending(format!("another call for {name} is still under way, try again"))
}

#[cfg(test)]
mod tests {
    use super::Guards;
    use crate::{error::Error, volume::VolumeName};

    #[tokio::test(start_paused = true)]
    async fn a_second_call_waits_and_then_gives_up() {
        let guards = Guards::default();
        let name = VolumeName::parse("a").unwrap();
        let held = guards.all(&["b", "a"]).await.unwrap();
        assert!(matches!(guards.one(&name).await, Err(Error::Pending(_))));
        drop(held);
        guards.one(&name).await.unwrap();
        drop(guards.one(&VolumeName::parse("c").unwrap()).await.unwrap());
        assert!(guards.locks.lock().len() <= 1, "locks do not pile up");
    }
}
