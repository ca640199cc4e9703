//! Secrets in JSON, for programs that show objects to people.
use serde_json::Value;

use crate::kind::Kind;
use crate::schema::{Element, MessageId, Schema, Shape};

impl Kind {
    /// Calls `change` with every secret value of an object in JSON and the path to it, such as
    /// `spec.data.password`.
    pub fn each_secret(&self, object: &mut Value, change: &mut dyn FnMut(&str, &mut Value)) {
        walk(&self.schema, Schema::ROOT, object, "", change);
    }
}

type Change<'a> = &'a mut dyn FnMut(&str, &mut Value);

fn walk(schema: &Schema, id: MessageId, object: &mut Value, path: &str, change: Change<'_>) {
    let Some(members) = object.as_object_mut() else { return };
    for field in &schema.message(id).fields {
        let Some(value) = members.get_mut(&field.json_name) else { continue };
        let path = joined(path, &field.json_name);
        if field.rules.sensitive {
            leaves(value, &path, change);
        } else if let Element::Message(child) = field.shape.element() {
            each(value, &path, field.shape, &mut |path, value| {
                walk(schema, child, value, path, change);
            });
        }
    }
}

/// The values of a field, one by one.
fn each(value: &mut Value, path: &str, shape: Shape, visit: Change<'_>) {
    match (shape, value) {
        (Shape::Map { .. }, Value::Object(members)) => {
            for (name, value) in members {
                visit(&joined(path, name), value);
            }
        }
        (Shape::List(_), Value::Array(items)) => {
            for (at, value) in items.iter_mut().enumerate() {
                visit(&format!("{path}[{at}]"), value);
            }
        }
        (_, value) => visit(path, value),
    }
}

/// Everything below a secret is one.
fn leaves(value: &mut Value, path: &str, change: Change<'_>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                leaves(value, &joined(path, name), change);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter_mut().enumerate() {
                leaves(value, &format!("{path}[{at}]"), change);
            }
        }
        leaf => change(path, leaf),
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
