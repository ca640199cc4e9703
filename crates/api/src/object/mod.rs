//! One resource of any kind, as a record that keeps the fields it does not know.
//!
//! The record is the truth: typed views are made of its bytes, so a server that is older than
//! the writer of an object never erases what it does not understand.
mod codec;
mod compose;
mod conditions;
mod encoded;
mod equal;
mod hide;
mod lineage;
mod list;
mod meta;
mod redact;
mod server_owned;
mod splice;
pub(crate) mod wire;

use std::{fmt, sync::Arc};

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, ReflectMessage};

pub use codec::Decoded;
pub use compose::Composed;
pub use encoded::{Encoded, Form};
pub(crate) use equal::same_value;
pub use lineage::LINEAGE;
pub use list::ObjectList;
pub use server_owned::OnlyManager;

use crate::{
    json::JsonOptions,
    kind::{Kind, same_kind},
    lookup,
    record::{self, Record, Value},
    schema::Schema,
    violation::Violation,
};

/// One resource and its kind. Equality ignores the order of maps, not that of lists.
#[derive(Clone)]
pub struct Object {
    kind: Arc<Kind>,
    record: Record,
}

/// Bytes or values that do not fit a kind.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ObjectError {
    #[error("bytes are not a {kind}: {problem}")]
    Decode { kind: String, problem: String },
    #[error("a {kind} has no field {path}")]
    NoField { kind: String, path: String },
    #[error("a {found} is not a {expected}")]
    OtherType { expected: String, found: String },
}

impl Object {
    /// A resource of which only the kind is known. People's input and new objects go through
    /// [`Object::instantiate`] or the scheme, which also fill in defaults.
    pub fn new(kind: &Arc<Kind>) -> Self {
        Self::of_record(kind, Record::new())
    }

    /// A new resource with its defaults.
    pub fn instantiate(kind: &Arc<Kind>) -> Self {
        let mut object = Self::new(kind);
        object.default();
        object
    }

    /// Takes what stands in the fields of a kind.
    pub(crate) fn of_record(kind: &Arc<Kind>, record: Record) -> Self {
        let mut object = Self { kind: kind.clone(), record };
        object.set_type();
        object
    }

    /// Takes a message that is of the kind's own type.
    pub fn from_message(kind: &Arc<Kind>, message: &DynamicMessage) -> Result<Self, ObjectError> {
        if message.descriptor() != *kind.descriptor() {
            let found = message.descriptor().full_name().to_owned();
            return Err(ObjectError::OtherType { expected: kind.full_name().to_owned(), found });
        }
        Self::decode(kind, &message.encode_to_vec())
    }

    /// A copy that knows its own definition, for those who convert one into another by the names of their fields.
    pub fn to_message(&self) -> DynamicMessage {
        DynamicMessage::decode(self.kind.descriptor().clone(), self.encode().as_slice())
            .expect("what was written along a definition is read by it")
    }

    /// Changes it as a message that knows its own definition.
    pub fn edit_message<R>(&mut self, edit: impl FnOnce(&mut DynamicMessage) -> R) -> R {
        let mut message = self.to_message();
        let result = edit(&mut message);
        let edited = Self::from_message(&self.kind, &message);
        *self = edited.expect("what was written along a definition is read by it");
        result
    }

    /// Sets the field at a dotted JSON path such as `spec.placement.replicas`; the messages on the way are there
    /// afterwards. Whoever calls it knows the type of the field, and that it is no branch of a choice.
    pub fn set_at(&mut self, path: &str, value: Value) -> Result<(), ObjectError> {
        let Self { kind, record } = self;
        let none = || ObjectError::NoField { kind: kind.kind().to_owned(), path: path.to_owned() };
        let steps = lookup::steps(&kind.schema, path).ok_or_else(none)?;
        let (last, way) = steps.split_last().ok_or_else(none)?;
        let place = way.iter().fold(record, |record, step| record.record_mut(step.number));
        match last.zero_when_absent && value.is_zero() {
            true => place.clear(last.number),
            false => place.put(last.number, value),
        }
        Ok(())
    }

    /// Reads protobuf bytes; fields that the kind does not know are kept.
    pub fn decode(kind: &Arc<Kind>, bytes: &[u8]) -> Result<Self, ObjectError> {
        let record = record::decode(&kind.schema, Schema::ROOT, bytes);
        let record = record.map_err(|error| decode_error(kind.kind(), &error))?;
        Ok(Self::of_record(kind, record))
    }

    /// Writes protobuf bytes: the same for the same object. Others may write them otherwise, so compare objects and
    /// not bytes.
    pub fn encode(&self) -> Vec<u8> {
        record::encode(&self.kind.schema, Schema::ROOT, &self.record)
    }

