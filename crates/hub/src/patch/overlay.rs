//! What was read from JSON, laid over what was there: JSON does not carry the fields that a newer
//! server wrote and this one does not know, and a patch must not erase them.
use crate::ownership::{field_value, item_key};
use orrery_api::{Element, FieldSchema, MessageId, Object, Schema};
use prost_reflect::{DynamicMessage, Value};

/// Makes `live` equal to `next` in every field that is known, and keeps the others.
pub fn overlay(live: &mut Object, next: &Object) {
    let kind = live.kind().clone();
    message(kind.schema(), Schema::ROOT, live.message_mut(), next.message());
}

fn message(schema: &Schema, id: MessageId, live: &mut DynamicMessage, next: &DynamicMessage) {
    for field in &schema.message(id).fields {
        match field_value(next, &field.descriptor) {
            None => live.clear_field(&field.descriptor),
            Some(value) => {
                let merged = match field_value(live, &field.descriptor) {
                    Some(old) => merged(schema, field, old, value),
                    None => value.clone(),
                };
                live.set_field(&field.descriptor, merged);
            }
        }
    }
}

fn merged(schema: &Schema, field: &FieldSchema, old: &Value, next: &Value) -> Value {
    let Element::Message(id) = field.shape.element() else { return next.clone() };
    match (old, next, field.key()) {
        (Value::Message(_), Value::Message(_), _) => one(schema, id, old, next),
        (Value::Map(old), Value::Map(next), _) => {
            let entry = |(key, value): (&prost_reflect::MapKey, &Value)| {
                let merged = old.get(key).map(|old| one(schema, id, old, value));
                (key.clone(), merged.unwrap_or_else(|| value.clone()))
            };
            Value::Map(next.iter().map(entry).collect())
        }
        (Value::List(old), Value::List(next), Some(key)) => {
            let item = |value: &Value| {
                let name = item_key(value, key);
                let before = old.iter().find(|old| item_key(old, key) == name);
                before.map_or_else(|| value.clone(), |old| one(schema, id, old, value))
            };
            Value::List(next.iter().map(item).collect())
        }
        (Value::List(old), Value::List(next), None) => Value::List(items(schema, id, old, next)),
        (_, next, _) => next.clone(),
    }
}

/// The items of a list without keys: which of them is which, only those say that are as they were, at its beginning
/// and at its end.
fn items(schema: &Schema, id: MessageId, old: &[Value], next: &[Value]) -> Vec<Value> {
    let same = |(old, next): &(&Value, &Value)| one(schema, id, old, next) == **old;
    let front = old.iter().zip(next).take_while(same).count();
    let rest = || old[front..].iter().rev().zip(next[front..].iter().rev());
    let back = rest().take_while(same).count();
    let changed = &next[front..next.len() - back];
    [&old[..front], changed, &old[old.len() - back..]].concat()
}

fn one(schema: &Schema, id: MessageId, old: &Value, next: &Value) -> Value {
    let (Value::Message(old), Value::Message(next)) = (old, next) else { return next.clone() };
    let mut merged = old.clone();
    message(schema, id, &mut merged, next);
    Value::Message(merged)
}
