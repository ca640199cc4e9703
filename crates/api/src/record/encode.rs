//! Protobuf bytes of records, in one walk along the schema.
use prost::Message as _;
use prost::bytes::BufMut as _;
use prost::encoding::{self, WireType, encode_key, encode_varint};
use prost_reflect::prost_types::{self, Timestamp, value::Kind};

use super::{Key, Record, Value};
use crate::schema::{Coding, Element, FieldSchema, MessageId, Schema, Shape, WellKnown};

// Of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The bytes of a message that the schema calls `id`. Fields come in the order of their numbers, and those that it
/// does not know at the end of the message that they are in.
pub(crate) fn encode(schema: &Schema, id: MessageId, record: &Record) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    encode_to(schema, id, record, &mut out);
    out
}

/// The same, behind what is there.
pub(crate) fn encode_to(schema: &Schema, id: MessageId, record: &Record, out: &mut Vec<u8>) {
    Encoder { schema }.message(id, record, out);
}

#[derive(Clone, Copy)]
struct Encoder<'s> {
    schema: &'s Schema,
}

impl Encoder<'_> {
    fn message(self, id: MessageId, record: &Record, out: &mut Vec<u8>) {
        let (schema, mut last) = (self.schema.message(id), 0);
        for (number, value) in record.fields() {
            if let Some((place, field)) = schema.numbered(number, last) {
                last = place;
                self.field(field, value, out);
            }
        }
        record.unknown().for_each(|whole| out.extend_from_slice(whole));
    }

    fn field(self, field: &FieldSchema, value: &Value, out: &mut Vec<u8>) {
        let (number, codings) = (field.number, field.codings);
        match (field.shape, value) {
            (Shape::List(Element::Scalar(_)), Value::List(items)) if codings.packed => {
                within(number, out, |out| {
                    items.iter().for_each(|item| bare(item, codings.value, out));
                });
            }
            (Shape::List(element), Value::List(items)) => {
                items
                    .iter()
                    .for_each(|item| self.element(number, element, codings.value, item, out));
            }
            (Shape::Map { value: element, .. }, Value::Map(entries)) => {
                for (key, value) in entries {
                    within(number, out, |out| {
                        key_of(key, codings.key, out);
                        if !value.is_zero() {
                            self.element(VALUE, element, codings.value, value, out);
                        }
                    });
                }
            }
            (shape, value) => self.element(number, shape.element(), codings.value, value, out),
        }
    }

    fn element(
        self,
        number: u32,
        element: Element,
        coding: Coding,
        value: &Value,
        out: &mut Vec<u8>,
    ) {
        match (element, value) {
            (Element::Message(id), Value::Record(record)) => {
                within(number, out, |out| self.message(id, record, out));
            }
            // Both kinds of times are written alike.
            (_, Value::Time { seconds, nanos }) => {
                let time = Timestamp { seconds: *seconds, nanos: *nanos };
                encoding::message::encode(number, &time, out);
            }
            (Element::WellKnown(known), Value::Open(value)) => open(number, known, value, out),
            (_, value) => scalar(number, value, coding, out),
        }
    }
}

/// Writes what has its length in front. One byte is left for that; what needs more is moved.
pub fn within(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(number, WireType::LengthDelimited, out);
    let place = out.len();
    out.push(0);
    write(out);
    let length = out.len() - place - 1;
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out[place] = short,
        Ok(_) | Err(_) => {
            let mut head = Vec::with_capacity(5);
            encode_varint(length as u64, &mut head);
            out.splice(place..=place, head);
        }
    }
}

fn key_of(key: &Key, coding: Coding, out: &mut Vec<u8>) {
    let value = match key {
        Key::String(text) => {
            if !text.is_empty() {
                encoding::string::encode(KEY, text, out);
            }
            return;
        }
        Key::Bool(key) => Value::Bool(*key),
        Key::I32(key) => Value::I32(*key),
        Key::I64(key) => Value::I64(*key),
        Key::U32(key) => Value::U32(*key),
        Key::U64(key) => Value::U64(*key),
    };
    if !value.is_zero() {
        scalar(KEY, &value, coding, out);
    }
}

/// A value without parts.
fn scalar(number: u32, value: &Value, coding: Coding, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => encoding::string::encode(number, text, out),
        Value::Bytes(bytes) => encoding::bytes::encode(number, bytes, out),
        value => {
            encode_key(number, wire_type(value, coding), out);
            bare(value, coding, out);
        }
    }
}

fn wire_type(value: &Value, coding: Coding) -> WireType {
    match (value, coding) {
        (Value::F32(_), _) | (Value::I32(_) | Value::U32(_), Coding::Fixed) => {
            WireType::ThirtyTwoBit
        }
        (Value::F64(_), _) | (Value::I64(_) | Value::U64(_), Coding::Fixed) => {
            WireType::SixtyFourBit
        }
        (_, _) => WireType::Varint,
    }
}

/// A number, without its key in front.
#[allow(clippy::cast_sign_loss, reason = "negative numbers are written as their two's complement")]
fn bare(value: &Value, coding: Coding, out: &mut Vec<u8>) {
    match (value, coding) {
        (Value::Bool(value), _) => encode_varint(u64::from(*value), out),
        (Value::F32(value), _) => out.put_f32_le(*value),
        (Value::F64(value), _) => out.put_f64_le(*value),
        (Value::I32(value), Coding::Fixed) => out.put_i32_le(*value),
        (Value::I64(value), Coding::Fixed) => out.put_i64_le(*value),
        (Value::U32(value), Coding::Fixed) => out.put_u32_le(*value),
        (Value::U64(value), Coding::Fixed) => out.put_u64_le(*value),
        (Value::I32(value), Coding::ZigZag) => encode_varint(zig_zag(i64::from(*value)), out),
        (Value::I64(value), Coding::ZigZag) => encode_varint(zig_zag(*value), out),
        (Value::I32(value), Coding::Varint) => encode_varint(i64::from(*value) as u64, out),
        (Value::I64(value), Coding::Varint) => encode_varint(*value as u64, out),
        (Value::U32(value), _) => encode_varint(u64::from(*value), out),
        (Value::U64(value), _) => encode_varint(*value, out),
        // What has parts, or a length, is no number; a record holds none of it where its schema says number.
        (
            Value::String(_)
            | Value::Bytes(_)
            | Value::Record(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Time { .. }
            | Value::Open(_),
            _,
        ) => {}
    }
}

#[allow(clippy::cast_sign_loss, reason = "that is what this form is made for")]
fn zig_zag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Any JSON, as the message that the definition names for it.
fn open(number: u32, known: WellKnown, value: &prost_types::Value, out: &mut Vec<u8>) {
    match (known, &value.kind) {
        (WellKnown::Struct, Some(Kind::StructValue(object))) => {
            within(number, out, |out| object.encode_raw(out));
        }
        (WellKnown::List, Some(Kind::ListValue(list))) => {
            within(number, out, |out| list.encode_raw(out));
        }
        _ => within(number, out, |out| value.encode_raw(out)),
    }
}
