//! Records that strangers cause are spared: whoever shows bad tokens all the time must not fill the log,
//! nor hide what others do.
//!
//! Each address has a few records at once and one a second from then on. What is left out is counted,
//! and told with the next record of that address.
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// Records of one address at once.
const BURST: u32 = 10;
/// A further record each time this has passed.
const INTERVAL: Duration = Duration::from_secs(1);
/// Addresses that are told apart; all others share one account.
const ADDRESSES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub struct Sparing {
    accounts: HashMap<Option<IpAddr>, Account>,
}

#[derive(Debug)]
struct Account {
    left: u32,
    filled: Instant,
    missed: u64,
}

impl Sparing {
    /// How many were left out before this one; `None` if this one is to be left out too.
    pub fn admit(&mut self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let known = self.accounts.contains_key(&address);
        if !known && ADDRESSES_MAX <= self.accounts.len() {
            // Who has been quiet long enough is as good as new.
            self.accounts.retain(|_, account| account.missed != 0 || !account.is_full(now));
        }
        let full = !known && ADDRESSES_MAX <= self.accounts.len();
        let account = self.accounts.entry(address.filter(|_| !full)).or_insert(Account {
            left: BURST,
            filled: now,
            missed: 0,
        });
        account.fill(now);
        if account.left == 0 {
            account.missed += 1;
            return None;
        }
        account.left -= 1;
        Some(std::mem::take(&mut account.missed))
    }
}

impl Account {
    fn earned(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.filled).as_secs() / INTERVAL.as_secs();
        u32::try_from(passed).unwrap_or(u32::MAX)
    }

    fn is_full(&self, now: Instant) -> bool {
        BURST <= self.left.saturating_add(self.earned(now))
    }

    fn fill(&mut self, now: Instant) {
        let earned = self.earned(now);
        if earned != 0 {
            self.left = self.left.saturating_add(earned).min(BURST);
            self.filled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_address_has_its_share_and_what_is_left_out_is_told() {
        let mut sparing = Sparing::default();
        let (one, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        let now = Instant::now();
        let written = (0..100).filter(|_| sparing.admit(one, now).is_some()).count();
        assert_eq!(written, BURST as usize);
        assert_eq!(sparing.admit(other, now), Some(0), "one does not spend what is another's");
        assert_eq!(sparing.admit(one, now + INTERVAL), Some(90));
        assert_eq!(sparing.admit(one, now + INTERVAL), None);
        assert_eq!(sparing.admit(one, now + 60 * INTERVAL), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_take_no_more_room_than_there_is() {
        let mut sparing = Sparing::default();
        let now = Instant::now();
        for number in 0..10_000_u32 {
            sparing.admit(Some(IpAddr::from(number.to_be_bytes())), now);
        }
        assert!(sparing.accounts.len() <= ADDRESSES_MAX + 1);
        // Later there is room again.
        let late = now + 100 * INTERVAL;
        assert!(sparing.admit(Some([1, 2, 3, 4].into()), late).is_some());
    }
}
