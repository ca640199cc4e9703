//! Reads values at a path of a message without turning it into JSON.
use std::borrow::Cow;

use prost_reflect::{DynamicMessage, FieldDescriptor, Value};

use crate::schema::{Element, Schema, Shape};

/// The value of a field, borrowed; `None` when it is absent.
pub(crate) fn get<'a>(message: &'a DynamicMessage, field: &FieldDescriptor) -> Option<&'a Value> {
    // Asked first: a value that is absent would be made, to be thrown away.
    if !message.has_field(field) {
        return None;
    }
    match message.get_field(field) {
        Cow::Borrowed(value) => Some(value),
        Cow::Owned(_) => None,
    }
}

/// The sub-message in a field, when it is present.
pub(crate) fn get_message<'a>(
    message: &'a DynamicMessage,
    field: &FieldDescriptor,
) -> Option<&'a DynamicMessage> {
    get(message, field).and_then(Value::as_message)
}

/// The fields along a dotted JSON path, when every field but the last is a single message.
pub(crate) fn steps(schema: &Schema, path: &str) -> Option<Vec<FieldDescriptor>> {
    let mut steps = Vec::new();
    let mut message = Some(schema.root());
    for name in path.split('.') {
        let field = message?.field_by_json_name(name)?;
        steps.push(field.descriptor.clone());
        message = match field.shape {
            Shape::Single(Element::Message(id)) => Some(schema.message(id)),
            Shape::Single(_) | Shape::List(_) | Shape::Map { .. } => None,
        };
    }
    Some(steps)
}

/// The value at the end of `steps`; `None` as soon as something on the way is absent.
pub(crate) fn follow<'a>(root: &'a DynamicMessage, steps: &[FieldDescriptor]) -> Option<&'a Value> {
    let (last, way) = steps.split_last()?;
    let mut message = root;
    for step in way {
        message = get_message(message, step)?;
    }
    get(message, last)
}
