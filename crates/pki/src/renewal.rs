//! When a certificate is renewed.

use std::time::{Duration, SystemTime};

/// How much of a certificate's life passes before it is renewed; a third is left for trouble.
const RENEW_AFTER: f64 = 2.0 / 3.0;
/// How much earlier or later than that, as a part of its life: machines that joined together do not
/// come back together.
const SPREAD: f64 = 1.0 / 12.0;

/// The moment at which to renew a certificate. `chance` is between 0 and 1, and different for each
/// machine.
pub fn renewal_at(not_before: SystemTime, not_after: SystemTime, chance: f64) -> SystemTime {
    let life = not_after.duration_since(not_before).unwrap_or(Duration::ZERO);
    let part = RENEW_AFTER + SPREAD * (2.0 * chance.clamp(0.0, 1.0) - 1.0);
    not_before + life.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chance: f64, expect_seconds: u64) {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let end = start + Duration::from_secs(1200);
        let due = renewal_at(start, end, chance).duration_since(start).expect("after the start");
        assert_eq!((due.as_secs_f64()).round() as u64, expect_seconds);
    }

    #[test]
    fn two_thirds_and_a_spread() {
        check(0.5, 800);
        check(0.0, 700);
        check(1.0, 900);
        check(7.0, 900);
    }

    #[test]
    fn a_certificate_that_ends_before_it_begins_is_due() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        assert_eq!(renewal_at(now, SystemTime::UNIX_EPOCH, 0.5), now);
    }
}
