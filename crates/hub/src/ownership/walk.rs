//! From objects to sets of fields.
use super::set::{FieldSet, Node};
use super::shape::{Child, Grain, children, fields_of, same};
use orrery_api::{Object, Schema, Value};
use std::collections::HashMap;

/// Every field that an object sets.
pub fn fields(object: &Object) -> FieldSet {
    let schema = object.kind().schema();
    collect(schema, fields_of(schema, Schema::ROOT, object.record(), 0), 0)
}

fn collect(schema: &Schema, places: Vec<Child<'_, '_>>, depth: usize) -> FieldSet {
    let mut set = FieldSet::default();
    for place in places {
        let node = node_of(schema, &place, depth + 1);
        set.put(place.element, node);
    }
    set
}

fn node_of(schema: &Schema, place: &Child<'_, '_>, depth: usize) -> Node {
    let children = collect(schema, children(schema, place.value, place.grain, depth), depth);
    Node { owned: place.is_item || children.is_empty(), children }
}

/// Every field of `new` that `old` does not have, or has with another value.
pub fn changed(old: &Object, new: &Object) -> FieldSet {
    let schema = new.kind().schema();
    let places = |object| fields_of(schema, Schema::ROOT, object, 0);
    compare(schema, places(old.record()), places(new.record()), 0)
}

fn compare<'v, 's>(
    schema: &'s Schema,
    old: Vec<Child<'v, 's>>,
    new: Vec<Child<'v, 's>>,
    depth: usize,
) -> FieldSet {
    let before: HashMap<_, &Value> =
        old.into_iter().map(|child| (child.element, child.value)).collect();
    let mut set = FieldSet::default();
    for place in new {
        let node = match before.get(&place.element) {
            None => node_of(schema, &place, depth + 1),
            Some(old) => compare_place(schema, old, &place, depth + 1),
        };
        set.put(place.element, node);
    }
    set
}

fn compare_place(schema: &Schema, old: &Value, new: &Child<'_, '_>, depth: usize) -> Node {
    // Nothing is taken apart that is the same: most of an object is.
    let changed = !same(old, new.value);
    if !changed || matches!(new.grain, Grain::Whole) {
        return Node { owned: changed, children: FieldSet::default() };
    }
    let below = |value| children(schema, value, new.grain, depth);
    let (before, now) = (below(old), below(new.value));
    // A place that became empty is a value of its own from now on.
    let emptied = now.is_empty() && !before.is_empty();
    Node { owned: emptied, children: compare(schema, before, now, depth) }
}

/// The part of a set that an object has.
pub(super) fn present(set: &FieldSet, object: &Object) -> FieldSet {
    let schema = object.kind().schema();
    retain(schema, set, fields_of(schema, Schema::ROOT, object.record(), 0), 0)
}

fn retain(schema: &Schema, set: &FieldSet, places: Vec<Child<'_, '_>>, depth: usize) -> FieldSet {
    let mut kept = FieldSet::default();
    for place in places {
        let Some(node) = set.get(&place.element) else { continue };
        let below = children(schema, place.value, place.grain, depth + 1);
        let children = retain(schema, &node.children, below, depth + 1);
        kept.put(place.element, Node { owned: node.owned, children });
    }
    kept
}
