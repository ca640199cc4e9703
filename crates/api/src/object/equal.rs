//! Equality by meaning: what is absent equals what has its zero value without presence, maps
//! have no order, and lists that are sets have none either.
use prost::Message as _;
use prost_reflect::prost_types::Struct;

use super::Object;
use crate::{
    kind::same_kind,
    record::{Record, Value},
    schema::{Element, FieldSchema, MessageId, Schema, Shape},
};

#[derive(Clone, Copy)]
struct Equality<'a> {
    schema: &'a Schema,
    /// Whether the order of sets counts.
    ordered: bool,
}

impl Object {
    /// Whether two objects mean the same; sets compare without order.
    pub fn same(&self, other: &Self) -> bool {
        same_kind(&self.kind, &other.kind) && self.compare(false).root(&self.record, &other.record)
    }

    /// Whether two objects ask for the same of those who act on them; decides whether a write makes a new
    /// generation. With whom an object is shared is nothing to act on.
    pub fn asks_same(&self, other: &Self) -> bool {
        let Some(sharing) = self.kind.sharing else { return self.same_spec(other) };
        let without = |object: &Self| {
            let mut spec = object.spec().cloned();
            if let Some(spec) = &mut spec {
                spec.clear(sharing);
            }
            let mut bare = Self::new(&object.kind);
            bare.put_part(object.kind.numbers.spec, spec);
            bare
        };
        without(self).same_spec(&without(other))
    }

    /// Whether the specs of two objects say the same.
    pub fn same_spec(&self, other: &Self) -> bool {
        same_kind(&self.kind, &other.kind) && self.same_part(self.kind.numbers.spec, other)
    }

    /// Whether two objects say the same of what is.
    pub fn same_status(&self, other: &Self) -> bool {
        same_kind(&self.kind, &other.kind) && self.same_part(self.kind.numbers.status, other)
    }

    pub(super) fn equals_in_order(&self, other: &Self) -> bool {
        self.compare(true).root(&self.record, &other.record)
    }

    fn compare(&self, ordered: bool) -> Equality<'_> {
        Equality { schema: &self.kind.schema, ordered }
    }

    fn same_part(&self, part: Option<u32>, other: &Self) -> bool {
        let found = part.and_then(|number| self.kind.schema.root().numbered(number, 0));
        let same = |field| self.compare(false).field(field, &self.record, &other.record);
        found.is_none_or(|(_, field)| same(field))
    }
}

/// Whether two values of a field mean the same; sets compare without order.
pub(crate) fn same_value(schema: &Schema, field: &FieldSchema, a: &Value, b: &Value) -> bool {
    Equality { schema, ordered: false }.value(field, a, b)
}

impl Equality<'_> {
    fn root(self, a: &Record, b: &Record) -> bool {
        self.message(Schema::ROOT, a, b)
    }

    /// Both hold their fields in the order of their numbers.
    fn message(self, id: MessageId, a: &Record, b: &Record) -> bool {
        let (schema, mut last) = (self.schema.message(id), 0);
        let mut others = b.fields();
        let each = a.fields().all(|(number, a)| {
            let Some((other, b)) = others.next() else { return false };
            let Some((place, field)) = schema.numbered(number, last) else { return false };
            last = place;
            number == other && self.value(field, a, b)
        });
        each && others.next().is_none() && a.same_unknown(b)
    }

    fn field(self, field: &FieldSchema, a: &Record, b: &Record) -> bool {
        match (a.get(field.number), b.get(field.number)) {
            (None, None) => true,
            (Some(a), Some(b)) => self.value(field, a, b),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn value(self, field: &FieldSchema, a: &Value, b: &Value) -> bool {
        let element = field.shape.element();
        match (field.shape, a, b) {
            (Shape::List(_), Value::List(a), Value::List(b)) => self.list(field, a, b),
            (Shape::Map { .. }, Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, value)| {
                        b.get(key).is_some_and(|other| self.element(element, value, other))
                    })
            }
            (Shape::Single(_) | Shape::List(_) | Shape::Map { .. }, a, b) => {
                self.element(element, a, b)
            }
        }
    }

    fn list(self, field: &FieldSchema, a: &[Value], b: &[Value]) -> bool {
        let element = field.shape.element();
        if a.len() != b.len() {
            return false;
        }
        if self.ordered || !field.is_set() {
            return a.iter().zip(b).all(|(a, b)| self.element(element, a, b));
        }
        // Validation keeps sets free of duplicates, but a set of another origin may have some:
        // each item is matched with one that no other item took.
        let mut free: Vec<&Value> = b.iter().collect();
        a.iter().all(|item| {
            let found = free.iter().position(|other| self.element(element, item, other));
            found.map(|index| free.swap_remove(index)).is_some()
        })
    }

    fn element(self, element: Element, a: &Value, b: &Value) -> bool {
        match (element, a, b) {
            (Element::Message(id), Value::Record(a), Value::Record(b)) => self.message(id, a, b),
            (Element::WellKnown(_), Value::Bytes(a), Value::Bytes(b)) => same_struct_bytes(a, b),
            (Element::Message(_) | Element::Scalar(_) | Element::WellKnown(_), a, b) => a == b,
        }
    }
}

/// Equality of structs that are kept as their bytes, which may have their fields in another order.
fn same_struct_bytes(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((Struct::decode(a), Struct::decode(b)), (Ok(a), Ok(b)) if a == b)
}
