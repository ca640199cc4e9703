//! Equality by meaning: what is absent equals what has its zero value without presence, maps
//! have no order, and lists that are sets have none either.
use prost::Message as _;
use prost_reflect::prost_types::Struct;
use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage, Value};

use super::Object;
use crate::{
    kind::same_kind,
    lookup,
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
        same_kind(&self.kind, &other.kind)
            && self.compare(false).root(&self.message, &other.message)
    }

    /// Whether two objects ask for the same of those who act on them; decides whether a write makes a new
    /// generation. With whom an object is shared is nothing to act on.
    pub fn asks_same(&self, other: &Self) -> bool {
        let Some(sharing) = &self.kind.sharing else { return self.same_spec(other) };
        let without = |object: &Self| {
            let mut spec = object.spec().cloned();
            if let Some(spec) = &mut spec {
                spec.clear_field(sharing);
            }
            spec
        };
        let (mut a, mut b) = (Self::new(&self.kind), Self::new(&self.kind));
        for (object, of) in [(&mut a, self), (&mut b, other)] {
            // An absent spec and an empty one ask for the same.
            if let Some(spec) = without(of)
                && object.set_spec(spec).is_err()
            {
                return false;
            }
        }
        a.same_spec(&b)
    }

    /// Whether the specs of two objects say the same.
    pub fn same_spec(&self, other: &Self) -> bool {
        same_kind(&self.kind, &other.kind) && self.same_part(self.kind.fields.spec.as_ref(), other)
    }

    /// Whether two objects say the same of what is.
    pub fn same_status(&self, other: &Self) -> bool {
        same_kind(&self.kind, &other.kind)
            && self.same_part(self.kind.fields.status.as_ref(), other)
    }

    pub(super) fn equals_in_order(&self, other: &Self) -> bool {
        self.compare(true).root(&self.message, &other.message)
    }

    fn compare(&self, ordered: bool) -> Equality<'_> {
        Equality { schema: &self.kind.schema, ordered }
    }

    fn same_part(&self, part: Option<&FieldDescriptor>, other: &Self) -> bool {
        let Some(part) = part else { return true };
        let root = self.kind.schema.root();
        let field = root.fields.iter().find(|field| field.descriptor == *part);
        field.is_none_or(|field| self.compare(false).field(field, &self.message, &other.message))
    }
}

/// Whether two values of a field mean the same; sets compare without order.
pub(crate) fn same_value(schema: &Schema, field: &FieldSchema, a: &Value, b: &Value) -> bool {
    Equality { schema, ordered: false }.value(field, a, b)
}

impl Equality<'_> {
    fn root(self, a: &DynamicMessage, b: &DynamicMessage) -> bool {
        self.message(Schema::ROOT, a, b)
    }

    fn message(self, id: MessageId, a: &DynamicMessage, b: &DynamicMessage) -> bool {
        let fields = &self.schema.message(id).fields;
        fields.iter().all(|field| self.field(field, a, b)) && same_unknown(a, b)
    }

    fn field(self, field: &FieldSchema, a: &DynamicMessage, b: &DynamicMessage) -> bool {
        match (lookup::get(a, &field.descriptor), lookup::get(b, &field.descriptor)) {
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
            (Element::Message(id), Value::Message(a), Value::Message(b)) => self.message(id, a, b),
            (Element::WellKnown(_), Value::Bytes(a), Value::Bytes(b)) => same_struct_bytes(a, b),
            (Element::Message(_) | Element::Scalar(_) | Element::WellKnown(_), a, b) => {
                same_plain(a, b)
            }
        }
    }
}

/// Equality of structs that are kept as their bytes, which may have their fields in another order.
fn same_struct_bytes(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((Struct::decode(a), Struct::decode(b)), (Ok(a), Ok(b)) if a == b)
}

/// Equality of values that have no schema of ours: a zero that was written out equals one that
/// was left out.
fn same_plain(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Message(a), Value::Message(b)) => {
            let same =
                |field: FieldDescriptor| match (lookup::get(a, &field), lookup::get(b, &field)) {
                    (None, None) => true,
                    (Some(a), Some(b)) => same_plain(a, b),
                    (Some(_), None) | (None, Some(_)) => false,
                };
            a.descriptor() == b.descriptor()
                && a.descriptor().fields().all(same)
                && same_unknown(a, b)
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_plain(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_plain(a, b)))
        }
        (a, b) => a == b,
    }
}

fn same_unknown(a: &DynamicMessage, b: &DynamicMessage) -> bool {
    a.unknown_fields().eq(b.unknown_fields())
}
