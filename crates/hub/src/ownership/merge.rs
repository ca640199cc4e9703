//! What is declared, laid over what is there.
use super::shape::{Grain, grain_of, grain_of_entry, item_key};
use orrery_api::{Element as Type, FieldSchema, MessageId, Record, Schema, Value};
use std::collections::HashSet;

/// Lays `declared` over `live`. Fields that it does not set stay, unknown ones among them.
pub(super) fn merge(schema: &Schema, live: &mut Record, declared: &Record) {
    record(schema, Schema::ROOT, live, declared, 0);
}

fn record(schema: &Schema, id: MessageId, live: &mut Record, declared: &Record, depth: usize) {
    let message = schema.message(id);
    for field in &message.fields {
        let Some(value) = declared.get(field.number) else { continue };
        match live.get_mut(field.number) {
            Some(live) => merge_field(schema, field, live, value, depth + 1),
            // Of a oneof, this takes the other branch away.
            None => message.set(live, field, value.clone()),
        }
    }
}

fn merge_field(
    schema: &Schema,
    field: &FieldSchema,
    live: &mut Value,
    declared: &Value,
    depth: usize,
) {
    match (grain_of(field, depth), live, declared) {
        (Grain::Message(id), Value::Record(live), Value::Record(declared)) => {
            record(schema, id, live, declared, depth);
        }
        (Grain::Map(entry), Value::Map(live), Value::Map(declared)) => {
            for (key, value) in declared {
                match live.get_mut(key) {
                    Some(live) => merge_item(schema, entry, live, value, depth + 1),
                    None => drop(live.insert(key.clone(), value.clone())),
                }
            }
        }
        (Grain::Set, Value::List(live), Value::List(declared)) => {
            for item in declared {
                if !live.contains(item) {
                    live.push(item.clone());
                }
            }
        }
        (Grain::Keyed(_, number, id), Value::List(live), Value::List(declared)) => {
            let mut names = HashSet::new();
            for item in declared {
                let name = item_key(item, number);
                let known = live.iter().position(|live| item_key(live, number) == name);
                // What is declared twice stays there twice: validation has to see it.
                match known.filter(|_| !names.contains(&name)) {
                    Some(at) => {
                        merge_item(schema, Type::Message(id), &mut live[at], item, depth + 1);
                    }
                    None => live.push(item.clone()),
                }
                names.insert(name);
            }
        }
        (
            Grain::Whole | Grain::Message(_) | Grain::Map(_) | Grain::Set | Grain::Keyed(..),
            live,
            declared,
        ) => *live = declared.clone(),
    }
}

fn merge_item(schema: &Schema, item: Type, live: &mut Value, declared: &Value, depth: usize) {
    match (grain_of_entry(item, depth), live, declared) {
        (Grain::Message(id), Value::Record(live), Value::Record(declared)) => {
            record(schema, id, live, declared, depth);
        }
        (
            Grain::Whole | Grain::Message(_) | Grain::Map(_) | Grain::Set | Grain::Keyed(..),
            live,
            declared,
        ) => *live = declared.clone(),
    }
}
