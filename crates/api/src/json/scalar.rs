//! JSON forms of single scalars, in both directions.
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Number, Value};

use crate::{
    record::{Key, Value as RecordValue},
    schema::Scalar,
};

/// Standard base64; padding is written, and not insisted on when reading.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A value that is not of the expected type: what was expected and what was found.
pub(super) struct Mismatch {
    pub expected: String,
    pub found: String,
}

/// Names a JSON value in a message to people.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::String(value) => format!("the string {value:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Reads one scalar.
pub(super) fn decode(scalar: Scalar, value: &Value) -> Result<RecordValue, Mismatch> {
    let found = match (scalar, value) {
        (Scalar::Bool, Value::Bool(value)) => Some(RecordValue::Bool(*value)),
        (Scalar::String, Value::String(text)) => Some(RecordValue::String(text.clone())),
        (Scalar::Bytes, Value::String(text)) => {
            BASE64.decode(text).ok().map(|bytes| RecordValue::Bytes(bytes.into()))
        }
        (Scalar::Bool | Scalar::String | Scalar::Bytes, _) => None,
        (_, Value::Number(number)) => return decode_number(scalar, number),
        (_, _) => None,
    };
    found.ok_or_else(|| mismatch(scalar, value))
}

fn mismatch(scalar: Scalar, value: &Value) -> Mismatch {
    let hint = match (scalar, value) {
        (Scalar::String, Value::Number(_) | Value::Bool(_)) => " (quote it)",
        _ => "",
    };
    Mismatch { expected: scalar.describe().to_owned(), found: format!("{}{hint}", describe(value)) }
}

fn decode_number(scalar: Scalar, number: &Number) -> Result<RecordValue, Mismatch> {
    let integer = integer_of(number);
    let found = match scalar {
        Scalar::Int32 => integer.and_then(|n| i32::try_from(n).ok()).map(RecordValue::I32),
        Scalar::Int64 => integer.and_then(|n| i64::try_from(n).ok()).map(RecordValue::I64),
        Scalar::Uint32 => integer.and_then(|n| u32::try_from(n).ok()).map(RecordValue::U32),
        Scalar::Uint64 => integer.and_then(|n| u64::try_from(n).ok()).map(RecordValue::U64),
        Scalar::Float => number.as_f64().and_then(to_f32).map(RecordValue::F32),
        Scalar::Double => number.as_f64().map(RecordValue::F64),
        Scalar::Bool | Scalar::String | Scalar::Bytes => None,
    };
    found.ok_or_else(|| Mismatch {
        expected: format!("{}{}", scalar.describe(), range(scalar)),
        found: format!("the number {number}"),
    })
}

fn range(scalar: Scalar) -> String {
    match scalar {
        Scalar::Int32 => format!(" from {} to {}", i32::MIN, i32::MAX),
        Scalar::Int64 => format!(" from {} to {}", i64::MIN, i64::MAX),
        Scalar::Uint32 => format!(" up to {}", u32::MAX),
        Scalar::Uint64 => format!(" up to {}", u64::MAX),
        Scalar::Float => format!(" up to {:e}", f32::MAX),
        Scalar::Bool | Scalar::Double | Scalar::String | Scalar::Bytes => String::new(),
    }
}

/// The integer that a number is, also when it is written as `3.0` or `1e3`.
fn integer_of(number: &Number) -> Option<i128> {
    if let Some(value) = number.as_i64() {
        return Some(value.into());
    }
    if let Some(value) = number.as_u64() {
        return Some(value.into());
    }
    let value = number.as_f64()?;
    // Beyond 2^53 a double does not say which integer was meant.
    let exact = value.fract() == 0.0 && value.abs() <= super::well_known::EXACT_INTEGER_MAX;
    exact.then_some(value as i128)
}

fn to_f32(value: f64) -> Option<f32> {
    let narrow = value as f32;
    narrow.is_finite().then_some(narrow)
}

/// Writes one scalar. A number that JSON cannot say becomes null; validation refuses those
/// before they are stored.
pub(super) fn encode(value: &RecordValue) -> Value {
    match value {
        RecordValue::Bool(value) => Value::Bool(*value),
        RecordValue::I32(value) => Value::from(*value),
        RecordValue::I64(value) => Value::from(*value),
        RecordValue::U32(value) => Value::from(*value),
        RecordValue::U64(value) => Value::from(*value),
        RecordValue::F32(value) => encode_f32(*value),
        RecordValue::F64(value) => number(*value),
        RecordValue::String(value) => Value::String(value.clone()),
        RecordValue::Bytes(value) => Value::String(BASE64.encode(value)),
        // None of them is a scalar.
        RecordValue::Record(_)
        | RecordValue::List(_)
        | RecordValue::Map(_)
        | RecordValue::Time { .. }
        | RecordValue::Open(_) => Value::Null,
    }
}

/// Writes `0.1` for the single-precision number nearest to it, not its seventeen digits.
fn encode_f32(value: f32) -> Value {
    number(value.to_string().parse().unwrap_or(f64::from(value)))
}

/// A number as JSON; whole numbers within the exact range are written as integers.
pub(super) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= super::well_known::EXACT_INTEGER_MAX {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Reads a map key, which JSON always writes as text.
pub(super) fn decode_key(scalar: Scalar, text: &str) -> Result<Key, Mismatch> {
    let found = match scalar {
        Scalar::Bool => text.parse().ok().map(Key::Bool),
        Scalar::Int32 => text.parse().ok().map(Key::I32),
        Scalar::Int64 => text.parse().ok().map(Key::I64),
        Scalar::Uint32 => text.parse().ok().map(Key::U32),
        Scalar::Uint64 => text.parse().ok().map(Key::U64),
        Scalar::String => Some(Key::String(text.to_owned())),
        Scalar::Float | Scalar::Double | Scalar::Bytes => None,
    };
    found.ok_or_else(|| Mismatch {
        expected: format!("{} as key", scalar.describe()),
        found: format!("{text:?}"),
    })
}

/// Writes a map key.
pub(crate) fn encode_key(key: &Key) -> String {
    match key {
        Key::Bool(key) => key.to_string(),
        Key::I32(key) => key.to_string(),
        Key::I64(key) => key.to_string(),
        Key::U32(key) => key.to_string(),
        Key::U64(key) => key.to_string(),
        Key::String(key) => key.clone(),
    }
}

/// A scalar as it stands in JSON text: strings with quotes.
pub(crate) fn text(value: &RecordValue) -> String {
    encode(value).to_string()
}
