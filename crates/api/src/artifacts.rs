//! Which files an object names.
use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    kind::Kind,
    schema::{Element, MessageId, Schema, Shape},
};

/// The paths of the artifacts that an object names.
pub fn named_artifacts(kind: &Kind, value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if kind.has_artifacts() {
        collect(kind.schema(), Schema::ROOT, value, &mut found);
    }
    found
}

fn collect(schema: &Schema, id: MessageId, value: &Value, found: &mut BTreeSet<String>) {
    for field in &schema.message(id).fields {
        let Some(value) = value.get(&field.json_name) else { continue };
        let values: Vec<&Value> = match (field.shape, value) {
            (Shape::Single(_), value) => vec![value],
            (Shape::List(_), Value::Array(items)) => items.iter().collect(),
            (Shape::Map { .. }, Value::Object(entries)) => entries.values().collect(),
            // The check of the fields says what is wrong with it.
            (Shape::List(_) | Shape::Map { .. }, _) => Vec::new(),
        };
        match field.shape.element() {
            Element::Message(id) => {
                values.into_iter().for_each(|value| collect(schema, id, value, found));
            }
            Element::Scalar(_) if field.rules.artifact => {
                found.extend(values.into_iter().filter_map(Value::as_str).map(str::to_owned));
            }
            Element::Scalar(_) | Element::WellKnown(_) => {}
        }
    }
}
