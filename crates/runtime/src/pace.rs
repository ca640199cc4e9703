//! Telling about a key not too often.
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// How often each key may be told about: a few words at once, for what begins or ends, and then one
/// in a while.
#[derive(Debug)]
pub struct Pace<K> {
    every: Duration,
    /// How far words at once may run ahead.
    ahead: Duration,
    told: Mutex<Told<K>>,
}

#[derive(Debug)]
struct Told<K> {
    /// When all words of a key would have been due, had they come one in a while.
    due: HashMap<K, Instant>,
    /// With so many keys, those that rest are forgotten.
    forget_at: usize,
}

/// Keys that are remembered before those that rest are forgotten.
const FORGET_FROM: usize = 1024;

impl<K: Clone + Eq + Hash> Pace<K> {
    /// One word in `every`, and so many at once.
    pub fn new(every: Duration, at_once: u32) -> Self {
        let told = Told { due: HashMap::new(), forget_at: FORGET_FROM };
        Self { every, ahead: every * at_once.saturating_sub(1), told: Mutex::new(told) }
    }

    /// How long to wait until the key may be told about again; `None` means it may be now.
    pub fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        let due = self.told.lock().due.get(key).copied()?;
        let allowed = now + self.ahead;
        (allowed < due).then(|| due - allowed)
    }

    /// The key was told about. What is remembered stays within twice the keys that do not rest.
    pub fn told(&self, key: &K, now: Instant) {
        let mut told = self.told.lock();
        if told.forget_at <= told.due.len() {
            told.due.retain(|_, due| now < *due);
            told.forget_at = FORGET_FROM.max(2 * told.due.len());
        }
        let due = told.due.entry(key.clone()).or_insert(now);
        *due = now.max(*due) + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn some_words_are_free_and_the_next_one_waits() {
        let now = Instant::now();
        let pace = Pace::new(SECOND, 2);
        for word in 0..2 {
            assert_eq!(pace.wait(&"a", now), None, "word {word}");
            pace.told(&"a", now);
        }
        assert_eq!(pace.wait(&"a", now + SECOND / 4), Some(SECOND * 3 / 4));
        assert_eq!(pace.wait(&"b", now), None, "others have their own pace");
        assert_eq!(pace.wait(&"a", now + SECOND), None);
        pace.told(&"a", now + SECOND);
        assert_eq!(pace.wait(&"a", now + SECOND), Some(SECOND), "one in a while");
        let later = now + 10 * SECOND;
        pace.told(&"a", later);
        assert_eq!(pace.wait(&"a", later), None, "whoever rests may say more at once again");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_rest_are_forgotten() {
        let mut now = Instant::now();
        let pace = Pace::new(SECOND, 3);
        for key in 0..20 * FORGET_FROM {
            now += SECOND / 8;
            pace.told(&key, now);
            assert!(pace.told.lock().due.len() <= FORGET_FROM);
        }
    }
}
