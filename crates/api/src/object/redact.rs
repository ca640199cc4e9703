//! The variant of an object for those who may not read secrets.
use prost_reflect::{DynamicMessage, Value};

use super::Object;
use crate::schema::{Element, MessageId, Schema};

impl Object {
    /// A copy without the fields that are sensitive.
    pub fn redacted(&self) -> Self {
        let mut copy = self.clone();
        redact(&self.kind.schema, Schema::ROOT, &mut copy.message);
        copy
    }
}

fn redact(schema: &Schema, id: MessageId, message: &mut DynamicMessage) {
    for field in &schema.message(id).fields {
        if !message.has_field(&field.descriptor) {
            continue;
        }
        if field.rules.sensitive {
            message.clear_field(&field.descriptor);
        } else if let Element::Message(child) = field.shape.element() {
            redact_value(schema, child, message.get_field_mut(&field.descriptor));
        }
    }
}

fn redact_value(schema: &Schema, id: MessageId, value: &mut Value) {
    if let Some(message) = value.as_message_mut() {
        redact(schema, id, message);
    } else if let Some(items) = value.as_list_mut() {
        items.iter_mut().for_each(|item| redact_value(schema, id, item));
    } else if let Some(values) = value.as_map_mut() {
        values.values_mut().for_each(|item| redact_value(schema, id, item));
    }
}
