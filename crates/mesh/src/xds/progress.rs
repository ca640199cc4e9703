//! How far a client has followed one kind.
use std::time::Duration;
use tokio::time::Instant;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    pub version: u64,
    pub message: String,
    pub at: Instant,
    /// How many answers in a row were refused.
    pub count: u32,
}

/// How far a client has followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// With what it brought along from an earlier stream.
    pub sent: Option<u64>,
    pub acked: Option<u64>,
    /// Until something newer is accepted.
    pub nacked: Option<Nack>,
    /// From the change to the acknowledgement, the last time.
    pub convergence: Option<Duration>,
    /// The oldest change that is not acknowledged yet.
    waiting_since: Option<Instant>,
}

impl Progress {
    /// Something changed that the client is to have. The first change counts until it has it.
    pub(super) fn wait_since(&mut self, since: Option<Instant>) {
        if let Some(since) = since {
            self.waiting_since.get_or_insert(since);
        }
    }

    /// What changed was changed back, or was of no concern.
    pub(super) fn wait_no_more(&mut self) {
        self.waiting_since = None;
    }

    /// The client has accepted what was sent last.
    pub(super) fn accepted(&mut self, now: Instant) {
        self.acked = self.sent;
        self.nacked = None;
        let since = self.waiting_since.take();
        self.convergence = since.map(|since| now - since).or(self.convergence);
    }

    /// The client has refused it, in its own words. The last good one stays known.
    pub(super) fn refused(&mut self, message: &str, now: Instant) {
        let count = self.nacked.as_ref().map_or(0, |nack| nack.count);
        self.nacked = Some(Nack {
            version: self.sent.unwrap_or_default(),
            message: message.to_owned(),
            at: now,
            count: count.saturating_add(1),
        });
    }
}
