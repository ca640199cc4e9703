//! The variant of an object for those who may not read secrets.
use super::Object;
use crate::{
    record::{Record, Value},
    schema::{Element, MessageId, Schema},
};

impl Object {
    /// A copy without the fields that are sensitive.
    pub fn redacted(&self) -> Self {
        let mut copy = self.clone();
        redact(&self.kind.schema, Schema::ROOT, &mut copy.record);
        copy
    }
}

fn redact(schema: &Schema, id: MessageId, record: &mut Record) {
    for field in &schema.message(id).fields {
        if field.rules.sensitive {
            record.clear(field.number);
        } else if let Element::Message(child) = field.shape.element()
            && let Some(value) = record.get_mut(field.number)
        {
            redact_value(schema, child, value);
        }
    }
}

fn redact_value(schema: &Schema, id: MessageId, value: &mut Value) {
    match value {
        Value::Record(record) => redact(schema, id, record),
        Value::List(items) => items.iter_mut().for_each(|item| redact_value(schema, id, item)),
        Value::Map(values) => {
            values.values_mut().for_each(|item| redact_value(schema, id, item));
        }
        _ => {}
    }
}
