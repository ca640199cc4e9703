//! JSON forms of the messages of protobuf itself: times, durations and opaque data.
use jiff::Timestamp;
use prost::Message as _;
use prost_reflect::prost_types::{self, Struct, value::Kind as Plain};
use serde_json::Value;

use super::scalar::{Mismatch, describe, number};
use crate::{record::Value as RecordValue, schema::WellKnown};

/// Largest whole number that a double holds exactly: opaque data stores numbers as doubles, and
/// a number that would come back changed is refused instead.
pub(super) const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// The span of a duration in protobuf, in seconds: about ten thousand years.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;
/// The first second of the year 1, where timestamps of protobuf begin.
const TIMESTAMP_SECONDS_MIN: i64 = -62_135_596_800;
const NANOS_PER_SECOND: i32 = 1_000_000_000;

/// Reads a time or a duration.
pub(super) fn decode_time(known: WellKnown, value: &Value) -> Result<RecordValue, Mismatch> {
    let parts = match (known, value) {
        (WellKnown::Timestamp, Value::String(text)) => parse_timestamp(text),
        (WellKnown::Duration, Value::String(text)) => parse_duration(text),
        (_, _) => None,
    };
    let (seconds, nanos) = parts.ok_or_else(|| wrong(known, value))?;
    Ok(RecordValue::Time { seconds, nanos })
}

pub(super) fn wrong(known: WellKnown, value: &Value) -> Mismatch {
    Mismatch { expected: expectation(known).to_owned(), found: describe(value) }
}

fn expectation(known: WellKnown) -> &'static str {
    match known {
        WellKnown::Timestamp => "a time such as \"2026-01-31T12:00:00Z\"",
        WellKnown::Duration => "a duration in seconds such as \"1.5s\"",
        WellKnown::Struct => "an object",
        WellKnown::List => "a list",
        WellKnown::Value => "a value",
    }
}

fn parse_timestamp(text: &str) -> Option<(i64, i32)> {
    let time = text.parse::<Timestamp>().ok().filter(is_in_protobuf_range)?;
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    // Before 1970 the fraction counts forward from an earlier second.
    if nanos < 0 { Some((seconds - 1, nanos + NANOS_PER_SECOND)) } else { Some((seconds, nanos)) }
}

fn is_in_protobuf_range(time: &Timestamp) -> bool {
    TIMESTAMP_SECONDS_MIN <= time.as_second()
}

fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let text = text.strip_suffix('s')?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || 9 < fraction.len() {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|seconds| *seconds <= DURATION_SECONDS_MAX)?;
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    Some((sign * seconds, sign as i32 * nanos))
}

/// Writes a well-known message. What JSON cannot say becomes null; validation refuses it.
pub(super) fn encode(known: WellKnown, value: &RecordValue) -> Value {
    match (known, value) {
        (WellKnown::Timestamp, time) => {
            timestamp_of(time).map_or(Value::Null, |time| Value::String(time.to_string()))
        }
        (WellKnown::Duration, RecordValue::Time { seconds, nanos }) => {
            Value::String(duration_text(*seconds, *nanos))
        }
        (_, RecordValue::Open(value)) => encode_plain((**value).clone()),
        (_, RecordValue::Bytes(bytes)) => {
            Struct::decode(bytes.as_ref()).map_or(Value::Null, encode_struct)
        }
        (_, _) => Value::Null,
    }
}

fn encode_struct(object: Struct) -> Value {
    let entry = |(key, value)| (key, encode_plain(value));
    Value::Object(object.fields.into_iter().map(entry).collect())
}

fn encode_plain(value: prost_types::Value) -> Value {
    match value.kind {
        None | Some(Plain::NullValue(_)) => Value::Null,
        Some(Plain::BoolValue(value)) => Value::Bool(value),
        Some(Plain::StringValue(text)) => Value::String(text),
        Some(Plain::NumberValue(value)) => number(value),
        Some(Plain::StructValue(object)) => encode_struct(object),
        Some(Plain::ListValue(list)) => {
            Value::Array(list.values.into_iter().map(encode_plain).collect())
        }
    }
}

/// Why bytes cannot be kept where a struct is expected, if they cannot.
pub(crate) fn problem_of_struct_bytes(bytes: &[u8]) -> Option<&'static str> {
    Struct::decode(bytes).is_err().then_some("must be the bytes of a google.protobuf.Struct")
}

/// The point in time that a value says, when there is such a time.
pub(crate) fn timestamp_of(value: &RecordValue) -> Option<Timestamp> {
    let RecordValue::Time { seconds, nanos } = value else { return None };
    Timestamp::new(*seconds, *nanos).ok().filter(is_in_protobuf_range)
}

fn duration_text(seconds: i64, nanos: i32) -> String {
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
    if nanos == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{nanos:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Why a well-known message that did not come from JSON cannot be kept, if it cannot.
pub(crate) fn problem_of(known: WellKnown, value: &RecordValue) -> Option<&'static str> {
    match (known, value) {
        (WellKnown::Timestamp, RecordValue::Time { nanos, .. }) => {
            let valid = (0..NANOS_PER_SECOND).contains(nanos) && timestamp_of(value).is_some();
            (!valid).then_some("must be a time between the years 1 and 9999")
        }
        (WellKnown::Duration, RecordValue::Time { seconds, nanos }) => {
            let same_sign = *nanos == 0 || *seconds == 0 || (*seconds < 0) == (*nanos < 0);
            let in_range = seconds.unsigned_abs() <= DURATION_SECONDS_MAX.unsigned_abs()
                && nanos.unsigned_abs() < NANOS_PER_SECOND.unsigned_abs();
            (!same_sign || !in_range).then_some("must be a duration within ten thousand years")
        }
        (_, RecordValue::Open(value)) => (!is_exact(value))
            .then_some("must hold only finite numbers up to 2^53, and no value without content"),
        (_, _) => None,
    }
}

fn is_exact(value: &prost_types::Value) -> bool {
    match &value.kind {
        None => false,
        Some(Plain::NumberValue(number)) => number.abs() <= EXACT_INTEGER_MAX,
        Some(Plain::StructValue(object)) => object.fields.values().all(is_exact),
        Some(Plain::ListValue(list)) => list.values.iter().all(is_exact),
        Some(Plain::NullValue(_) | Plain::BoolValue(_) | Plain::StringValue(_)) => true,
    }
}
