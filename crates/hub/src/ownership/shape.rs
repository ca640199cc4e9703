//! How a value is taken apart, by its definition.
use super::DEPTH_MAX;
use super::set::Element;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orrery_api::{Element as Type, FieldSchema, Key, MessageId, Record, Schema, Shape, Value};
use serde_json::Value as Json;

/// What a value is to ownership.
#[derive(Clone, Copy, Debug)]
pub(super) enum Grain<'s> {
    /// One value.
    Whole,
    /// Its fields.
    Message(MessageId),
    /// Its entries.
    Map(Type),
    /// Its items, each of which is itself.
    Set,
    /// Its items, each of which is known by its key: the name of that field, and its number.
    Keyed(&'s str, u32, MessageId),
}

/// A place below another one.
pub(super) struct Child<'v, 's> {
    pub element: Element,
    pub value: &'v Value,
    pub grain: Grain<'s>,
    /// Items and entries are places of their own; fields only lead to what they hold.
    pub is_item: bool,
}

/// How a field is taken apart. `depth` counts the steps to the field itself.
pub(super) fn grain_of(field: &FieldSchema, depth: usize) -> Grain<'_> {
    if DEPTH_MAX <= depth {
        return Grain::Whole;
    }
    match (field.shape, field.key().zip(field.key_number)) {
        (Shape::Single(Type::Message(id)), _) => Grain::Message(id),
        (Shape::Map { value, .. }, _) => Grain::Map(value),
        (Shape::List(Type::Message(id)), Some((key, number))) => Grain::Keyed(key, number, id),
        (Shape::List(Type::Scalar(_)), None) if field.is_set() => Grain::Set,
        (Shape::Single(_) | Shape::List(_), _) => Grain::Whole,
    }
}

pub(super) fn grain_of_entry(value: Type, depth: usize) -> Grain<'static> {
    match value {
        Type::Message(id) if depth < DEPTH_MAX => Grain::Message(id),
        Type::Message(_) | Type::Scalar(_) | Type::WellKnown(_) => Grain::Whole,
    }
}

/// The places directly below a value; `depth` counts the steps to the value.
pub(super) fn children<'v, 's>(
    schema: &'s Schema,
    value: &'v Value,
    grain: Grain<'s>,
    depth: usize,
) -> Vec<Child<'v, 's>> {
    match (grain, value) {
        (Grain::Message(id), Value::Record(message)) => fields_of(schema, id, message, depth),
        (Grain::Map(entry), Value::Map(entries)) => {
            let grain = grain_of_entry(entry, depth + 1);
            let child = |(key, value): (&Key, &'v Value)| Child {
                element: Element::Field(key_text(key)),
                value,
                grain,
                is_item: true,
            };
            entries.iter().map(child).collect()
        }
        (Grain::Set, Value::List(items)) => {
            let child = |value: &'v Value| Child {
                element: Element::Value(scalar_text(value)),
                value,
                grain: Grain::Whole,
                is_item: true,
            };
            items.iter().map(child).collect()
        }
        (Grain::Keyed(key, number, id), Value::List(items)) => {
            let grain = grain_of_entry(Type::Message(id), depth + 1);
            let child = |value: &'v Value| {
                let element =
                    Element::Key { field: key.to_owned(), value: item_key(value, number) };
                Child { element, value, grain, is_item: true }
            };
            items.iter().map(child).collect()
        }
        (Grain::Whole | Grain::Message(_) | Grain::Map(_) | Grain::Set | Grain::Keyed(..), _) => {
            Vec::new()
        }
    }
}

pub(super) fn fields_of<'v, 's>(
    schema: &'s Schema,
    id: MessageId,
    message: &'v Record,
    depth: usize,
) -> Vec<Child<'v, 's>> {
    let child = |field: &'s FieldSchema| {
        Some(Child {
            element: Element::Field(field.json_name.clone()),
            value: message.get(field.number)?,
            grain: grain_of(field, depth + 1),
            is_item: false,
        })
    };
    schema.message(id).fields.iter().filter_map(child).collect()
}

/// Whether two values that are not taken apart mean the same, as far as they are known.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Record(a), Value::Record(b)) => {
            let mut others = b.fields();
            let held = |(number, a): (u32, &Value)| {
                others.next().is_some_and(|(other, b)| number == other && same(a, b))
            };
            a.fields().all(held) && others.next().is_none()
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let held = |(key, a): (&Key, &Value)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(held)
        }
        (a, b) => a == b,
    }
}

/// The key of an item; items without one share the empty key, which validation refuses.
pub(crate) fn item_key(item: &Value, number: u32) -> String {
    item.as_record().map_or("", |record| record.text(number)).to_owned()
}

pub(super) fn key_text(key: &Key) -> String {
    match key {
        Key::Bool(value) => value.to_string(),
        Key::I32(value) => value.to_string(),
        Key::I64(value) => value.to_string(),
        Key::U32(value) => value.to_string(),
        Key::U64(value) => value.to_string(),
        Key::String(value) => value.clone(),
    }
}

/// The JSON text of a scalar.
pub(super) fn scalar_text(value: &Value) -> String {
    let json = match value {
        Value::Bool(value) => Json::from(*value),
        Value::I32(value) => Json::from(*value),
        Value::I64(value) => Json::from(*value),
        Value::U32(value) => Json::from(*value),
        Value::U64(value) => Json::from(*value),
        Value::F32(value) => Json::from(*value),
        Value::F64(value) => Json::from(*value),
        Value::String(value) => Json::from(value.as_str()),
        Value::Bytes(value) => Json::from(BASE64_STANDARD.encode(value)),
        // Only scalars are items of a granular set.
        Value::Record(_) | Value::List(_) | Value::Map(_) | Value::Time { .. } | Value::Open(_) => {
            Json::Null
        }
    };
    json.to_string()
}
