//! One resource of any kind, as a dynamic message that keeps the fields it does not know.
//!
//! The message is the truth: typed views are made of its bytes, so a server that is older than
//! the writer of an object never erases what it does not understand.
mod codec;
mod compose;
mod conditions;
mod encode;
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
use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage, Value};

pub use codec::Decoded;
pub use compose::Composed;
pub use encoded::{Encoded, Form};
pub(crate) use equal::same_value;
pub use lineage::LINEAGE;
pub use list::ObjectList;

use crate::{
    json::JsonOptions,
    kind::{Kind, same_kind},
    lookup,
    schema::Schema,
    violation::Violation,
};

/// One resource and its kind. Equality ignores the order of maps, not that of lists.
#[derive(Clone)]
pub struct Object {
    kind: Arc<Kind>,
    message: DynamicMessage,
}

/// Bytes or values that do not fit a kind.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ObjectError {
    #[error("bytes are not a {kind}: {problem}")]
    Decode { kind: String, problem: String },
    #[error("a {found} is not a {expected}")]
    OtherType { expected: String, found: String },
}

impl Object {
    /// A resource of which only the kind is known. People's input and new objects go through
    /// [`Object::instantiate`] or the scheme, which also fill in defaults.
    pub fn new(kind: &Arc<Kind>) -> Self {
        let mut object =
            Self { kind: kind.clone(), message: DynamicMessage::new(kind.descriptor().clone()) };
        object.set_type();
        object
    }

    /// A new resource with its defaults.
    pub fn instantiate(kind: &Arc<Kind>) -> Self {
        let mut object = Self::new(kind);
        object.default();
        object
    }

    /// Takes a message that is of the kind's own type.
    pub fn from_message(kind: &Arc<Kind>, message: DynamicMessage) -> Result<Self, ObjectError> {
        if message.descriptor() != *kind.descriptor() {
            let found = message.descriptor().full_name().to_owned();
            return Err(ObjectError::OtherType { expected: kind.full_name().to_owned(), found });
        }
        let mut object = Self { kind: kind.clone(), message };
        object.set_type();
        Ok(object)
    }

    /// Reads protobuf bytes; fields that the kind does not know are kept.
    pub fn decode(kind: &Arc<Kind>, bytes: &[u8]) -> Result<Self, ObjectError> {
        let message = DynamicMessage::decode(kind.descriptor().clone(), bytes);
        let message = message.map_err(|error| decode_error(kind.kind(), &error))?;
        let mut object = Self { kind: kind.clone(), message };
        object.set_type();
        Ok(object)
    }

    /// Writes protobuf bytes. Maps have no order in them, so compare objects and not bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode::encode(&self.kind.schema, Schema::ROOT, &self.message)
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
    pub fn message(&self) -> &DynamicMessage {
        &self.message
    }
    pub fn message_mut(&mut self) -> &mut DynamicMessage {
        &mut self.message
    }
    pub fn into_message(self) -> DynamicMessage {
        self.message
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
    pub fn spec(&self) -> Option<&DynamicMessage> {
        self.part(self.kind.fields.spec.as_ref())
    }

    /// What is.
    pub fn status(&self) -> Option<&DynamicMessage> {
        self.part(self.kind.fields.status.as_ref())
    }

    /// Replaces the spec; a message of another type is refused.
    pub fn set_spec(&mut self, spec: DynamicMessage) -> Result<(), ObjectError> {
        let field = self.kind.fields.spec.clone();
        self.set_part(field, "spec", spec)
    }

    /// Replaces the status; a message of another type is refused.
    pub fn set_status(&mut self, status: DynamicMessage) -> Result<(), ObjectError> {
        let field = self.kind.fields.status.clone();
        self.set_part(field, "status", status)
    }

    /// Takes the status away.
    pub fn clear_status(&mut self) {
        if let Some(field) = self.kind.fields.status.clone() {
            self.message.clear_field(&field);
        }
    }

    /// Takes over the spec of another object of the same kind, its absence included.
    pub fn copy_spec_from(&mut self, other: &Self) -> Result<(), ObjectError> {
        let field = self.kind.fields.spec.clone();
        self.copy_part(field, other)
    }

    /// Takes over the status of another object of the same kind, its absence included.
    pub fn copy_status_from(&mut self, other: &Self) -> Result<(), ObjectError> {
        let field = self.kind.fields.status.clone();
        self.copy_part(field, other)
    }

    fn part(&self, field: Option<&FieldDescriptor>) -> Option<&DynamicMessage> {
        lookup::get_message(&self.message, field?)
    }

    fn set_part(
        &mut self,
        field: Option<FieldDescriptor>,
        what: &str,
        part: DynamicMessage,
    ) -> Result<(), ObjectError> {
        let found = part.descriptor().full_name().to_owned();
        let other = || ObjectError::OtherType {
            expected: format!("{what} of {}", self.kind.kind()),
            found,
        };
        match field {
            Some(field) if field.kind().as_message() == Some(&part.descriptor()) => {
                self.message.set_field(&field, Value::Message(part));
                Ok(())
            }
            Some(_) | None => Err(other()),
        }
    }

    fn copy_part(
        &mut self,
        field: Option<FieldDescriptor>,
        other: &Self,
    ) -> Result<(), ObjectError> {
        other.check_type(self.kind.full_name().to_owned())?;
        let Some(field) = field else { return Ok(()) };
        match other.part(Some(&field)) {
            Some(part) => self.message.set_field(&field, Value::Message(part.clone())),
            None => self.message.clear_field(&field),
        }
        Ok(())
    }

    /// What an object says of its own type is what its kind says, whatever was stored: the group
    /// suffix of an installation may have changed since.
    fn set_type(&mut self) {
        let kind = self.kind.clone();
        let said =
            [(&kind.fields.api_version, kind.api_version()), (&kind.fields.kind, kind.kind())];
        for (field, text) in said {
            if lookup::get(&self.message, field).and_then(Value::as_str) != Some(text) {
                self.message.set_field(field, Value::String(text.to_owned()));
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

fn decode_error(kind: &str, error: &prost::DecodeError) -> ObjectError {
    ObjectError::Decode { kind: kind.to_owned(), problem: error.to_string() }
}
