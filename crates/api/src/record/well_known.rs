//! The messages of protobuf itself: they have no schema of ours.
use prost::Message as _;
use prost_reflect::prost_types::{self, Duration, ListValue, Struct, Timestamp, value::Kind};

use super::Value;
use crate::schema::WellKnown;

/// A message of protobuf itself, and how many messages deep these bytes are. Fields of it that nobody knows are not
/// kept: it has had the same ones for ever.
pub(super) fn read(
    known: WellKnown,
    bytes: &[u8],
    before: Option<Value>,
) -> Result<(Value, usize), prost::DecodeError> {
    let value = match known {
        WellKnown::Timestamp | WellKnown::Duration => {
            let (seconds, nanos) = match before {
                Some(Value::Time { seconds, nanos }) => (seconds, nanos),
                _ => (0, 0),
            };
            if known == WellKnown::Timestamp {
                let mut time = Timestamp { seconds, nanos };
                time.merge(bytes)?;
                Value::Time { seconds: time.seconds, nanos: time.nanos }
            } else {
                let mut time = Duration { seconds, nanos };
                time.merge(bytes)?;
                Value::Time { seconds: time.seconds, nanos: time.nanos }
            }
        }
        WellKnown::Struct | WellKnown::Value | WellKnown::List => {
            // Measured by itself: a message may come in very many parts.
            let mut part = Box::new(known.nothing());
            merge(known, &mut part, bytes)?;
            let levels = levels(&part) - usize::from(known != WellKnown::Value);
            let open = match before {
                Some(Value::Open(mut open)) => {
                    merge(known, &mut open, bytes)?;
                    open
                }
                _ => part,
            };
            return Ok((Value::Open(open), levels));
        }
    };
    Ok((value, 1))
}

fn merge(
    known: WellKnown,
    open: &mut prost_types::Value,
    bytes: &[u8],
) -> Result<(), prost::DecodeError> {
    match (known, &mut open.kind) {
        (WellKnown::Struct, Some(Kind::StructValue(object))) => object.merge(bytes),
        (WellKnown::List, Some(Kind::ListValue(list))) => list.merge(bytes),
        _ => open.merge(bytes),
    }
}

/// How many messages any JSON is deep.
fn levels(value: &prost_types::Value) -> usize {
    let deepest = |levels: Option<usize>| levels.unwrap_or_default();
    match &value.kind {
        // The struct, the entry of its map, and what that holds.
        Some(Kind::StructValue(object)) => 3 + deepest(object.fields.values().map(levels).max()),
        Some(Kind::ListValue(list)) => 2 + deepest(list.values.iter().map(levels).max()),
        _ => 1,
    }
}

impl WellKnown {
    /// What is there before anything of it was read.
    pub(super) fn nothing(self) -> prost_types::Value {
        let kind = match self {
            Self::Struct => Some(Kind::StructValue(Struct::default())),
            Self::List => Some(Kind::ListValue(ListValue::default())),
            Self::Timestamp | Self::Duration | Self::Value => None,
        };
        prost_types::Value { kind }
    }
}
