//! The older style: what is nested is written in blocks, as providers of protocol 5 do.
//!
//! A collection of blocks is never null: where there are none, it is empty. Everything within the provider is written
//! as attributes, where a collection that is not set is null; this is the border between the two.
use super::{Attribute, Nesting, Object, Shape};
use crate::value::Value;

/// A value of blocks, as attributes.
pub fn taken(object: &Object, value: Value) -> Value {
    each(object, value, &|nesting, value| match (&value, nesting) {
        (Value::List(items), Nesting::List | Nesting::Keyed { .. }) if items.is_empty() => {
            Value::Null
        }
        (Value::Map(entries), Nesting::Map) if entries.is_empty() => Value::Null,
        (_, _) => value,
    })
}

/// A value of attributes, as blocks.
pub fn given(object: &Object, value: Value) -> Value {
    each(object, value, &|nesting, value| match (&value, nesting) {
        (Value::Null, Nesting::List | Nesting::Keyed { .. }) => Value::List(Vec::new()),
        (Value::Null, Nesting::Map) => Value::Map(std::collections::BTreeMap::new()),
        (_, _) => value,
    })
}

/// Whether an attribute is written as blocks: those of the server alone stay values.
pub fn is_block(attribute: &Attribute) -> bool {
    matches!(attribute.shape, Shape::Nested(_, _)) && !attribute.is_computed()
}

/// Changes each collection of blocks, the innermost first.
fn each(object: &Object, value: Value, change: &dyn Fn(&Nesting, Value) -> Value) -> Value {
    let Value::Map(mut entries) = value else { return value };
    for attribute in object.attributes.iter().filter(|attribute| is_block(attribute)) {
        let (Shape::Nested(nesting, inner), Some(value)) =
            (&attribute.shape, entries.remove(&attribute.name))
        else {
            continue;
        };
        let value = match (nesting, value) {
            (Nesting::Single, value) => each(inner, value, change),
            (Nesting::List, Value::List(items)) => {
                Value::List(items.into_iter().map(|item| each(inner, item, change)).collect())
            }
            (Nesting::Keyed { .. }, Value::List(items)) => {
                Value::set(items.into_iter().map(|item| each(inner, item, change)).collect())
            }
            (Nesting::Map, Value::Map(items)) => {
                let items = items.into_iter();
                Value::Map(items.map(|(key, item)| (key, each(inner, item, change))).collect())
            }
            (_, other) => other,
        };
        entries.insert(attribute.name.clone(), change(nesting, value));
    }
    Value::Map(entries)
}
