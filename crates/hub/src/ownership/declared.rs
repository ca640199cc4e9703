//! The set of the fields that an object sets, straight to bytes.
//!
//! Most applies declare the fields that their manager declared before. That can be told by these bytes alone, without
//! making a set of them and of those that are recorded.
use super::encode::{Key, entry};
use super::scope::{SERVER_OWNED, Scope};
use super::set::Element;
use super::shape::{Grain, grain_of, grain_of_entry, item_key, key_text, scalar_text};
use orrery_api::{FieldSchema, MessageId, Object, Record, Schema, Value};

/// The bytes of the fields that an object sets in this scope, as [`super::to_bytes`] writes them. `None` where
/// the set has to be made: several items have one key, or another part than the main one is declared.
pub fn declared_bytes(scope: Scope, object: &Object) -> Option<Vec<u8>> {
    if scope == Scope::Status {
        return None;
    }
    let mut out = Vec::with_capacity(512);
    Writer { schema: object.kind().schema() }.root(object.record(), &mut out)?;
    Some(out)
}

#[derive(Clone, Copy)]
struct Writer<'s> {
    schema: &'s Schema,
}

impl Writer<'_> {
    /// What the type says of itself and what only the server writes is nobody's.
    fn root(self, record: &Record, out: &mut Vec<u8>) -> Option<()> {
        for (field, value) in self.in_order_of_names(Schema::ROOT, record) {
            match (field.json_name.as_str(), grain_of(field, 1), value) {
                ("apiVersion" | "kind" | "status", _, _) => {}
                ("metadata", Grain::Message(id), Value::Record(meta)) => {
                    let mut inner = Vec::with_capacity(128);
                    let owned =
                        |field: &FieldSchema| !SERVER_OWNED.contains(&field.json_name.as_str());
                    self.fields(id, meta, 1, owned, &mut inner)?;
                    // The place itself is nobody's: without anything in it that is somebody's, it is not there.
                    if !inner.is_empty() {
                        entry(Key::Field(&field.json_name), out, |out| out.extend(inner));
                    }
                }
                (name, grain, value) => {
                    self.entry(Key::Field(name), value, grain, false, 1, out)?
                }
            }
        }
        Some(())
    }

    fn fields(
        self,
        id: MessageId,
        record: &Record,
        depth: usize,
        wanted: impl Fn(&FieldSchema) -> bool,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        for (field, value) in self.in_order_of_names(id, record) {
            if wanted(field) {
                let grain = grain_of(field, depth + 1);
                self.entry(Key::Field(&field.json_name), value, grain, false, depth + 1, out)?;
            }
        }
        Some(())
    }

    fn in_order_of_names<'a>(
        &'a self,
        id: MessageId,
        record: &'a Record,
    ) -> Vec<(&'a FieldSchema, &'a Value)> {
        let message = self.schema.message(id);
        let known = |(number, value)| Some((message.field_by_number(number)?, value));
        let mut present: Vec<_> = record.fields().filter_map(known).collect();
        present.sort_unstable_by(|(a, _), (b, _)| a.json_name.cmp(&b.json_name));
        present
    }

    /// One place and what is below it. `depth` counts the steps to it.
    fn entry(
        self,
        key: Key<'_>,
        value: &Value,
        grain: Grain<'_>,
        is_item: bool,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut done = Some(());
        entry(key, out, |out| {
            let start = out.len();
            if is_item {
                entry(Key::Itself, out, |_| {});
            }
            let behind = out.len();
            done = self.below(value, grain, depth, out);
            // A place with nothing below it says by that that it is in the set.
            if out.len() == behind {
                out.truncate(start);
            }
        });
        done
    }

    fn below(self, value: &Value, grain: Grain<'_>, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        match (grain, value) {
            (Grain::Message(id), Value::Record(record)) => {
                self.fields(id, record, depth, |_| true, out)
            }
            (Grain::Map(item), Value::Map(entries)) => {
                let mut sorted: Vec<_> =
                    entries.iter().map(|(key, value)| (key_text(key), value)).collect();
                // Numbers come in the order of their texts.
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                let grain = grain_of_entry(item, depth + 1);
                sorted.into_iter().try_for_each(|(key, value)| {
                    self.entry(Key::Field(&key), value, grain, true, depth + 1, out)
                })
            }
            (Grain::Set, Value::List(items)) => {
                let mut texts: Vec<String> = items.iter().map(scalar_text).collect();
                texts.sort_unstable();
                texts.dedup();
                texts.iter().for_each(|text| entry(Key::Value(text), out, |_| {}));
                Some(())
            }
            (Grain::Keyed(field, number, id), Value::List(items)) => {
                let key = |item| {
                    let value = item_key(item, number);
                    super::encode::key_of(&Element::Key { field: field.to_owned(), value })
                };
                let mut sorted: Vec<_> = items.iter().map(|item| (key(item), item)).collect();
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                if sorted.windows(2).any(|two| two[0].0 == two[1].0) {
                    return None;
                }
                let grain = grain_of_entry(orrery_api::Element::Message(id), depth + 1);
                sorted.into_iter().try_for_each(|(key, value)| {
                    self.entry(Key::Whole(&key), value, grain, true, depth + 1, out)
                })
            }
            (
                Grain::Whole | Grain::Message(_) | Grain::Map(_) | Grain::Set | Grain::Keyed(..),
                _,
            ) => Some(()),
        }
    }
}
