//! The one place where the time of day is read. Decisions use tokio's monotonic time instead; the
//! time of day only goes into what people read.
use crate::model::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time of day. A clock set before 1970 reads as 1970.
#[allow(clippy::disallowed_methods, reason = "this is the clock that others are sent to")]
pub(crate) fn unix_now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
