//! How long to wait after a failure, by what the failure was.
use crate::drivers::Retry;
use std::time::Duration;

/// The first and the longest wait of each class of failure.
const SOON: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
const LATE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1800));

/// The wait after the `failures`th failure in a row (from 1), doubling each time. Never shorter than
/// what the provider asked for. `None`: not before something changes.
pub fn wait(retry: Retry, failures: u32, asked: Option<Duration>) -> Option<Duration> {
    let (first, longest) = match retry {
        Retry::Soon => SOON,
        Retry::Late => LATE,
        Retry::AfterChange => return None,
    };
    let doublings = failures.saturating_sub(1).min(16);
    let wait = first.saturating_mul(1 << doublings).min(longest);
    Some(wait.max(asked.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(retry: Retry, failures: u32, asked: u64, expect: Option<u64>) {
        let asked = (asked > 0).then(|| Duration::from_secs(asked));
        assert_eq!(wait(retry, failures, asked), expect.map(Duration::from_secs));
    }

    #[test]
    fn it_doubles_to_its_longest_and_heeds_the_provider() {
        check(Retry::Soon, 1, 0, Some(5));
        check(Retry::Soon, 3, 0, Some(20));
        check(Retry::Soon, u32::MAX, 0, Some(300));
        check(Retry::Soon, 1, 90, Some(90));
        check(Retry::Late, 1, 30, Some(60));
        check(Retry::Late, 9, 0, Some(1800));
        check(Retry::AfterChange, 1, 5, None);
    }
}
