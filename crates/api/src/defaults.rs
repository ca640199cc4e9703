//! Defaults: what is filled in when people leave it out.
use crate::{
    object::Object,
    record::{Record, Value},
    schema::{Element, FieldSchema, MessageId, Schema},
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
    if let Some(spec) = kind.numbers.spec {
        object.record_mut().record_mut(spec);
    }
    fill_message(&kind.schema, Schema::ROOT, object.record_mut());
    for defaulter in &kind.defaulters {
        defaulter(object);
    }
}

fn fill_message(schema: &Schema, id: MessageId, record: &mut Record) {
    for field in &schema.message(id).fields {
        fill_field(schema, field, record);
    }
}

fn fill_field(schema: &Schema, field: &FieldSchema, record: &mut Record) {
    if let Some(value) = &field.default
        && !record.has(field.number)
    {
        record.put(field.number, value.clone());
    }
    let Element::Message(child) = field.shape.element() else { return };
    match record.get_mut(field.number) {
        Some(Value::Record(record)) => fill_message(schema, child, record),
        Some(Value::List(items)) => {
            for item in items.iter_mut().filter_map(Value::as_record_mut) {
                fill_message(schema, child, item);
            }
        }
        Some(Value::Map(values)) => {
            for value in values.values_mut().filter_map(Value::as_record_mut) {
                fill_message(schema, child, value);
            }
        }
        Some(_) | None => {}
    }
}
