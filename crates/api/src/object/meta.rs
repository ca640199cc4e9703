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

    /// Takes the metadata away, for the parts of an object that are kept elsewhere.
    pub fn clear_metadata(&mut self) {
        let field = self.kind.fields.metadata.clone();
        self.message.clear_field(&field);
    }

    fn write_meta(&mut self, before: &ObjectMeta, after: &ObjectMeta) {
        let field = self.kind.fields.metadata.clone();
        let ProtoKind::Message(descriptor) = field.kind() else { return };
        let dynamic = |meta: &ObjectMeta| {
            DynamicMessage::decode(descriptor.clone(), meta.encode_to_vec().as_slice())
                .expect("bytes of ObjectMeta are an ObjectMeta")
        };
        let (before, after) = (dynamic(before), dynamic(after));
        let Some(stored) = self.message.get_field_mut(&field).as_message_mut() else { return };
        for field in descriptor.fields() {
            if before.get_field(&field) == after.get_field(&field) {
                continue;
            }
            match after.has_field(&field) {
                true => stored.set_field(&field, after.get_field(&field).into_owned()),
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
        self.update_meta(|meta| project.clone_into(&mut meta.project));
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
