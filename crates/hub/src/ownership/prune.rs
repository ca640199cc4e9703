//! Takes away what a manager declared before and no longer does, unless someone else claims it.
use super::set::{Element, FieldSet, Node};
use super::shape::{Grain, grain_of, grain_of_entry, item_key, key_text};
use orrery_api::{Element as Type, FieldSchema, MessageId, Record, Schema, Value};

/// `last` is what the manager declared before, `claimed` what it or anyone else claims now.
pub(super) fn prune(schema: &Schema, object: &mut Record, last: &FieldSet, claimed: &FieldSet) {
    Pruner { schema }.message(Schema::ROOT, object, last, claimed, 0);
}

struct Pruner<'s> {
    schema: &'s Schema,
}

impl Pruner<'_> {
    fn message(
        &self,
        id: MessageId,
        object: &mut Record,
        last: &FieldSet,
        claimed: &FieldSet,
        depth: usize,
    ) {
        for field in &self.schema.message(id).fields {
            let Some(node) = last.field(&field.json_name) else { continue };
            let claim = claimed.field(&field.json_name);
            if object.has(field.number) && self.field(field, object, node, claim, depth + 1) {
                object.clear(field.number);
            }
        }
    }

    /// Whether nothing of the field is left that anyone asked for.
    fn field(
        &self,
        field: &FieldSchema,
        object: &mut Record,
        last: &Node,
        claim: Option<&Node>,
        depth: usize,
    ) -> bool {
        let nothing = FieldSet::default();
        let claimed = claim.map_or(&nothing, |claim| &claim.children);
        let Some(value) = object.get_mut(field.number) else { return false };
        match (grain_of(field, depth), value) {
            (Grain::Message(id), Value::Record(message)) => {
                self.message(id, message, &last.children, claimed, depth);
                claim.is_none() && only_defaults(self.schema, id, message)
            }
            (Grain::Map(entry), Value::Map(entries)) => {
                entries.retain(|key, value| {
                    let element = Element::Field(key_text(key));
                    self.keep(&element, value, entry, last, claimed, depth + 1)
                });
                entries.is_empty()
            }
            (Grain::Keyed(key, number, id), Value::List(items)) => {
                items.retain_mut(|item| {
                    let element = Element::Key { field: key.into(), value: item_key(item, number) };
                    self.keep(&element, item, Type::Message(id), last, claimed, depth + 1)
                });
                items.is_empty()
            }
            (Grain::Set, Value::List(_)) => {
                self.set(field, object, last, claimed, depth);
                !object.has(field.number)
            }
            (
                Grain::Whole | Grain::Message(_) | Grain::Map(_) | Grain::Set | Grain::Keyed(..),
                _,
            ) => last.owned && claim.is_none(),
        }
    }

    fn set(
        &self,
        field: &FieldSchema,
        object: &mut Record,
        last: &Node,
        claimed: &FieldSet,
        depth: usize,
    ) {
        let Some(value) = object.get(field.number) else { return };
        let places = super::shape::children(self.schema, value, Grain::Set, depth);
        let goes = |element: &Element| {
            last.children.get(element).is_some() && claimed.get(element).is_none()
        };
        let kept: Vec<Value> = places
            .into_iter()
            .filter(|place| !goes(&place.element))
            .map(|place| place.value.clone())
            .collect();
        object.put(field.number, Value::List(kept));
    }

    /// Whether an item or entry stays. Where it does, it is pruned itself. One that was declared as a whole stays for
    /// those who declare it too: who only changed something in it does not keep the rest of it.
    fn keep(
        &self,
        element: &Element,
        value: &mut Value,
        item: Type,
        last: &Node,
        claimed: &FieldSet,
        depth: usize,
    ) -> bool {
        let Some(node) = last.children.get(element) else { return true };
        let claim = claimed.get(element).filter(|claim| claim.owned || !node.owned);
        let Some(claim) = claim else { return !node.owned };
        if let (Grain::Message(id), Value::Record(message)) = (grain_of_entry(item, depth), value) {
            self.message(id, message, &node.children, &claim.children, depth);
        }
        true
    }
}

/// Whether a message holds nothing but what would be filled in again.
fn only_defaults(schema: &Schema, id: MessageId, message: &Record) -> bool {
    let fields = &schema.message(id).fields;
    let is_default = |field: &FieldSchema| match message.get(field.number) {
        None => true,
        Some(value) if field.default.as_ref() == Some(value) => true,
        Some(Value::Record(inner)) => match field.shape.element() {
            Type::Message(id) => only_defaults(schema, id, inner),
            Type::Scalar(_) | Type::WellKnown(_) => false,
        },
        Some(_) => false,
    };
    !message.has_unknown() && fields.iter().all(is_default)
}
