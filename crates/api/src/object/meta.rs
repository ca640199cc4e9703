//! Metadata: typed copies for those who change it, borrowed values for those who only look.
use std::collections::BTreeMap;

use jiff::Timestamp;
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind as ProtoKind, MapKey, Value};

use super::{Object, ObjectError, decode_error};
use crate::{ObjectMeta, json, lookup};

impl Object {
    /// A typed copy of the metadata.
    pub fn meta(&self) -> ObjectMeta {
        // The bytes were just written from the same definition, so they can be read.
        self.metadata().and_then(|meta| meta.transcode_to().ok()).unwrap_or_default()
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
        let field = self.kind.fields.metadata.clone();
        let ProtoKind::Message(descriptor) = field.kind() else { return Ok(()) };
        let Some(metadata) = other.metadata() else {
            self.message.clear_field(&field);
            return Ok(());
        };
        let copy = DynamicMessage::decode(descriptor, metadata.encode_to_vec().as_slice());
        let copy = copy.map_err(|error| decode_error("ObjectMeta", &error))?;
        self.message.set_field(&field, Value::Message(copy));
        Ok(())
    }

    /// Takes over the fields of the metadata that only the server writes, their absence included,
    /// from another object of the same kind.
    pub fn copy_server_owned_from(&mut self, other: &Self) {
        let kind = self.kind.clone();
        let meta = &kind.meta;
        let fields = [
            &meta.uid,
            &meta.resource_version,
            &meta.generation,
            &meta.creation_timestamp,
            &meta.deletion_timestamp,
            &meta.managed_fields,
        ];
        let stored = self.message.get_field_mut(&kind.fields.metadata).as_message_mut();
        let Some(stored) = stored else { return };
        for field in fields {
            match other.meta_value(field) {
                Some(value) => stored.set_field(field, value.clone()),
                None => stored.clear_field(field),
            }
        }
    }

    /// Whether the object belongs to others.
    pub fn has_owners(&self) -> bool {
        let list = self.meta_value(&self.kind.meta.owner_references).and_then(Value::as_list);
        list.is_some_and(|owners| !owners.is_empty())
    }

    /// Takes the metadata away, for the parts of an object that are kept elsewhere.
    pub fn clear_metadata(&mut self) {
        let field = self.kind.fields.metadata.clone();
        self.message.clear_field(&field);
    }

    fn write_meta(&mut self, before: &ObjectMeta, after: &ObjectMeta) {
        let field = self.kind.fields.metadata.clone();
        let ProtoKind::Message(descriptor) = field.kind() else { return };
        let (changes, numbers) = changes(before, after);
        let changes =
            DynamicMessage::decode(descriptor.clone(), changes.encode_to_vec().as_slice())
                .expect("bytes of ObjectMeta are an ObjectMeta");
        let Some(stored) = self.message.get_field_mut(&field).as_message_mut() else { return };
        for field in numbers.into_iter().filter_map(|number| descriptor.get_field(number)) {
            match changes.has_field(&field) {
                true => stored.set_field(&field, changes.get_field(&field).into_owned()),
                false => stored.clear_field(&field),
            }
        }
    }

    pub fn name(&self) -> &str {
        self.meta_text(&self.kind.meta.name)
    }
    pub fn project(&self) -> &str {
        self.meta_text(&self.kind.meta.project)
    }
    pub fn uid(&self) -> &str {
        self.meta_text(&self.kind.meta.uid)
    }
    pub fn resource_version(&self) -> &str {
        self.meta_text(&self.kind.meta.resource_version)
    }
    pub fn generation(&self) -> i64 {
        self.meta_value(&self.kind.meta.generation).and_then(Value::as_i64).unwrap_or_default()
    }
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        self.meta_time(&self.kind.meta.creation_timestamp)
    }
    /// When deletion was asked for; the object waits for its finalizers since.
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.meta_time(&self.kind.meta.deletion_timestamp)
    }
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta_entry(&self.kind.meta.labels, key)
    }
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta_entry(&self.kind.meta.annotations, key)
    }
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        self.meta_map(&self.kind.meta.labels)
    }
    pub fn annotations(&self) -> BTreeMap<&str, &str> {
        self.meta_map(&self.kind.meta.annotations)
    }
    pub fn finalizers(&self) -> Vec<&str> {
        let list = self.meta_value(&self.kind.meta.finalizers).and_then(Value::as_list);
        list.unwrap_or_default().iter().filter_map(Value::as_str).collect()
    }

    pub fn set_name(&mut self, name: &str) {
        self.update_meta(|meta| name.clone_into(&mut meta.name));
    }
    pub fn set_project(&mut self, project: &str) {
        let field = self.kind.meta.project.clone();
        self.set_meta_text(&field, project);
    }
    pub fn set_resource_version(&mut self, version: &str) {
        let field = self.kind.meta.resource_version.clone();
        self.set_meta_text(&field, version);
    }
    /// Whether anyone is recorded as the manager of a field.
    pub fn is_managed(&self) -> bool {
        let list = self.meta_value(&self.kind.meta.managed_fields).and_then(Value::as_list);
        list.is_some_and(|entries| !entries.is_empty())
    }
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.update_meta(|meta| meta.annotations.insert(key.to_owned(), value.to_owned()));
    }
    pub fn remove_annotation(&mut self, key: &str) -> Option<String> {
        self.update_meta(|meta| meta.annotations.remove(key))
    }

    pub(crate) fn metadata(&self) -> Option<&DynamicMessage> {
        lookup::get_message(&self.message, &self.kind.fields.metadata)
    }

    fn set_meta_text(&mut self, field: &FieldDescriptor, text: &str) {
        if self.meta_text(field) == text {
            return;
        }
        let metadata = self.kind.fields.metadata.clone();
        let Some(stored) = self.message.get_field_mut(&metadata).as_message_mut() else { return };
        if text.is_empty() {
            stored.clear_field(field);
        } else {
            stored.set_field(field, Value::String(text.to_owned()));
        }
    }

    fn meta_value(&self, field: &FieldDescriptor) -> Option<&Value> {
        lookup::get(self.metadata()?, field)
    }

    fn meta_text(&self, field: &FieldDescriptor) -> &str {
        self.meta_value(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn meta_time(&self, field: &FieldDescriptor) -> Option<Timestamp> {
        json::timestamp_of(self.meta_value(field)?.as_message()?)
    }

    fn meta_entry(&self, field: &FieldDescriptor, key: &str) -> Option<&str> {
        let map = self.meta_value(field)?.as_map()?;
        map.get(&MapKey::String(key.to_owned()))?.as_str()
    }

    fn meta_map(&self, field: &FieldDescriptor) -> BTreeMap<&str, &str> {
        let Some(map) = self.meta_value(field).and_then(Value::as_map) else {
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
