//! The one place of this crate that reads the time of day.
use jiff::Timestamp;

/// Says what time it is. Tests pass one that says what they want.
#[derive(Clone, Copy, Debug)]
pub struct Clock(fn() -> Timestamp);

impl Clock {
    pub fn system() -> Self {
        Self(Timestamp::now)
    }

    pub fn from_fn(now: fn() -> Timestamp) -> Self {
        Self(now)
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// A time as protobuf has it.
pub fn to_proto(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}

/// Back from protobuf; nothing if it is outside of what a time can be.
pub fn from_proto(time: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}
