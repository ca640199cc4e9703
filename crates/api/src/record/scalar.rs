//! The parts of bytes that have no parts themselves.
use std::str;

use prost::bytes::{Buf as _, Bytes};
use prost::encoding::{WireType, decode_key, decode_varint};

use super::{Malformed, Value};
use crate::schema::{Coding, FieldSchema, Scalar};

/// What has its length in front.
pub(super) fn content<'a>(
    field: &FieldSchema,
    wire: WireType,
    rest: &mut &'a [u8],
) -> Result<&'a [u8], Malformed> {
    if wire != WireType::LengthDelimited {
        return Err(wrong(field, wire));
    }
    let length = varint(rest)?;
    take(rest, usize::try_from(length).unwrap_or(usize::MAX))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, after) = rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
    *rest = after;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let from = *rest;
    let ends = || from.iter().any(|byte| *byte < 0x80);
    decode_varint(rest).map_err(|_| if ends() { Malformed::Number } else { Malformed::Truncated })
}

pub(super) fn scalar(
    field: &FieldSchema,
    scalar: Scalar,
    coding: Coding,
    wire: WireType,
    rest: &mut &[u8],
) -> Result<Value, Malformed> {
    match scalar {
        Scalar::String => {
            let text = str::from_utf8(content(field, wire, rest)?);
            let text = text.map_err(|_| Malformed::Text { field: field.json_name.clone() })?;
            Ok(Value::String(text.to_owned()))
        }
        Scalar::Bytes => Ok(Value::Bytes(Bytes::copy_from_slice(content(field, wire, rest)?))),
        number_type if wire == wire_type(number_type, coding) => number(number_type, coding, rest),
        _ => Err(wrong(field, wire)),
    }
}

pub(super) fn is_number(scalar: Scalar) -> bool {
    !matches!(scalar, Scalar::String | Scalar::Bytes)
}

fn wire_type(scalar: Scalar, coding: Coding) -> WireType {
    match (scalar, coding) {
        (Scalar::String | Scalar::Bytes, _) => WireType::LengthDelimited,
        (Scalar::Float, _) | (Scalar::Int32 | Scalar::Uint32, Coding::Fixed) => {
            WireType::ThirtyTwoBit
        }
        (Scalar::Double, _) | (Scalar::Int64 | Scalar::Uint64, Coding::Fixed) => {
            WireType::SixtyFourBit
        }
        (_, _) => WireType::Varint,
    }
}

/// A number as it is written, without a key.
#[allow(
    clippy::cast_possible_truncation,
    reason = "protobuf keeps the lower bits of what is longer"
)]
pub(super) fn number(scalar: Scalar, coding: Coding, rest: &mut &[u8]) -> Result<Value, Malformed> {
    let bits = match wire_type(scalar, coding) {
        WireType::ThirtyTwoBit => u64::from(take(rest, 4)?.get_u32_le()),
        WireType::SixtyFourBit => take(rest, 8)?.get_u64_le(),
        _ => varint(rest)?,
    };
    let signed = match coding {
        Coding::ZigZag => (bits >> 1).cast_signed() ^ -(bits & 1).cast_signed(),
        Coding::Varint | Coding::Fixed => bits.cast_signed(),
    };
    Ok(match scalar {
        Scalar::Bool => Value::Bool(bits != 0),
        Scalar::Int32 => Value::I32(signed as i32),
        Scalar::Int64 => Value::I64(signed),
        Scalar::Uint32 => Value::U32(bits as u32),
        Scalar::Uint64 => Value::U64(bits),
        Scalar::Float => Value::F32(f32::from_bits(bits as u32)),
        Scalar::Double => Value::F64(f64::from_bits(bits)),
        // Neither is a number, and nobody asks for one.
        Scalar::String | Scalar::Bytes => return Err(Malformed::Number),
    })
}

/// Passes over a field that is not known, groups included.
pub(super) fn skip(
    number: u32,
    wire: WireType,
    rest: &mut &[u8],
    depth: usize,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::TooDeep)?;
    match wire {
        WireType::Varint => drop(varint(rest)?),
        WireType::SixtyFourBit => drop(take(rest, 8)?),
        WireType::ThirtyTwoBit => drop(take(rest, 4)?),
        WireType::LengthDelimited => {
            let length = varint(rest)?;
            take(rest, usize::try_from(length).unwrap_or(usize::MAX))?;
        }
        WireType::EndGroup => return Err(Malformed::Key),
        WireType::StartGroup => loop {
            if rest.is_empty() {
                return Err(Malformed::Truncated);
            }
            let (inner, wire) = decode_key(rest).map_err(|_| Malformed::Key)?;
            if wire == WireType::EndGroup {
                return if inner == number { Ok(()) } else { Err(Malformed::Key) };
            }
            skip(inner, wire, rest, depth)?;
        },
    }
    Ok(())
}

fn wrong(field: &FieldSchema, found: WireType) -> Malformed {
    Malformed::WireType { field: field.json_name.clone(), found }
}
