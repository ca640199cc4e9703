//! Whether a request is taken in: pure decisions.
use super::{Limits, RETRY_AFTER};
use std::time::Duration;
use tokio::time::Instant;

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// More requests in a second than one peer may make.
    Rate,
    /// More requests at once than one peer may make.
    Own,
    /// The server is busy, and this peer has its share already.
    Share,
    Watches,
}

impl Refused {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Own => "in_flight",
            Self::Share => "share",
            Self::Watches => "watches",
        }
    }

    pub fn retry_after(self) -> Duration {
        match self {
            Self::Rate | Self::Own | Self::Share => RETRY_AFTER,
            // Somebody has to close one first.
            Self::Watches => 5 * RETRY_AFTER,
        }
    }

    pub fn message(self, limits: &Limits) -> String {
        match self {
            Self::Rate => "too many requests in a second; ask less often".to_owned(),
            Self::Own => {
                format!("more than {} requests at once; wait for answers", limits.requests_per_peer)
            }
            Self::Share => "the server is busy; ask again in a moment".to_owned(),
            Self::Watches => {
                format!("more than {} open watches; close some", limits.watches_per_peer)
            }
        }
    }
}

/// What is going on when a request comes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub in_flight: usize,
    /// Of the peer that asks.
    pub own: usize,
    /// Peers that have requests in flight.
    pub active: usize,
}

/// Below half of what the server takes, a peer gets what it asks for up to its own limit. Above, it
/// gets no more than its share of the whole, so that there is always room for one who asks little.
pub fn judge(limits: &Limits, seen: Seen) -> Result<(), Refused> {
    if limits.requests_per_peer <= seen.own {
        return Err(Refused::Own);
    }
    let newcomers = usize::from(seen.own == 0);
    let share = (limits.requests / (seen.active + newcomers).max(1)).max(1);
    // A peer that is alone leaves room for the next one.
    let share = share.min(limits.requests.div_ceil(2));
    if limits.requests / 2 <= seen.in_flight && share <= seen.own {
        return Err(Refused::Share);
    }
    if limits.requests <= seen.in_flight && 0 < seen.own {
        return Err(Refused::Share);
    }
    // Even in a full house everybody may ask one thing; there are at most as many as connections.
    Ok(())
}

/// Tokens that come back with time.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    tokens: f64,
    since: Instant,
}

impl Bucket {
    pub fn full(rate: u32, now: Instant) -> Self {
        Self { tokens: burst(rate), since: now }
    }

    /// Those who ask at once may come in another order than they looked at the clock.
    pub fn take(&mut self, rate: u32, now: Instant) -> Result<(), Refused> {
        let now = now.max(self.since);
        let passed = now.duration_since(self.since).as_secs_f64();
        self.tokens = burst(rate).min(self.tokens + passed * f64::from(rate));
        self.since = now;
        if self.tokens < 1.0 {
            return Err(Refused::Rate);
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

fn burst(rate: u32) -> f64 {
    2.0 * f64::from(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { requests: 100, requests_per_peer: 60, ..Limits::default() }
    }

    #[track_caller]
    fn check(in_flight: usize, own: usize, active: usize, expect: Result<(), Refused>) {
        assert_eq!(judge(&limits(), Seen { in_flight, own, active }), expect);
    }

    #[test]
    fn a_peer_gets_what_it_asks_for_while_there_is_room() {
        check(0, 0, 0, Ok(()));
        check(49, 49, 1, Ok(()));
        check(50, 50, 1, Err(Refused::Share));
        check(60, 60, 1, Err(Refused::Own));
    }

    #[test]
    fn a_loud_peer_leaves_room_for_quiet_ones() {
        check(50, 0, 1, Ok(()));
        check(55, 5, 2, Ok(()));
        check(99, 49, 2, Ok(()));
        check(99, 33, 3, Err(Refused::Share));
        check(99, 32, 3, Ok(()));
        check(100, 1, 60, Err(Refused::Share));
        check(100, 0, 60, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_come_back() {
        let mut bucket = Bucket::full(10, Instant::now());
        let taken = (0..30).filter(|_| bucket.take(10, Instant::now()).is_ok()).count();
        assert_eq!(taken, 20);
        tokio::time::advance(Duration::from_millis(500)).await;
        let taken = (0..30).filter(|_| bucket.take(10, Instant::now()).is_ok()).count();
        assert_eq!(taken, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_counts_twice() {
        let (before, second) = (Instant::now(), Duration::from_secs(1));
        let mut bucket = Bucket::full(10, before);
        while bucket.take(10, before).is_ok() {}
        let came = [before + second, before, before + second].into_iter();
        let taken: Vec<usize> =
            came.map(|now| (0..30).filter(|_| bucket.take(10, now).is_ok()).count()).collect();
        assert_eq!(taken, [10, 0, 0]);
    }
}
