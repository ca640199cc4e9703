//! What was read from JSON, laid over what was there: JSON does not carry the fields that a newer
//! server wrote and this one does not know, and a patch must not erase them.
use crate::ownership::item_key;
use orrery_api::{Element, FieldSchema, Key, MessageId, Object, Record, Schema, Value};
use std::collections::BTreeSet;
use std::iter;

/// So many pairs of items are compared at most to find those that have moved in a list: as many as in a Role all of
/// whose rules were changed. Of longer lists only what stays in its place is found.
const COMPARED_MAX: usize = 256 * 256;

/// Makes `live` equal to `next` in every field that is known, and keeps the others.
pub fn overlay(live: &mut Object, next: &Object) {
    let kind = live.kind().clone();
    message(kind.schema(), Schema::ROOT, live.record_mut(), next.record());
}

fn message(schema: &Schema, id: MessageId, live: &mut Record, next: &Record) {
    let message = schema.message(id);
    for field in &message.fields {
        match next.get(field.number) {
            None => live.clear(field.number),
            Some(value) => {
                let merged = match live.get(field.number) {
                    Some(old) => merged(schema, field, old, value),
                    None => value.clone(),
                };
                message.set(live, field, merged);
            }
        }
    }
}

fn merged(schema: &Schema, field: &FieldSchema, old: &Value, next: &Value) -> Value {
    let Element::Message(id) = field.shape.element() else { return next.clone() };
    match (old, next, field.key_number) {
        (Value::Record(_), Value::Record(_), _) => one(schema, id, old, next),
        (Value::Map(old), Value::Map(next), _) => {
            let entry = |(key, value): (&Key, &Value)| {
                let merged = old.get(key).map(|old| one(schema, id, old, value));
                (key.clone(), merged.unwrap_or_else(|| value.clone()))
            };
            Value::Map(next.iter().map(entry).collect())
        }
        (Value::List(old), Value::List(next), Some(key)) => {
            let item = |value: &Value| {
                let name = item_key(value, key);
                let before = old.iter().find(|old| item_key(old, key) == name);
                before.map_or_else(|| value.clone(), |old| one(schema, id, old, value))
            };
            Value::List(next.iter().map(item).collect())
        }
        (Value::List(old), Value::List(next), None) => Value::List(items(schema, id, old, next)),
        (_, next, _) => next.clone(),
    }
}

/// The items of a list without keys. Those at its beginning and at its end say themselves that they are as they were.
fn items(schema: &Schema, id: MessageId, old: &[Value], next: &[Value]) -> Vec<Value> {
    let same = |(old, next): &(&Value, &Value)| alike(schema, id, old, next);
    let front = old.iter().zip(next).take_while(same).count();
    let rest = old[front..].iter().rev().zip(next[front..].iter().rev());
    let back = rest.take_while(same).count();
    let (left, changed) = (&old[front..old.len() - back], &next[front..next.len() - back]);
    let found = origins(left.len(), changed.len(), |old, next| same(&(&left[old], &changed[next])));
    let laid = changed.iter().zip(found).map(|(next, found)| match found {
        Some(found) => one(schema, id, &left[found], next),
        None => next.clone(),
    });
    let back = old[old.len() - back..].iter().cloned();
    old[..front].iter().cloned().chain(laid).chain(back).collect()
}

/// Which of so many old items each of the next ones was. One that is as it was is found wherever it went: who changes
/// the order changes no item. Each of the others is the one that stood there, where as many stand between two that were
/// found, or an end, as stood there before.
fn origins(old: usize, next: usize, same: impl Fn(usize, usize) -> bool) -> Vec<Option<usize>> {
    let mut found: Vec<_> = (0..next).map(|at| (at < old && same(at, at)).then_some(at)).collect();
    let moved: Vec<usize> = (0..next).filter(|at| found[*at].is_none()).collect();
    let is_left = |at: &usize| found.get(*at).is_none_or(Option::is_none);
    let mut left: BTreeSet<usize> = (0..old).filter(is_left).collect();
    if COMPARED_MAX < moved.len().saturating_mul(left.len()) {
        return found;
    }
    for at in moved {
        let alike = left.iter().copied().find(|old| same(*old, at));
        found[at] = alike.and_then(|old| left.take(&old));
    }
    // Counted from one, so that the ends are places, too.
    let known = found.iter().zip(1..).filter_map(|(old, at)| Some((at, (*old)? + 1)));
    let known: Vec<_> = iter::once((0, 0)).chain(known).chain([(next + 1, old + 1)]).collect();
    for ((from, was_from), (to, was_to)) in known.iter().zip(&known[1..]) {
        if was_from + (to - from) == *was_to {
            (0..to - from - 1).for_each(|step| found[from + step] = left.take(&(was_from + step)));
        }
    }
    found
}

