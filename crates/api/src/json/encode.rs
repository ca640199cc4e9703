//! From a message to a JSON value, with fields in the order of the definition.
use serde_json::{Map, Value};

use super::{
    JsonOptions, ProjectKey,
    decode::{NAMESPACE, PROJECT},
    scalar, well_known,
};
use crate::{
    record::{Record, Value as RecordValue},
    schema::{Element, FieldSchema, MessageId, MessageSchema, Schema, Shape},
};

/// Writes a resource. Absent fields are left out, unless their definition says that their zero
/// value is written.
pub(crate) fn encode(schema: &Schema, record: &Record, options: &JsonOptions) -> Value {
    Encoder { schema, options }.message(Schema::ROOT, record)
}

/// The JSON text of one list item, equal for equal items.
pub(crate) fn element_text(schema: &Schema, element: Element, value: &RecordValue) -> String {
    let options = &JsonOptions::default();
    Encoder { schema, options }.element(element, value).to_string()
}

#[derive(Clone, Copy)]
struct Encoder<'a> {
    schema: &'a Schema,
    options: &'a JsonOptions,
}

impl Encoder<'_> {
    fn message(self, id: MessageId, record: &Record) -> Value {
        let schema = self.schema.message(id);
        let mut object = Map::new();
        for field in &schema.fields {
            let value = match record.get(field.number) {
                Some(value) => Some(self.value(field, value)),
                None => zero_to_write(field),
            };
            if let Some(value) = value {
                object.insert(self.name(schema, field).to_owned(), value);
            }
        }
        Value::Object(object)
    }

    fn name<'f>(self, schema: &MessageSchema, field: &'f FieldSchema) -> &'f str {
        let renamed = schema.is_metadata && field.json_name == PROJECT;
        match (self.options.project_key, renamed) {
            (ProjectKey::Namespace, true) => NAMESPACE,
            (ProjectKey::Namespace | ProjectKey::Project, _) => &field.json_name,
        }
    }

    fn value(self, field: &FieldSchema, value: &RecordValue) -> Value {
        let element = field.shape.element();
        match (field.shape, value) {
            (Shape::List(_), RecordValue::List(items)) => {
                Value::Array(items.iter().map(|item| self.element(element, item)).collect())
            }
            (Shape::Map { .. }, RecordValue::Map(entries)) => {
                let mut sorted: Vec<(String, &RecordValue)> =
                    entries.iter().map(|(key, value)| (scalar::encode_key(key), value)).collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                let entry = |(key, value)| (key, self.element(element, value));
                Value::Object(sorted.into_iter().map(entry).collect())
            }
            (Shape::Single(_) | Shape::List(_) | Shape::Map { .. }, single) => {
                self.element(element, single)
            }
        }
    }

    fn element(self, element: Element, value: &RecordValue) -> Value {
        match (element, value) {
            (Element::Message(id), RecordValue::Record(record)) => self.message(id, record),
            (Element::WellKnown(known), value) => well_known::encode(known, value),
            (Element::Scalar(_) | Element::Message(_), value) => scalar::encode(value),
        }
    }
}

/// The zero value of an absent field whose definition asks for it. A field with presence has no
/// zero value to show: its absence means something.
fn zero_to_write(field: &FieldSchema) -> Option<Value> {
    if !field.rules.emit_default {
        return None;
    }
    Some(match field.shape {
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Map { .. } => Value::Object(Map::new()),
        Shape::Single(Element::Scalar(scalar)) if !field.presence => scalar::encode(&scalar.zero()),
        Shape::Single(_) => return None,
    })
}