    /// A typed copy, for code that acts on one kind.
    pub fn typed<T: Message + Name + Default>(&self) -> Result<T, ObjectError> {
        self.check_type(T::full_name())?;
        T::decode(self.encode().as_slice()).map_err(|error| decode_error(self.kind.kind(), &error))
    }

    /// An object of a typed value.
    pub fn from_typed<T: Message + Name>(kind: &Arc<Kind>, value: &T) -> Result<Self, ObjectError> {
        let object = Self::decode(kind, &value.encode_to_vec())?;
        object.check_type(T::full_name())?;
        Ok(object)
    }

    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }
    pub fn record(&self) -> &Record {
        &self.record
    }
    pub fn record_mut(&mut self) -> &mut Record {
        &mut self.record
    }

    /// Fills in the defaults of the kind; see [`crate::default`].
    pub fn default(&mut self) {
        crate::defaults::default(self);
    }

    /// Everything that is wrong with the object; see [`crate::validate`].
    pub fn validate(&self, old: Option<&Self>) -> Vec<Violation> {
        crate::validate::validate(self, old)
    }

    /// Everything that is wrong with what is said to be; see [`crate::validate_status`].
    pub fn validate_status(&self, old: Option<&Self>) -> Vec<Violation> {
        crate::validate::validate_status(self, old)
    }

    /// What people ask for.
    pub fn spec(&self) -> Option<&Record> {
        self.record.record(self.kind.numbers.spec?)
    }

    /// The same, to change it; it is there afterwards. A kind without a spec has none.
    pub fn spec_mut(&mut self) -> Option<&mut Record> {
        self.kind.numbers.spec.map(|number| self.record.record_mut(number))
    }

    /// What is.
    pub fn status(&self) -> Option<&Record> {
        self.record.record(self.kind.numbers.status?)
    }

    /// Takes over the status of an object of another version of the kind: all of them share its definition.
    pub fn share_status_of(&mut self, other: &Self) -> Result<(), ObjectError> {
        let message = |kind: &Kind| {
            kind.parts.status.map(|id| kind.schema.message(id).descriptor.full_name().to_owned())
        };
        let (expected, found) = (message(&self.kind), message(&other.kind));
        if expected != found {
            let name =
                |it: Option<String>| it.unwrap_or_else(|| "kind without a status".to_owned());
            return Err(ObjectError::OtherType { expected: name(expected), found: name(found) });
        }
        self.put_part(self.kind.numbers.status, other.status().cloned());
        Ok(())
    }

    /// Takes the status away.
    pub fn clear_status(&mut self) {
        self.put_part(self.kind.numbers.status, None);
    }

    /// Takes over the spec of another object of the same kind, its absence included.
    pub fn copy_spec_from(&mut self, other: &Self) -> Result<(), ObjectError> {
        other.check_type(self.kind.full_name().to_owned())?;
        self.put_part(self.kind.numbers.spec, other.spec().cloned());
        Ok(())
    }

    /// Takes over the status of another object of the same kind, its absence included.
    pub fn copy_status_from(&mut self, other: &Self) -> Result<(), ObjectError> {
        other.check_type(self.kind.full_name().to_owned())?;
        self.put_part(self.kind.numbers.status, other.status().cloned());
        Ok(())
    }

    fn put_part(&mut self, number: Option<u32>, part: Option<Record>) {
        match (number, part) {
            (Some(number), Some(part)) => self.record.put(number, Value::Record(part)),
            (Some(number), None) => self.record.clear(number),
            (None, _) => {}
        }
    }

    /// What an object says of its own type is what its kind says, whatever was stored: the group
    /// suffix of an installation may have changed since.
    fn set_type(&mut self) {
        let Self { kind, record } = self;
        let numbers = &kind.numbers;
        let said = [(numbers.api_version, kind.api_version()), (numbers.kind, kind.kind())];
        for (number, text) in said {
            if record.text(number) != text {
                record.put(number, Value::String(text.to_owned()));
            }
        }
    }

    fn check_type(&self, expected: String) -> Result<(), ObjectError> {
        check_type(&self.kind, expected)
    }
}

fn check_type(kind: &Kind, expected: String) -> Result<(), ObjectError> {
    if kind.full_name() == expected {
        return Ok(());
    }
    Err(ObjectError::OtherType { expected, found: kind.full_name().to_owned() })
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        same_kind(&self.kind, &other.kind) && self.equals_in_order(other)
    }
}

/// Prints what may be logged: sensitive fields are left out.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted().to_json(&JsonOptions::default()))
    }
}

fn decode_error(kind: &str, error: &impl fmt::Display) -> ObjectError {
    ObjectError::Decode { kind: kind.to_owned(), problem: error.to_string() }
}
