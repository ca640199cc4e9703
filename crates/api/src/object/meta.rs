//! Metadata: typed copies for those who change it, borrowed values for those who only look.
use std::collections::BTreeMap;

use jiff::Timestamp;
use prost::Message;

use super::{Object, ObjectError, decode_error};
use crate::{
    ObjectMeta, json,
    record::{self, Key, Record, Value},
};

impl Object {
    /// A typed copy of the metadata.
    pub fn meta(&self) -> ObjectMeta {
        // The bytes were just written from the same definition, so they can be read.
        let bytes = |meta| record::encode(&self.kind.schema, self.kind.parts.metadata, meta);
        let read = |meta| ObjectMeta::decode(bytes(meta).as_slice()).ok();
        self.metadata().and_then(read).unwrap_or_default()
    }

    /// Changes the metadata. Only the fields that `change` touched are written back, so fields
    /// that this program does not know stay.
    pub fn update_meta<R>(&mut self, change: impl FnOnce(&mut ObjectMeta) -> R) -> R {
        let before = self.meta();
        let mut after = before.clone();
        let result = change(&mut after);
        if before != after {
            self.write_meta(&before, &after);
        }
        result
    }

    /// Takes over the metadata of an object of any kind, unknown fields included.
    pub fn copy_metadata_from(&mut self, other: &Self) -> Result<(), ObjectError> {
        let number = self.kind.numbers.metadata;
        let Some(metadata) = other.metadata() else {
            self.record.clear(number);
            return Ok(());
        };
        // The definition of the other may know fields that this one does not.
        let bytes = record::encode(&other.kind.schema, other.kind.parts.metadata, metadata);
        let copy = record::decode(&self.kind.schema, self.kind.parts.metadata, &bytes);
        let copy = copy.map_err(|error| decode_error("ObjectMeta", &error))?;
        self.record.put(number, Value::Record(copy));
        Ok(())
    }

    /// Takes over the fields of the metadata that only the server writes, their absence included,
    /// from another object of the same kind.
    pub fn copy_server_owned_from(&mut self, other: &Self) {
        let Self { kind, record } = self;
        let stored = record.record_mut(kind.numbers.metadata);
        for number in kind.numbers.server_owned() {
            match other.meta_value(number) {
                Some(value) => stored.put(number, value.clone()),
                None => stored.clear(number),
            }
        }
    }

    /// Whether the object belongs to others.
    pub fn has_owners(&self) -> bool {
        self.meta_value(self.kind.numbers.owner_references).is_some()
    }

    /// Takes the metadata away, for the parts of an object that are kept elsewhere.
    pub fn clear_metadata(&mut self) {
        self.record.clear(self.kind.numbers.metadata);
    }

    fn write_meta(&mut self, before: &ObjectMeta, after: &ObjectMeta) {
        let Self { kind, record } = self;
        let (changes, numbers) = changes(before, after);
        let mut changes =
            record::decode(&kind.schema, kind.parts.metadata, &changes.encode_to_vec())
                .expect("bytes of ObjectMeta are an ObjectMeta");
        let stored = record.record_mut(kind.numbers.metadata);
        for number in numbers {
            match changes.take(number) {
                Some(value) => stored.put(number, value),
                None => stored.clear(number),
            }
        }
    }

