//! What a reader asks for, understood.
use super::position::NoPosition;
use super::reader::Start;
use crate::model::UnixMillis;
use orrery_proto::fleet::v1::LogRequest;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Order {
    pub follow: bool,
    pub start: Start,
    /// Lines before the first one of this time are passed over.
    pub since_nanos: Option<i64>,
    /// The reader wants to know when the output was written.
    pub times: bool,
    /// The reader knows what a position is, or has to learn that we do.
    pub positions: bool,
}

impl Order {
    pub(super) fn of(request: &LogRequest, now: UnixMillis) -> Result<Self, NoPosition> {
        let tail = request.tail_lines.map(|lines| u64::try_from(lines).unwrap_or_default());
        let start = match (request.after.as_str(), tail) {
            ("", None) => Start::All,
            ("", Some(lines)) => Start::Lines(lines),
            (after, _) => Start::After(after.parse()?),
        };
        let at = request.since_time.map(|time| {
            time.seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(i64::from(time.nanos))
        });
        let now = i64::try_from(now.0).unwrap_or(i64::MAX).saturating_mul(NANOS_PER_MILLI);
        let within = request.since_seconds.filter(|_| request.after.is_empty());
        let within =
            within.map(|seconds| now.saturating_sub(seconds.saturating_mul(NANOS_PER_SECOND)));
        let asked = request.times || request.positions || !request.after.is_empty();
        Ok(Self {
            follow: request.follow,
            start,
            since_nanos: at.max(within),
            times: request.times,
            positions: asked || request.since_seconds.is_some() || request.since_time.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Timestamp;

    #[track_caller]
    fn check(request: LogRequest, since_nanos: Option<i64>, positions: bool) {
        let order = Order::of(&request, UnixMillis(100_000)).unwrap();
        assert_eq!((order.since_nanos, order.positions), (since_nanos, positions), "{request:?}");
    }

    #[test]
    fn since_when_lines_are_wanted() {
        let time = |seconds, nanos| Some(Timestamp { seconds, nanos });
        check(LogRequest::default(), None, false);
        let seconds = LogRequest { since_seconds: Some(1), ..LogRequest::default() };
        check(seconds.clone(), Some(99_000_000_000), true);
        check(
            LogRequest { since_seconds: Some(i64::MAX), ..seconds.clone() },
            Some(i64::MIN + 100_000_000_001),
            true,
        );
        check(
            LogRequest { since_time: time(5, 7), ..LogRequest::default() },
            Some(5_000_000_007),
            true,
        );
        check(
            LogRequest { since_time: time(i64::MAX, 7), ..LogRequest::default() },
            Some(i64::MAX),
            true,
        );
        // What has gone on since is not passed over when a reader comes back.
        let again = LogRequest { after: "place-5".into(), since_time: time(5, 0), ..seconds };
        check(again, Some(5_000_000_000), true);
        check(LogRequest { positions: true, ..LogRequest::default() }, None, true);
        let wrong = LogRequest { after: "there".into(), ..LogRequest::default() };
        assert!(Order::of(&wrong, UnixMillis(0)).is_err());
    }
}
