//! The growing wait between attempts.
use super::Timing;
use std::time::Duration;

/// A quarter of the wait is left to chance, so that what failed together does not come back together.
const JITTER_DIVISOR: u32 = 4;

/// The wait after this many attempts in a row that did not last; the first is number one. It doubles,
/// stays at the longest for ever after, and is never zero.
pub(super) fn delay(failures: u32, seed: u64, timing: &Timing) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let full = timing.first_delay.saturating_mul(1 << doublings).min(timing.longest_delay);
    let share = chance(seed ^ u64::from(failures));
    let less = (full / JITTER_DIVISOR).mul_f64(share);
    full.saturating_sub(less).max(Duration::from_millis(1))
}

/// A number in 0..1 that looks random and is the same for the same seed (the mixer of SplitMix64).
fn chance(seed: u64) -> f64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    f64::from(u32::try_from(mixed >> 32).unwrap_or(u32::MAX)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The sixth breakage of a peer: its back-off wrapped to zero after many retries.
        ///
        /// proves: AGT-15
        #[test]
        fn never_zero_never_too_long_and_growing(failures in any::<u32>(), seed in any::<u64>()) {
            let timing = Timing::default();
            let wait = delay(failures, seed, &timing);
            prop_assert!(wait >= timing.first_delay * 3 / 4);
            prop_assert!(wait <= timing.longest_delay);
            let next = delay(failures.saturating_add(1), seed, &timing);
            let saturated = timing.longest_delay * 3 / 4;
            prop_assert!(next >= wait || next >= saturated, "{wait:?} then {next:?}");
        }

        #[test]
        fn instances_are_spread(seed in any::<u64>()) {
            let timing = Timing::default();
            let waits: std::collections::BTreeSet<Duration> =
                (0..64).map(|other| delay(20, seed.wrapping_add(other), &timing)).collect();
            prop_assert!(waits.len() > 60, "{} different waits", waits.len());
        }
    }

    #[test]
    fn zero_in_the_configuration_is_not_a_busy_loop() {
        let timing = Timing { first_delay: Duration::ZERO, ..Timing::default() };
        assert!(delay(1, 0, &timing) > Duration::ZERO);
    }
}
