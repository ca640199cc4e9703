//! Where the time comes from.
use prost_types::Timestamp;

/// Tells the time of day. The hub stamps objects with it, and tests bring their own.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // This is the one place that asks the machine.
    fn now(&self) -> Timestamp {
        // Whole seconds, as every tool of this field prints them.
        Timestamp { seconds: jiff::Timestamp::now().as_second(), nanos: 0 }
    }
}

/// A clock that a test sets.
#[derive(Debug, Default)]
pub struct ManualClock(std::sync::atomic::AtomicI64);

impl ManualClock {
    pub fn at(seconds: i64) -> Self {
        Self(seconds.into())
    }

    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: self.0.load(std::sync::atomic::Ordering::Relaxed), nanos: 0 }
    }
}
