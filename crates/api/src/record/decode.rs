//! Protobuf bytes to records, in one walk along the schema.
use std::cell::Cell;

use prost::encoding::{WireType, decode_key};

use super::{
    Key, Map, Record, Value,
    scalar::{content, is_number, number, scalar, skip},
    well_known,
};
use crate::schema::{Coding, Element, FieldSchema, MessageId, Scalar, Schema, Shape, WellKnown};

/// Deepest nesting of messages, as decoders of protobuf have it.
const DEPTH_MAX: usize = 100;
// Of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// Why bytes are no message of a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the bytes end within a field")]
    Truncated,
    #[error("a number is longer than any can be")]
    Number,
    #[error("the key of a field is none")]
    Key,
    #[error("messages are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("{field}: written as {found:?}, which is not how its type is written")]
    WireType { field: String, found: WireType },
    #[error("{field}: text is not UTF-8")]
    Text { field: String },
    #[error("{field}: {problem}")]
    WellKnown { field: String, problem: String },
}

/// Reads what the schema calls `id`.
pub(crate) fn decode(schema: &Schema, id: MessageId, bytes: &[u8]) -> Result<Record, Malformed> {
    let mut record = Record::new();
    let in_order = Cell::new(true);
    Decoder { schema, in_order: &in_order }.message(id, bytes, &mut record, DEPTH_MAX + 1)?;
    if !in_order.get() {
        record.order_unknown();
    }
    Ok(record)
}

#[derive(Clone, Copy)]
struct Decoder<'s> {
    schema: &'s Schema,
    /// Whether all fields that are not known came in the order of their numbers so far.
    in_order: &'s Cell<bool>,
}

impl Decoder<'_> {
    /// Lays what the bytes say over what was read before: a message may come in parts.
    fn message(
        self,
        id: MessageId,
        bytes: &[u8],
        record: &mut Record,
        depth: usize,
    ) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::TooDeep)?;
        let schema = self.schema.message(id);
        let (mut rest, mut last) = (bytes, 0);
        while !rest.is_empty() {
            let from = rest;
            let (number, wire) = decode_key(&mut rest).map_err(|_| Malformed::Key)?;
            let Some((place, field)) = schema.numbered(number, last) else {
                skip(number, wire, &mut rest, depth)?;
                let in_order = record.add_unknown(number, &from[..from.len() - rest.len()]);
                self.in_order.set(self.in_order.get() && in_order);
                continue;
            };
            last = place;
            if let Some(oneof) = field.oneof {
                // The branch that comes last is the one that counts.
                let others = schema.oneofs[oneof].fields.iter().map(|index| &schema.fields[*index]);
                let others = others.filter(|other| other.number != number);
                others.for_each(|other| record.clear(other.number));
            }
            self.field(field, wire, &mut rest, record, depth)?;
        }
        Ok(())
    }

    fn field(
        self,
        field: &FieldSchema,
        wire: WireType,
        rest: &mut &[u8],
        record: &mut Record,
        depth: usize,
    ) -> Result<(), Malformed> {
        match field.shape {
            Shape::Single(Element::Message(id)) => {
                let content = content(field, wire, rest)?;
                self.message(id, content, record.record_mut(field.number), depth)
            }
            Shape::Single(element) => {
                let before = record.take(field.number);
                let value = self.element(field, element, wire, rest, before, depth)?;
                if field.presence || !value.is_zero() {
                    record.put(field.number, value);
                }
                Ok(())
            }
            Shape::List(Element::Scalar(scalar))
                if wire == WireType::LengthDelimited && is_number(scalar) =>
            {
                let mut packed = content(field, wire, rest)?;
                let items = record.list_mut(field.number);
                while !packed.is_empty() {
                    items.push(number(scalar, field.codings.value, &mut packed)?);
                }
                Ok(())
            }
            Shape::List(element) => {
                let item = self.element(field, element, wire, rest, None, depth)?;
                record.list_mut(field.number).push(item);
                Ok(())
            }
            Shape::Map { key, value } => {
                let entry = content(field, wire, rest)?;
                let (key, value) = self.entry(field, key, value, entry, depth)?;
                match record.get_mut(field.number) {
                    Some(Value::Map(entries)) => drop(entries.insert(key, value)),
                    _ => record.put(field.number, Value::Map(Map::from([(key, value)]))),
                }
                Ok(())
            }
        }
    }

    fn entry(
        self,
        field: &FieldSchema,
        key: Scalar,
        element: Element,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(Key, Value), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::TooDeep)?;
        let (mut found_key, mut found) = (None, None);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (number, wire) = decode_key(&mut rest).map_err(|_| Malformed::Key)?;
            match number {
                KEY => {
                    let coding = field.codings.key;
                    found_key = Some(scalar(field, key, coding, wire, &mut rest)?);
                }
                VALUE => {
                    let before = found.take();
                    let value = self.element(field, element, wire, &mut rest, before, depth)?;
                    found = Some(value);
                }
                // Maps have no room for more.
                _ => skip(number, wire, &mut rest, depth)?,
            }
        }
        let key = key_of(found_key.unwrap_or_else(|| key.zero()));
        let value = found.unwrap_or_else(|| absent(element));
        // A scalar of no kind is no key; definitions are held to that.
        Ok((key.ok_or(Malformed::Key)?, value))
    }

    /// One value. `before` is what was read of it already.
    fn element(
        self,
        field: &FieldSchema,
        element: Element,
        wire: WireType,
        rest: &mut &[u8],
        before: Option<Value>,
        depth: usize,
    ) -> Result<Value, Malformed> {
        match element {
            Element::Scalar(kind) => scalar(field, kind, field.codings.value, wire, rest),
            Element::Message(id) => {
                let mut record = match before {
                    Some(Value::Record(record)) => record,
                    _ => Record::new(),
                };
                self.message(id, content(field, wire, rest)?, &mut record, depth)?;
                Ok(Value::Record(record))
            }
            Element::WellKnown(_) if field.rules.struct_bytes => {
                scalar(field, Scalar::Bytes, Coding::Varint, wire, rest)
            }
            Element::WellKnown(known) => {
                let value = well_known::read(known, content(field, wire, rest)?, before);
                let (value, levels) = value.map_err(|error| {
                    let problem = error.to_string();
                    Malformed::WellKnown { field: field.json_name.clone(), problem }
                })?;
                if depth < levels { Err(Malformed::TooDeep) } else { Ok(value) }
            }
        }
    }
}

/// What an entry of a map has that does not say it.
fn absent(element: Element) -> Value {
    match element {
        Element::Scalar(scalar) => scalar.zero(),
        Element::Message(_) => Value::Record(Record::new()),
        Element::WellKnown(WellKnown::Timestamp | WellKnown::Duration) => {
            Value::Time { seconds: 0, nanos: 0 }
        }
        Element::WellKnown(known) => Value::Open(Box::new(known.nothing())),
    }
}

fn key_of(value: Value) -> Option<Key> {
    Some(match value {
        Value::Bool(key) => Key::Bool(key),
        Value::I32(key) => Key::I32(key),
        Value::I64(key) => Key::I64(key),
        Value::U32(key) => Key::U32(key),
        Value::U64(key) => Key::U64(key),
        Value::String(key) => Key::String(key),
        _ => return None,
    })
}
