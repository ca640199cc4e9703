//! The managers of an object, as its metadata records them.
use super::encode::{from_bytes, to_bytes};
use super::scope::Scope;
use super::set::FieldSet;
use super::{Manager, walk};
use orrery_api::Object;
use orrery_proto::meta::v1::ManagedFieldsEntry;
use prost_types::Timestamp;

/// Longest name of a manager, as clients of the Kubernetes dialect expect it.
pub(crate) const MANAGER_BYTES_MAX: usize = 128;

/// How the fields of an entry are written.
const FIELDS_TYPE: &str = "FieldsV1";

/// Managers that updated an object, at most; the fields of the oldest beyond it are put together, so
/// that a stream of one-time tools does not fill the object.
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// How a manager came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It declares them, and gives up those it no longer declares.
    Apply,
    /// It changed them.
    Update,
}

impl Operation {
    /// The operation of this name. One of a version that knows more is taken for a change.
    pub(super) fn named(name: &str) -> Self {
        if name == Self::Apply.as_str() { Self::Apply } else { Self::Update }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One manager and its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub manager: Manager,
    pub api_version: String,
    pub time: Option<Timestamp>,
    pub fields: FieldSet,
}

/// A field that an apply would change and that another manager holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    pub manager: String,
    /// The version in which it updated the field; empty if it applied it, in whichever.
    pub api_version: String,
    pub subresource: String,
    /// From the root of the object, with a dot in front: `.spec.image`.
    pub field: String,
}

impl FieldConflict {
    /// With whom, in the words that clients know.
    pub fn owner(&self) -> String {
        let part = match self.subresource.as_str() {
            "" => String::new(),
            part => format!(" with subresource {part:?}"),
        };
        let using = match self.api_version.as_str() {
            "" => String::new(),
            version => format!(" using {version}"),
        };
        format!("{:?}{part}{using}", self.manager)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managers {
    pub entries: Vec<Entry>,
}

impl Managers {
    pub fn of(object: &Object) -> Self {
        Self { entries: object.managed_fields().iter().filter_map(read).collect() }
    }

    /// From whom an update of the main part takes fields. Who the writer names holds them: a list
    /// with one empty entry names nobody. An empty list says nothing, so that whoever does not know of
    /// managers does not take them away; neither does one that cannot be read.
    pub fn given(given: &Object, live: &Object) -> Self {
        let named = given.meta().managed_fields;
        if named == [ManagedFieldsEntry::default()] {
            return Self::default();
        }
        let entries: Option<Vec<Entry>> = named.iter().map(read_exactly).collect();
        let Some(entries) = entries.filter(|entries| !entries.is_empty()) else {
            return Self::of(live);
        };
        let mut managers = Self::default();
        for entry in entries {
            managers.entries.retain(|before| before.manager != entry.manager);
            managers.entries.push(entry);
        }
        managers
    }

    pub fn get(&self, manager: &Manager) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.manager == *manager)
    }

    pub(super) fn others(&self, manager: &Manager) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.manager != *manager)
    }

    pub(super) fn set(&mut self, manager: &Manager, api_version: &str, fields: FieldSet) {
        match self.entries.iter_mut().find(|entry| entry.manager == *manager) {
            Some(entry) => {
                api_version.clone_into(&mut entry.api_version);
                entry.fields = fields;
            }
            None => self.entries.push(Entry {
                manager: manager.clone(),
                api_version: api_version.to_owned(),
                time: None,
                fields,
            }),
        }
    }

    /// Takes fields from everyone else.
    pub(super) fn take(&mut self, fields: &FieldSet, from_all_but: Option<&Manager>) {
        for entry in &mut self.entries {
            if Some(&entry.manager) != from_all_but {
                entry.fields = entry.fields.difference(fields);
            }
        }
    }

    /// Forgets fields that the object does not have, and managers that are left with none.
    pub(super) fn tidy(&mut self, object: &Object) {
        for entry in &mut self.entries {
            entry.fields = walk::present(&entry.fields, object);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
        self.put_oldest_together();
        self.entries.sort_by_cached_key(sort_key);
    }

    fn put_oldest_together(&mut self) {
        let is_update = |entry: &Entry| entry.manager.operation == Operation::Update;
        while UPDATERS_MAX < self.entries.iter().filter(|entry| is_update(entry)).count() {
            // Entries without a time are being written now.
            let age = |entry: &Entry| entry.time.map_or(i64::MAX, |time| time.seconds);
            let oldest = |entries: &[Entry]| {
                let updates = entries.iter().enumerate().filter(|(_, entry)| is_update(entry));
                updates
                    .min_by_key(|(_, entry)| (entry.manager.name != ANCIENT, age(entry)))
                    .map(|(index, _)| index)
            };
            let Some(first) = oldest(&self.entries) else { return };
            let mut merged = self.entries.remove(first);
            let Some(second) = oldest(&self.entries) else { return };
            let other = self.entries.remove(second);
            merged.manager.name = ANCIENT.to_owned();
            merged.time = merged.time.max_by_seconds(other.time);
            merged.fields = merged.fields.union(&other.fields);
            self.entries.push(merged);
        }
    }

    pub(super) fn write(&self, object: &mut Object) {
        let entries: Vec<ManagedFieldsEntry> = self.entries.iter().map(record).collect();
        object.set_managed_fields(&entries);
    }
}

trait MaxBySeconds {
    fn max_by_seconds(self, other: Self) -> Self;
}

impl MaxBySeconds for Option<Timestamp> {
    fn max_by_seconds(self, other: Self) -> Self {
        let later = |time: &Self| time.map(|time| time.seconds);
        if later(&self) < later(&other) { other } else { self }
    }
}

fn sort_key(entry: &Entry) -> (Operation, i64, String, Scope) {
    let time = entry.time.map_or(i64::MAX, |time| time.seconds);
    let Manager { name, operation, scope } = entry.manager.clone();
    (operation, time, name, scope)
}

fn record(entry: &Entry) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: entry.manager.name.clone(),
        operation: entry.manager.operation.as_str().to_owned(),
        api_version: entry.api_version.clone(),
        time: entry.time,
        fields_type: FIELDS_TYPE.to_owned(),
        fields_v1: to_bytes(&entry.fields).into(),
        subresource: entry.manager.scope.subresource().to_owned(),
    }
}

/// An entry that says exactly what it means.
fn read_exactly(entry: &ManagedFieldsEntry) -> Option<Entry> {
    let operations = [Operation::Apply.as_str(), Operation::Update.as_str()];
    let exact = operations.contains(&entry.operation.as_str()) && entry.fields_type == FIELDS_TYPE;
    let named = !entry.manager.is_empty() && entry.manager.len() <= MANAGER_BYTES_MAX;
    read(entry).filter(|_| exact && named)
}

/// What was written by a version that knows more operations or parts is left alone by none: it is
/// read as an update of the main part.
fn read(entry: &ManagedFieldsEntry) -> Option<Entry> {
    let fields = from_bytes(&entry.fields_v1)?;
    Some(Entry {
        manager: Manager {
            name: entry.manager.clone(),
            operation: Operation::named(&entry.operation),
            scope: Scope::named(&entry.subresource),
        },
        api_version: entry.api_version.clone(),
        time: entry.time,
        fields,
    })
}
