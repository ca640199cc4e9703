//! Reads opaque data: any JSON, kept in the messages that protobuf has for it.
use std::collections::HashMap;

use prost::Message as _;
use prost_reflect::prost_types::Struct;
use prost_reflect::{DynamicMessage, MapKey, MessageDescriptor, Value as ProtoValue};
use serde_json::{Map, Number, Value};

use super::{
    decode::Decoder,
    scalar::Mismatch,
    well_known::{self, EXACT_INTEGER_MAX},
};
use crate::schema::{FieldSchema, WellKnown};

const STRUCT: &str = "google.protobuf.Struct";

impl Decoder<'_> {
    /// A JSON object as `google.protobuf.Struct`.
    pub(super) fn opaque_struct(
        &mut self,
        descriptor: &MessageDescriptor,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Option<DynamicMessage> {
        let entry = message_field(descriptor, "fields")?;
        let value_type = entry.map_entry_value_field().kind().as_message()?.clone();
        // The struct and the entry of its map are two messages.
        let depth = self.descend(depth, 2)?;
        let mut map = HashMap::with_capacity(fields.len());
        for (key, value) in fields {
            let mark = self.path.enter_field(key);
            let value = self.opaque_value(&value_type, value, depth);
            self.path.leave(mark);
            map.insert(MapKey::String(key.clone()), ProtoValue::Message(value?));
        }
        let mut message = DynamicMessage::new(descriptor.clone());
        message.set_field_by_name("fields", ProtoValue::Map(map));
        Some(message)
    }

    /// A JSON object as the bytes of a `google.protobuf.Struct`: the same bytes for the same object.
    pub(super) fn struct_bytes(
        &mut self,
        field: &FieldSchema,
        value: &Value,
        depth: usize,
    ) -> Option<ProtoValue> {
        let Value::Object(fields) = value else {
            self.mismatch(well_known::wrong(WellKnown::Struct, value));
            return None;
        };
        let descriptor = field.descriptor.parent_pool().get_message_by_name(STRUCT)?;
        let object = self.opaque_struct(&descriptor, fields, depth)?;
        let sorted: Struct = object.transcode_to().ok()?;
        Some(ProtoValue::Bytes(sorted.encode_to_vec().into()))
    }

    /// A JSON list as `google.protobuf.ListValue`.
    pub(super) fn opaque_list(
        &mut self,
        descriptor: &MessageDescriptor,
        items: &[Value],
        depth: usize,
    ) -> Option<DynamicMessage> {
        let value_type = message_field(descriptor, "values")?;
        let depth = self.descend(depth, 1)?;
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let mark = self.path.enter_index(index);
            let item = self.opaque_value(&value_type, item, depth);
            self.path.leave(mark);
            list.push(ProtoValue::Message(item?));
        }
        let mut message = DynamicMessage::new(descriptor.clone());
        message.set_field_by_name("values", ProtoValue::List(list));
        Some(message)
    }

    /// Any JSON as `google.protobuf.Value`.
    pub(super) fn opaque_value(
        &mut self,
        descriptor: &MessageDescriptor,
        value: &Value,
        depth: usize,
    ) -> Option<DynamicMessage> {
        let depth = self.descend(depth, 1)?;
        let (field, value) = match value {
            Value::Null => ("null_value", ProtoValue::EnumNumber(0)),
            Value::Bool(value) => ("bool_value", ProtoValue::Bool(*value)),
            Value::String(value) => ("string_value", ProtoValue::String(value.clone())),
            Value::Number(number) => ("number_value", ProtoValue::F64(self.exact(number)?)),
            Value::Array(items) => {
                let descriptor = message_field(descriptor, "list_value")?;
                (
                    "list_value",
                    self.opaque_list(&descriptor, items, depth).map(ProtoValue::Message)?,
                )
            }
            Value::Object(fields) => {
                let descriptor = message_field(descriptor, "struct_value")?;
                let object = self.opaque_struct(&descriptor, fields, depth)?;
                ("struct_value", ProtoValue::Message(object))
            }
        };
        let mut message = DynamicMessage::new(descriptor.clone());
        message.set_field_by_name(field, value);
        Some(message)
    }

    /// Numbers that a double would change are refused.
    fn exact(&mut self, number: &Number) -> Option<f64> {
        let exact = number.as_f64().filter(|value| value.abs() <= EXACT_INTEGER_MAX);
        if exact.is_none() {
            self.mismatch(Mismatch {
                expected: "a number up to 2^53 (write larger ones as strings)".to_owned(),
                found: format!("the number {number}"),
            });
        }
        exact
    }
}

fn message_field(descriptor: &MessageDescriptor, name: &str) -> Option<MessageDescriptor> {
    descriptor.get_field_by_name(name)?.kind().as_message().cloned()
}