/// Whether two items say the same as far as that is known.
fn alike(schema: &Schema, id: MessageId, old: &Value, next: &Value) -> bool {
    let (Value::Record(old), Value::Record(next)) = (old, next) else { return old == next };
    schema.message(id).fields.iter().all(|field| {
        match (old.get(field.number), next.get(field.number), field.shape.element()) {
            (Some(old), Some(next), Element::Message(id)) => all_alike(schema, id, old, next),
            (old, next, _) => old == next,
        }
    })
}

fn all_alike(schema: &Schema, id: MessageId, old: &Value, next: &Value) -> bool {
    match (old, next) {
        (Value::List(old), Value::List(next)) => {
            let each = |(old, next)| alike(schema, id, old, next);
            old.len() == next.len() && old.iter().zip(next).all(each)
        }
        (Value::Map(old), Value::Map(next)) => {
            let each = |(key, old)| next.get(key).is_some_and(|next| alike(schema, id, old, next));
            old.len() == next.len() && old.iter().all(each)
        }
        (old, next) => alike(schema, id, old, next),
    }
}

fn one(schema: &Schema, id: MessageId, old: &Value, next: &Value) -> Value {
    let (Value::Record(old), Value::Record(next)) = (old, next) else { return next.clone() };
    let mut merged = old.clone();
    message(schema, id, &mut merged, next);
    Value::Record(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Items are letters: what is known of them.
    #[track_caller]
    fn check(old: &str, next: &str, expect: &[Option<usize>]) {
        let (old, next) = (old.as_bytes(), next.as_bytes());
        let found = origins(old.len(), next.len(), |at, to| old[at] == next[to]);
        assert_eq!(found, expect);
    }

    #[test]
    fn an_item_is_known_by_what_it_says_and_else_by_its_place() {
        check("abc", "abc", &[Some(0), Some(1), Some(2)]);
        check("abc", "xby", &[Some(0), Some(1), Some(2)]);
        check("abc", "cab", &[Some(2), Some(0), Some(1)]);
        check("aab", "axa", &[Some(0), None, Some(1)]);
        check("ab", "axby", &[Some(0), None, Some(1), None]);
        check("ab", "xbc", &[Some(0), Some(1), None]);
        check("abc", "bx", &[Some(1), Some(2)]);
        check("", "a", &[None]);
        check("a", "", &[]);
        // One went and another came; which of two was changed nobody can tell.
        check("ab", "bx", &[Some(1), None]);
        check("abc", "xc", &[None, Some(2)]);
    }

    #[test]
    fn too_many_are_not_compared() {
        let compared = std::cell::Cell::new(0);
        let found = origins(COMPARED_MAX, COMPARED_MAX, |old, next| {
            compared.set(compared.get() + 1);
            old == next && old == 7
        });
        assert_eq!(compared.get(), COMPARED_MAX);
        assert_eq!((found[7], found[8]), (Some(7), None));
    }

    proptest! {
        /// Nothing is two items, what is as it was keeps what is its own, and so does what was changed in its place.
        #[test]
        fn no_item_gets_what_is_of_another(
            old in Just((0..8_u8).collect::<Vec<_>>()).prop_shuffle(),
            edits in prop::collection::vec((0..8_usize, 0..4_u8), 0..4),
        ) {
            let mut next = old.clone();
            for (number, (at, how)) in edits.iter().enumerate() {
                let (at, fresh) = (at % next.len(), 100 + u8::try_from(number).expect("few"));
                match how {
                    0 => next[at] = fresh,
                    1 => next.insert(at, fresh),
                    2 => drop(next.remove(at)),
                    _ => next[at..].reverse(),
                }
            }
            let found = origins(old.len(), next.len(), |at, to| old[at] == next[to]);
            let places: HashMap<u8, usize> = old.iter().copied().zip(0..).collect();
            let told: Vec<usize> = found.iter().flatten().copied().collect();
            prop_assert_eq!(BTreeSet::from_iter(&told).len(), told.len(), "each once");
            for (at, item) in next.iter().enumerate() {
                match places.get(item) {
                    Some(place) => prop_assert_eq!(found[at], Some(*place)),
                    None => prop_assert!(found[at].is_none_or(|place| !next.contains(&old[place]))),
                }
            }
            if edits.iter().all(|(_, how)| *how == 0) {
                prop_assert_eq!(told, (0..old.len()).collect::<Vec<_>>(), "all are in their places");
            }
        }
    }
}
