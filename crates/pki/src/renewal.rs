//! When a certificate is renewed.

use std::time::{Duration, SystemTime};

use crate::authority::CLOCK_SKEW;

/// How much of a certificate's life passes before it is renewed; a third is left for trouble.
const RENEW_AFTER: f64 = 2.0 / 3.0;
/// How much earlier or later than that, as a part of its life: machines that joined together do not
/// come back together.
const SPREAD: f64 = 1.0 / 12.0;

/// The moment at which to renew a certificate. `chance` is between 0 and 1, and different for each
/// machine. Its life begins when it was signed: authorities of ours date it back a little.
pub fn renewal_at(not_before: SystemTime, not_after: SystemTime, chance: f64) -> SystemTime {
    let begin = Some(not_before + CLOCK_SKEW).filter(|begin| *begin < not_after);
    let begin = begin.unwrap_or(not_before);
    let life = not_after.duration_since(begin).unwrap_or(Duration::ZERO);
    let part = RENEW_AFTER + SPREAD * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
    begin + life.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Validity;

    #[track_caller]
    fn check(lifetime: u64, chance: f64, expect_seconds: f64) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let validity = Validity::starting(now, Duration::from_secs(lifetime));
        let due = renewal_at(validity.not_before, validity.not_after, chance);
        let due = due.duration_since(now).expect("after it was signed").as_secs_f64();
        assert!((due - expect_seconds).abs() < 0.001, "{due}, expected {expect_seconds}");
    }

    #[test]
    fn two_thirds_and_a_spread() {
        check(1200, 0.5, 800.0);
        check(1200, 0.0, 700.0);
        check(1200, 1.0, 900.0);
        check(1200, 7.0, 900.0);
    }

    /// Also one that lives shorter than clocks may differ is not due as soon as it is signed.
    #[test]
    fn short_lives() {
        check(12, 0.5, 8.0);
        check(1, 0.5, 2.0 / 3.0);
    }

    #[test]
    fn a_certificate_that_ends_before_it_begins_is_due() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        assert_eq!(renewal_at(now, SystemTime::UNIX_EPOCH, 0.5), now);
    }
}
