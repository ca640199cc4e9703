//! The metadata that only the server writes, field by field: nothing else of it is touched, read or copied.
use orrery_proto::meta::v1::ManagedFieldsEntry;
use prost::Message as _;
use prost_reflect::prost_types::Timestamp;

use bytes::Bytes;

use super::Object;
use crate::{
    kind::Numbers,
    record::{self, Value},
    schema::{Element, MessageId},
};

const MANAGED_FIELDS: &str = "metadata.managedFields";

// Of a `ManagedFieldsEntry`.
const MANAGER: u32 = 1;
const OPERATION: u32 = 2;
const API_VERSION: u32 = 3;
const TIME: u32 = 4;
const FIELDS: u32 = 6;
const SUBRESOURCE: u32 = 7;

/// What the record of an only manager says, as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlyManager<'a> {
    pub name: &'a str,
    pub operation: &'a str,
    pub api_version: &'a str,
    pub subresource: &'a str,
    pub fields: &'a [u8],
}

impl Object {
    /// Makes it a new object: what the server owns is the server's.
    pub fn begin(&mut self, uid: &str, now: Timestamp) {
        self.clear_server_owned();
        let kind = self.kind.clone();
        let meta = self.metadata_mut();
        meta.put(kind.numbers.uid, Value::String(uid.to_owned()));
        meta.put(kind.numbers.generation, Value::I64(1));
        meta.put(kind.numbers.creation_timestamp, time_of(now));
    }

    /// Takes away what only the server writes.
    pub fn clear_server_owned(&mut self) {
        let kind = self.kind.clone();
        if self.metadata().is_some() {
            let meta = self.metadata_mut();
            kind.numbers.server_owned().into_iter().for_each(|number| meta.clear(number));
        }
    }

    pub fn set_generation(&mut self, generation: i64) {
        let number = self.kind.numbers.generation;
        match generation {
            0 => self.metadata_mut().clear(number),
            generation => self.metadata_mut().put(number, Value::I64(generation)),
        }
    }

    /// Holds the object until whoever asks for it lets it go; once is enough.
    pub fn add_finalizer(&mut self, finalizer: &str) {
        if self.finalizers().contains(&finalizer) {
            return;
        }
        let number = self.kind.numbers.finalizers;
        self.metadata_mut().list_mut(number).push(Value::String(finalizer.to_owned()));
    }

    /// Who manages which fields.
    pub fn managed_fields(&self) -> Vec<ManagedFieldsEntry> {
        let list = self.meta_value(self.kind.numbers.managed_fields);
        let entries = list.and_then(Value::as_list).unwrap_or_default().iter();
        let Some(id) = self.manager_part() else { return Vec::new() };
        let read = |entry: &Value| {
            let bytes = record::encode(&self.kind.schema, id, entry.as_record()?);
            // They are of the same definition, so each of them can be read.
            ManagedFieldsEntry::decode(Bytes::from(bytes)).ok()
        };
        entries.filter_map(read).collect()
    }

    /// The one who manages fields, where it is one alone.
    pub fn only_manager(&self) -> Option<OnlyManager<'_>> {
        let list = self.meta_value(self.kind.numbers.managed_fields)?.as_list()?;
        let [Value::Record(entry)] = list else { return None };
        let fields = entry.get(FIELDS).and_then(Value::as_bytes).unwrap_or_default();
        Some(OnlyManager {
            name: entry.text(MANAGER),
            operation: entry.text(OPERATION),
            api_version: entry.text(API_VERSION),
            subresource: entry.text(SUBRESOURCE),
            fields,
        })
    }

    pub fn set_managed_fields(&mut self, entries: &[ManagedFieldsEntry]) {
        let Some(id) = self.manager_part() else { return };
        if entries.is_empty() && !self.is_managed() {
            return;
        }
        let schema = &self.kind.schema;
        let read = |entry: &ManagedFieldsEntry| {
            record::decode(schema, id, &entry.encode_to_vec()).ok().map(Value::Record)
        };
        let entries = entries.iter().filter_map(read).collect();
        let number = self.kind.numbers.managed_fields;
        self.metadata_mut().put(number, Value::List(entries));
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
        let number = self.kind.numbers.managed_fields;
        let list = self.metadata_mut().list_mut(number);
        for entry in list.iter_mut().filter_map(Value::as_record_mut) {
            if meant(entry.text(MANAGER), entry.text(OPERATION), entry.text(SUBRESOURCE)) {
                entry.put(TIME, time_of(now));
            }
        }
    }

    /// What the schema calls the message that tells of one manager.
    fn manager_part(&self) -> Option<MessageId> {
        match self.kind.schema.field(MANAGED_FIELDS)?.shape.element() {
            Element::Message(id) => Some(id),
            Element::Scalar(_) | Element::WellKnown(_) => None,
        }
    }
}

impl Numbers {
    /// The fields of the metadata that only the server writes.
    pub(super) fn server_owned(&self) -> [u32; 6] {
        [
            self.uid,
            self.resource_version,
            self.generation,
            self.creation_timestamp,
            self.deletion_timestamp,
            self.managed_fields,
        ]
    }
}

fn time_of(time: Timestamp) -> Value {
    Value::Time { seconds: time.seconds, nanos: time.nanos }
}