    pub fn name(&self) -> &str {
        self.meta_text(self.kind.numbers.name)
    }
    pub fn project(&self) -> &str {
        self.meta_text(self.kind.numbers.project)
    }
    pub fn uid(&self) -> &str {
        self.meta_text(self.kind.numbers.uid)
    }
    pub fn resource_version(&self) -> &str {
        self.meta_text(self.kind.numbers.resource_version)
    }
    pub fn generation(&self) -> i64 {
        self.meta_value(self.kind.numbers.generation).and_then(Value::as_i64).unwrap_or_default()
    }
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        self.meta_time(self.kind.numbers.creation_timestamp)
    }
    /// When deletion was asked for; the object waits for its finalizers since.
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.meta_time(self.kind.numbers.deletion_timestamp)
    }
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta_entry(self.kind.numbers.labels, key)
    }
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta_entry(self.kind.numbers.annotations, key)
    }
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        self.meta_map(self.kind.numbers.labels)
    }
    pub fn annotations(&self) -> BTreeMap<&str, &str> {
        self.meta_map(self.kind.numbers.annotations)
    }
    pub fn finalizers(&self) -> Vec<&str> {
        let list = self.meta_value(self.kind.numbers.finalizers).and_then(Value::as_list);
        list.unwrap_or_default().iter().filter_map(Value::as_str).collect()
    }

    pub fn set_name(&mut self, name: &str) {
        self.update_meta(|meta| name.clone_into(&mut meta.name));
    }
    pub fn set_project(&mut self, project: &str) {
        self.set_meta_text(self.kind.numbers.project, project);
    }
    pub fn set_resource_version(&mut self, version: &str) {
        self.set_meta_text(self.kind.numbers.resource_version, version);
    }
    /// Whether anyone is recorded as the manager of a field.
    pub fn is_managed(&self) -> bool {
        self.meta_value(self.kind.numbers.managed_fields).is_some()
    }
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.update_meta(|meta| meta.annotations.insert(key.to_owned(), value.to_owned()));
    }
    pub fn remove_annotation(&mut self, key: &str) -> Option<String> {
        self.update_meta(|meta| meta.annotations.remove(key))
    }

    pub(crate) fn metadata(&self) -> Option<&Record> {
        self.record.record(self.kind.numbers.metadata)
    }

    pub(super) fn metadata_mut(&mut self) -> &mut Record {
        self.record.record_mut(self.kind.numbers.metadata)
    }

    fn set_meta_text(&mut self, number: u32, text: &str) {
        if self.meta_text(number) == text {
            return;
        }
        match text {
            "" => self.metadata_mut().clear(number),
            text => self.metadata_mut().put(number, Value::String(text.to_owned())),
        }
    }

    pub(super) fn meta_value(&self, number: u32) -> Option<&Value> {
        self.metadata()?.get(number)
    }

    fn meta_text(&self, number: u32) -> &str {
        self.metadata().map_or("", |meta| meta.text(number))
    }

    fn meta_time(&self, number: u32) -> Option<Timestamp> {
        json::timestamp_of(self.meta_value(number)?)
    }

    fn meta_entry(&self, number: u32, key: &str) -> Option<&str> {
        let map = self.meta_value(number)?.as_map()?;
        map.get(&Key::String(key.to_owned()))?.as_str()
    }

    fn meta_map(&self, number: u32) -> BTreeMap<&str, &str> {
        let Some(map) = self.meta_value(number).and_then(Value::as_map) else {
            return BTreeMap::new();
        };
        map.iter().filter_map(|(key, value)| Some((key.as_str()?, value.as_str()?))).collect()
    }
}

/// Only what differs, as it is afterwards, and the numbers of the fields that do.
fn changes(before: &ObjectMeta, after: &ObjectMeta) -> (ObjectMeta, Vec<u32>) {
    let mut changes = ObjectMeta::default();
    let mut numbers = Vec::new();
    macro_rules! compare {
        ($($number:literal $field:ident),*) => {
            // Names every field, so that a new one cannot be forgotten here.
            let ObjectMeta { $($field),* } = after;
            $(if before.$field != *$field {
                changes.$field.clone_from($field);
                numbers.push($number);
            })*
        };
    }
    compare!(
        1 name, 2 project, 3 description, 4 labels, 5 annotations, 6 uid, 7 resource_version,
        8 generation, 9 creation_timestamp, 10 deletion_timestamp, 11 finalizers,
        12 owner_references, 13 managed_fields, 14 generate_name
    );
    (changes, numbers)
}
