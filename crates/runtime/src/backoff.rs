//! How long to wait before the next try.
use std::time::Duration;

/// Doubles from `first` up to `longest`, and spreads what would otherwise happen at once.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    /// Quick enough that a person does not notice one conflict, slow enough that a broken peer is
    /// asked twice a minute.
    pub const RECONCILE: Self =
        Self { first: Duration::from_millis(20), longest: Duration::from_secs(30) };

    /// The wait after `failures` failures in a row. `jitter` in 0..=1 takes away up to a quarter,
    /// so that many who failed together do not come back together. Never zero, never above
    /// `longest`, whatever the number of failures.
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let grown = self.first.saturating_mul(1 << doublings).min(self.longest);
        grown.mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_and_then_stays() {
        let backoff =
            Backoff { first: Duration::from_millis(10), longest: Duration::from_millis(65) };
        let waits: Vec<_> = (1..6).map(|n| backoff.delay(n, 0.0).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 65, 65]);
    }

    proptest! {
        #[test]
        fn never_zero_never_too_long(failures: u32, jitter in -1.0..2.0f64) {
            let wait = Backoff::RECONCILE.delay(failures, jitter);
            prop_assert!(Duration::from_millis(14) < wait);
            prop_assert!(wait <= Backoff::RECONCILE.longest);
        }
    }
}
