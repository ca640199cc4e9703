//! Reads opaque data: any JSON, kept in the messages that protobuf has for it.
use prost_reflect::prost_types::{self, ListValue, Struct, value::Kind};
use serde_json::{Map, Number, Value};

use super::{decode::Decoder, scalar::Mismatch, well_known::EXACT_INTEGER_MAX};

impl Decoder<'_> {
    /// A JSON object as `google.protobuf.Struct`.
    pub(super) fn opaque_struct(
        &mut self,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Option<Struct> {
        // The struct and the entry of its map are two messages.
        let depth = self.descend(depth, 2)?;
        let mut object = Struct::default();
        for (key, value) in fields {
            let mark = self.path.enter_field(key);
            let value = self.opaque_value(value, depth);
            self.path.leave(mark);
            object.fields.insert(key.clone(), value?);
        }
        Some(object)
    }

    /// A JSON list as `google.protobuf.ListValue`.
    pub(super) fn opaque_list(&mut self, items: &[Value], depth: usize) -> Option<ListValue> {
        let depth = self.descend(depth, 1)?;
        let mut list = ListValue { values: Vec::with_capacity(items.len()) };
        for (index, item) in items.iter().enumerate() {
            let mark = self.path.enter_index(index);
            let item = self.opaque_value(item, depth);
            self.path.leave(mark);
            list.values.push(item?);
        }
        Some(list)
    }

    /// Any JSON as `google.protobuf.Value`.
    pub(super) fn opaque_value(
        &mut self,
        value: &Value,
        depth: usize,
    ) -> Option<prost_types::Value> {
        let depth = self.descend(depth, 1)?;
        let kind = match value {
            Value::Null => Kind::NullValue(0),
            Value::Bool(value) => Kind::BoolValue(*value),
            Value::String(value) => Kind::StringValue(value.clone()),
            Value::Number(number) => Kind::NumberValue(self.exact(number)?),
            Value::Array(items) => Kind::ListValue(self.opaque_list(items, depth)?),
            Value::Object(fields) => Kind::StructValue(self.opaque_struct(fields, depth)?),
        };
        Some(prost_types::Value { kind: Some(kind) })
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
