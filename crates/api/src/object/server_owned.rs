//! The metadata that only the server writes, field by field: nothing else of it is touched, read or copied.
use orrery_proto::meta::v1::ManagedFieldsEntry;
use prost::Message as _;
use prost_reflect::prost_types::Timestamp;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as ProtoKind, ReflectMessage as _, Value,
};

use bytes::Bytes;

use super::{Object, encode};
use crate::{lookup, schema::Element};

const MANAGED_FIELDS: &str = "metadata.managedFields";

// Of a timestamp.
const SECONDS: u32 = 1;
const NANOS: u32 = 2;

// Of a `ManagedFieldsEntry`.
const MANAGER: u32 = 1;
const OPERATION: u32 = 2;
const TIME: u32 = 4;
const SUBRESOURCE: u32 = 7;

impl Object {
    /// Makes it a new object: what the server owns is the server's.
    pub fn begin(&mut self, uid: &str, now: Timestamp) {
        self.clear_server_owned();
        let kind = self.kind.clone();
        let meta = self.metadata_mut();
        meta.set_field(&kind.meta.uid, Value::String(uid.to_owned()));
        meta.set_field(&kind.meta.generation, Value::I64(1));
        if let Some(time) = time_of(&kind.meta.creation_timestamp, now) {
            meta.set_field(&kind.meta.creation_timestamp, time);
        }
    }

    /// Takes away what only the server writes.
    pub fn clear_server_owned(&mut self) {
        let kind = self.kind.clone();
        if !self.message.has_field(&kind.fields.metadata) {
            return;
        }
        let (owned, meta) = (&kind.meta, self.metadata_mut());
        let fields = [
            &owned.uid,
            &owned.resource_version,
            &owned.generation,
            &owned.creation_timestamp,
            &owned.deletion_timestamp,
            &owned.managed_fields,
        ];
        fields.into_iter().for_each(|field| meta.clear_field(field));
    }

    pub fn set_generation(&mut self, generation: i64) {
        let field = self.kind.meta.generation.clone();
        self.metadata_mut().set_field(&field, Value::I64(generation));
    }

    /// Holds the object until whoever asks for it lets it go; once is enough.
    pub fn add_finalizer(&mut self, finalizer: &str) {
        if self.finalizers().contains(&finalizer) {
            return;
        }
        let field = self.kind.meta.finalizers.clone();
        if let Some(list) = self.metadata_mut().get_field_mut(&field).as_list_mut() {
            list.push(Value::String(finalizer.to_owned()));
        }
    }

    /// Who manages which fields.
    pub fn managed_fields(&self) -> Vec<ManagedFieldsEntry> {
        let list =
            self.metadata().and_then(|meta| lookup::get(meta, &self.kind.meta.managed_fields));
        let entries = list.and_then(Value::as_list).unwrap_or_default().iter();
        let field = self.kind.schema.field(MANAGED_FIELDS);
        let Some(Element::Message(id)) = field.map(|field| field.shape.element()) else {
            return Vec::new();
        };
        let read = |entry: &Value| {
            let bytes = encode::encode(&self.kind.schema, id, entry.as_message()?);
            // They are of the same definition, so each of them can be read.
            ManagedFieldsEntry::decode(Bytes::from(bytes)).ok()
        };
        entries.filter_map(read).collect()
    }

    pub fn set_managed_fields(&mut self, entries: &[ManagedFieldsEntry]) {
        let field = self.kind.meta.managed_fields.clone();
        let ProtoKind::Message(descriptor) = field.kind() else { return };
        let encoded = |entry: &ManagedFieldsEntry| {
            let bytes = entry.encode_to_vec();
            DynamicMessage::decode(descriptor.clone(), bytes.as_slice()).ok().map(Value::Message)
        };
        let entries: Vec<Value> = entries.iter().filter_map(encoded).collect();
        if entries.is_empty() && !self.is_managed() {
            return;
        }
        self.metadata_mut().set_field(&field, Value::List(entries));
    }

    /// Sets the time of those managers that are meant; asked by name, operation and subresource.
    pub fn stamp_managed_fields(
        &mut self,
        now: Timestamp,
        meant: impl Fn(&str, &str, &str) -> bool,
    ) {
        if !self.is_managed() {
            return;
        }
        let field = self.kind.meta.managed_fields.clone();
        let Some(list) = self.metadata_mut().get_field_mut(&field).as_list_mut() else { return };
        for entry in list.iter_mut().filter_map(Value::as_message_mut) {
            let text = |number| entry.get_field_by_number(number);
            let said = [text(MANAGER), text(OPERATION), text(SUBRESOURCE)];
            let said = said.each_ref().map(|text| text.as_ref().and_then(|text| text.as_str()));
            let [name, operation, part] = said.map(Option::unwrap_or_default);
            if !meant(name, operation, part) {
                continue;
            }
            let time = entry.descriptor().get_field(TIME);
            if let Some(time) = time.and_then(|field| Some((time_of(&field, now)?, field))) {
                entry.set_field(&time.1, time.0);
            }
        }
    }

    fn metadata_mut(&mut self) -> &mut DynamicMessage {
        let field = self.kind.fields.metadata.clone();
        let metadata = self.message.get_field_mut(&field).as_message_mut();
        metadata.expect("a kind whose metadata is no message is not registered")
    }
}

fn time_of(field: &FieldDescriptor, time: Timestamp) -> Option<Value> {
    let ProtoKind::Message(descriptor) = field.kind() else { return None };
    let mut message = DynamicMessage::new(descriptor);
    message.set_field_by_number(SECONDS, Value::I64(time.seconds));
    message.set_field_by_number(NANOS, Value::I32(time.nanos));
    Some(Value::Message(message))
}
