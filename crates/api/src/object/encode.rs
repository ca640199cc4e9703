//! Protobuf bytes of a message, in one walk along the schema.
//!
//! The library that keeps dynamic messages asks for the length of every message before it writes it, for each
//! message around it again, and looks up the definition of each field while it does. Deep messages, such as the
//! record of who manages which field, cost more than everything else of a write that way.
use prost::bytes::BufMut as _;
use prost::encoding::{self, WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, MapKey, Value};

use crate::{
    lookup,
    schema::{Coding, Element, FieldSchema, MessageId, Schema, Shape, WellKnown},
};

// Of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;
// Of a `google.protobuf.Struct` and of a `ListValue`: all that they have.
const ITEMS: u32 = 1;
// Of a `google.protobuf.Value`.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const STRING: u32 = 3;
const BOOL: u32 = 4;
const STRUCT: u32 = 5;
const LIST: u32 = 6;
// Of a `Timestamp` and of a `Duration`.
const SECONDS: u32 = 1;
const NANOS: u32 = 2;

/// The bytes of a message that the schema calls `id`. Fields come in the order of their numbers, and those that it
/// does not know at the end of the message that they are in.
pub(crate) fn encode(schema: &Schema, id: MessageId, message: &DynamicMessage) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    Encoder { schema }.message(id, message, &mut out);
    out
}

#[derive(Clone, Copy)]
struct Encoder<'s> {
    schema: &'s Schema,
}

impl Encoder<'_> {
    fn message(self, id: MessageId, message: &DynamicMessage, out: &mut Vec<u8>) {
        for field in self.schema.message(id).in_order_of_numbers() {
            if let Some(value) = lookup::get(message, &field.descriptor) {
                self.field(field, value, out);
            }
        }
        message.unknown_fields().for_each(|field| field.encode(out));
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
                        if !is_zero(value) {
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
            (Element::Message(id), Value::Message(message)) => {
                within(number, out, |out| self.message(id, message, out));
            }
            (Element::WellKnown(known), Value::Message(message)) => {
                within(number, out, |out| well_known(known, message, out));
            }
            (_, value) => scalar(number, value, coding, out),
        }
    }
}

/// Writes what has its length in front. One byte is left for that; what needs more is moved.
fn within(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
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

fn key_of(key: &MapKey, coding: Coding, out: &mut Vec<u8>) {
    let value = match key {
        MapKey::String(text) => {
            if !text.is_empty() {
                encoding::string::encode(KEY, text, out);
            }
            return;
        }
        MapKey::Bool(key) => Value::Bool(*key),
        MapKey::I32(key) => Value::I32(*key),
        MapKey::I64(key) => Value::I64(*key),
        MapKey::U32(key) => Value::U32(*key),
        MapKey::U64(key) => Value::U64(*key),
    };
    if !is_zero(&value) {
        scalar(KEY, &value, coding, out);
    }
}

/// Whether whoever reads an entry of a map without it takes it for the same.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::I32(value) | Value::EnumNumber(value) => *value == 0,
        Value::I64(value) => *value == 0,
        Value::U32(value) => *value == 0,
        Value::U64(value) => *value == 0,
        Value::F32(value) => value.to_bits() == 0,
        Value::F64(value) => value.to_bits() == 0,
        Value::String(value) => value.is_empty(),
        Value::Bytes(value) => value.is_empty(),
        Value::Message(_) | Value::List(_) | Value::Map(_) => false,
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
        (Value::I32(value) | Value::EnumNumber(value), _) => {
            encode_varint(i64::from(*value) as u64, out);
        }
        (Value::I64(value), Coding::Varint) => encode_varint(*value as u64, out),
        (Value::U32(value), _) => encode_varint(u64::from(*value), out),
        (Value::U64(value), _) => encode_varint(*value, out),
        // What has parts, or a length, is no number; a message holds none of it where its schema says number.
        (
            Value::String(_) | Value::Bytes(_) | Value::Message(_) | Value::List(_) | Value::Map(_),
            _,
        ) => {}
    }
}

#[allow(clippy::cast_sign_loss, reason = "that is what this form is made for")]
fn zig_zag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The messages of protobuf itself, which have no schema of ours.
fn well_known(known: WellKnown, message: &DynamicMessage, out: &mut Vec<u8>) {
    match known {
        WellKnown::Timestamp | WellKnown::Duration => time(message, out),
        WellKnown::Struct => open_struct(message, out),
        WellKnown::List => open_list(message, out),
        WellKnown::Value => open_value(message, out),
    }
    message.unknown_fields().for_each(|field| field.encode(out));
}

fn time(message: &DynamicMessage, out: &mut Vec<u8>) {
    for number in [SECONDS, NANOS] {
        match message.get_field_by_number(number).as_deref() {
            None | Some(Value::I64(0) | Value::I32(0)) => {}
            Some(value) => scalar(number, value, Coding::Varint, out),
        }
    }
}

fn open_struct(message: &DynamicMessage, out: &mut Vec<u8>) {
    let found = message.get_field_by_number(ITEMS);
    let Some(Value::Map(entries)) = found.as_deref() else { return };
    for (key, value) in entries {
        within(ITEMS, out, |out| {
            key_of(key, Coding::Varint, out);
            nested(VALUE, WellKnown::Value, value, out);
        });
    }
}

fn open_list(message: &DynamicMessage, out: &mut Vec<u8>) {
    let found = message.get_field_by_number(ITEMS);
    let Some(Value::List(items)) = found.as_deref() else { return };
    items.iter().for_each(|item| nested(ITEMS, WellKnown::Value, item, out));
}

/// One of its branches is set; which one, the message itself tells.
fn open_value(message: &DynamicMessage, out: &mut Vec<u8>) {
    for (field, value) in message.fields() {
        match field.number() {
            STRUCT => nested(STRUCT, WellKnown::Struct, value, out),
            LIST => nested(LIST, WellKnown::List, value, out),
            number @ (NULL | NUMBER | STRING | BOOL) => scalar(number, value, Coding::Varint, out),
            _ => {}
        }
    }
}

fn nested(number: u32, known: WellKnown, value: &Value, out: &mut Vec<u8>) {
    if let Value::Message(message) = value {
        within(number, out, |out| well_known(known, message, out));
    }
}
