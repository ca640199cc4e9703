//! Defaults: what is filled in when people leave it out.
use prost_reflect::{DynamicMessage, Value};

use crate::{
    object::Object,
    schema::{Element, FieldSchema, MessageId, Schema, Shape},
};

/// Fills in the declared defaults and then runs the defaulters of the kind. Idempotent.
///
/// A hub object always has a spec afterwards, so that what is mandatory in it is asked for. A
/// message that is absent elsewhere stays absent, unless its own default says otherwise. Spokes
/// are left alone: the source of their values is the hub version.
pub fn default(object: &mut Object) {
    if object.kind().spoke_of().is_some() || object.kind().internal() {
        return;
    }
    let kind = object.kind().clone();
    if let Some(spec) = &kind.fields.spec {
        object.message_mut().get_field_mut(spec);
    }
    fill_message(&kind.schema, Schema::ROOT, object.message_mut());
    for defaulter in &kind.defaulters {
        defaulter(object);
    }
}

fn fill_message(schema: &Schema, id: MessageId, message: &mut DynamicMessage) {
    for field in &schema.message(id).fields {
        fill_field(schema, field, message);
    }
}

fn fill_field(schema: &Schema, field: &FieldSchema, message: &mut DynamicMessage) {
    if !message.has_field(&field.descriptor) {
        let Some(value) = &field.default else { return };
        message.set_field(&field.descriptor, value.clone());
    }
    let Element::Message(child) = field.shape.element() else { return };
    // The field was present or has just been filled, so this does not create anything.
    let value = message.get_field_mut(&field.descriptor);
    match (field.shape, value) {
        (Shape::Single(_), Value::Message(message)) => fill_message(schema, child, message),
        (Shape::List(_), Value::List(items)) => {
            for item in items.iter_mut().filter_map(Value::as_message_mut) {
                fill_message(schema, child, item);
            }
        }
        (Shape::Map { .. }, Value::Map(values)) => {
            for value in values.values_mut().filter_map(Value::as_message_mut) {
                fill_message(schema, child, value);
            }
        }
        (Shape::Single(_) | Shape::List(_) | Shape::Map { .. }, _) => {}
    }
}
