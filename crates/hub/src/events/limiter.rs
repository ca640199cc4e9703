//! How often something may be told about one resource.
//!
//! Every resource has a number of tellings, which come back slowly. What is not told is counted and
//! added to the next telling of the same reason, so that counts stay true.
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tellings that a resource may use at once: more than any healthy one needs in its life.
const BURST: i64 = 25;
/// Seconds until one of them comes back.
const REFILL_SECONDS: i64 = 60;
/// Resources that are remembered; when there are more, those that rest are forgotten.
const RESOURCES_MAX: usize = 4096;

static LIMITED: AtomicU64 = AtomicU64::new(0);

/// How many happenings this process has not told at once.
pub fn limited() -> u64 {
    LIMITED.load(Ordering::Relaxed)
}

#[derive(Debug, Default)]
pub(super) struct Limiter {
    resources: HashMap<String, Tellings>,
}

#[derive(Debug)]
struct Tellings {
    left: i64,
    since: i64,
    /// What was not told, by reason; there are few reasons.
    untold: BTreeMap<&'static str, i64>,
}

impl Limiter {
    /// How many happenings to tell of now, these among them; `None` means not now.
    pub fn take(&mut self, uid: &str, reason: &'static str, times: i64, now: i64) -> Option<i64> {
        if RESOURCES_MAX <= self.resources.len() && !self.resources.contains_key(uid) {
            self.forget(now);
        }
        let fresh = || Tellings { left: BURST, since: now, untold: BTreeMap::new() };
        let tellings = self.resources.entry(uid.to_owned()).or_insert_with(fresh);
        tellings.refill(now);
        if tellings.left <= 0 {
            LIMITED.fetch_add(times.unsigned_abs(), Ordering::Relaxed);
            let untold = tellings.untold.entry(reason).or_default();
            *untold = untold.saturating_add(times);
            return None;
        }
        tellings.left -= 1;
        Some(tellings.untold.remove(reason).unwrap_or_default().saturating_add(times))
    }

    /// Forgets resources that have all their tellings back; or everything, where none has.
    fn forget(&mut self, now: i64) {
        self.resources.retain(|_, tellings| {
            tellings.refill(now);
            tellings.left < BURST
        });
        if RESOURCES_MAX <= self.resources.len() {
            self.resources.clear();
        }
    }
}

impl Tellings {
    fn refill(&mut self, now: i64) {
        let back = (now - self.since).max(0) / REFILL_SECONDS;
        self.left = BURST.min(self.left + back);
        self.since += back * REFILL_SECONDS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_too_often_is_counted_and_told_later() {
        let mut limiter = Limiter::default();
        let told = (0..100).filter(|_| limiter.take("loud", "Restarted", 1, 0).is_some()).count();
        assert_eq!(told, 25);
        assert_eq!(limiter.take("quiet", "Restarted", 1, 0), Some(1), "others are told of");
        assert_eq!(limiter.take("loud", "Restarted", 1, 59), None);
        assert_eq!(
            limiter.take("loud", "Stopped", 1, 60),
            Some(1),
            "another reason has its own count"
        );
        assert_eq!(limiter.take("loud", "Restarted", 1, 120), Some(77), "nothing is lost");
        assert_eq!(limiter.take("loud", "Restarted", 5, 121), None);
        assert_eq!(
            limiter.take("loud", "Restarted", 2, 180),
            Some(7),
            "many at once count as many"
        );
        assert!(76 <= limited());
    }

    #[test]
    fn it_does_not_grow_without_bound() {
        let mut limiter = Limiter::default();
        for number in 0..3 * RESOURCES_MAX {
            limiter.take(&number.to_string(), "Made", 1, 0);
        }
        assert!(limiter.resources.len() <= RESOURCES_MAX);
    }
}
