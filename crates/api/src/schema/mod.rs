//! The compiled form of a kind's messages: fields, rules, defaults and comments.
//!
//! Reading options from a descriptor decodes them each time, so it happens once, here. Messages
//! live in one table and refer to each other by index, which also serves messages that contain
//! themselves. Every walker of this crate (JSON, defaults, validation, equality) follows it.
mod build;

use orrery_proto::options::v1::FieldRules;
use prost_reflect::{FieldDescriptor, MessageDescriptor};
use regex::Regex;

pub(crate) use build::{build, rules_of_kind};

use crate::record::{Record, Value};

/// Index of a message in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub(crate) usize);

/// All messages that a kind is made of; the kind itself is the first.
#[derive(Debug)]
pub struct Schema {
    pub(crate) messages: Vec<MessageSchema>,
}

/// One message: its fields in the order in which they are defined.
#[derive(Debug)]
pub struct MessageSchema {
    pub descriptor: MessageDescriptor,
    /// The comment above it.
    pub doc: String,
    pub fields: Vec<FieldSchema>,
    /// Indexes of the fields, by the numbers of these.
    pub(crate) by_number: Vec<usize>,
    /// The choices between fields, without those that only stand for `optional`.
    pub oneofs: Vec<OneofSchema>,
    /// Whether this is the metadata every resource has; its project has two names in JSON.
    pub is_metadata: bool,
}

/// One field and what its value must be like.
#[derive(Debug)]
pub struct FieldSchema {
    pub descriptor: FieldDescriptor,
    pub number: u32,
    /// Whether it is told that the field is absent from that it has its zero value.
    pub presence: bool,
    /// Name in JSON and YAML.
    pub json_name: String,
    /// The comment above it.
    pub doc: String,
    pub shape: Shape,
    pub rules: FieldRules,
    /// The compiled pattern; it matches the whole string.
    pub pattern: Option<Regex>,
    /// The parsed default.
    pub default: Option<Value>,
    /// Index of the choice in [`MessageSchema::oneofs`] that this is a branch of.
    pub oneof: Option<usize>,
    /// The number of the field that identifies an item of this list.
    pub key_number: Option<u32>,
    pub(crate) codings: Codings,
}

/// How the numbers of a field are written as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Codings {
    /// The keys of a map.
    pub key: Coding,
    pub value: Coding,
    /// A list of numbers is written as one piece.
    pub packed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    Varint,
    /// Small whatever its sign: `sint32` and `sint64`.
    ZigZag,
    /// Four or eight bytes.
    Fixed,
}

/// A choice between fields.
#[derive(Debug)]
pub struct OneofSchema {
    pub name: String,
    /// Exactly one branch must be set, instead of at most one.
    pub required: bool,
    /// Indexes of its branches in [`MessageSchema::fields`].
    pub fields: Vec<usize>,
}

/// How many values a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Single(Element),
    List(Element),
    Map { key: Scalar, value: Element },
}

/// What one value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Scalar(Scalar),
    Message(MessageId),
    WellKnown(WellKnown),
}

/// The scalars that kinds are made of. Enumerations are strings with `values`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Float,
    Double,
    String,
    Bytes,
}

/// The messages of protobuf itself that have a JSON form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WellKnown {
    /// RFC 3339 text.
    Timestamp,
    /// Seconds with an `s`: `1.5s`.
    Duration,
    /// Any JSON object.
    Struct,
    /// Any JSON value.
    Value,
    /// Any JSON list.
    List,
}

impl Schema {
    /// The message with this index.
    pub fn message(&self, id: MessageId) -> &MessageSchema {
        &self.messages[id.0]
    }

    /// The kind itself.
    pub fn root(&self) -> &MessageSchema {
        self.message(Self::ROOT)
    }

    /// Index of the kind itself.
    pub const ROOT: MessageId = MessageId(0);

    /// All messages, the kind itself first.
    pub fn messages(&self) -> &[MessageSchema] {
        &self.messages
    }

    /// The field at a dotted JSON path such as `spec.placement.nodes`; list items and map values
    /// are reached through their field: `spec.rules.name`.
    pub fn field(&self, path: &str) -> Option<&FieldSchema> {
        let mut message = self.root();
        let mut segments = path.split('.').peekable();
        loop {
            let field = message.field_by_json_name(segments.next()?)?;
            if segments.peek().is_none() {
                return Some(field);
            }
            message = match field.shape.element() {
                Element::Message(id) => self.message(id),
                Element::Scalar(_) | Element::WellKnown(_) => return None,
            };
        }
    }
}

impl MessageSchema {
    pub fn field_by_number(&self, number: u32) -> Option<&FieldSchema> {
        self.numbered(number, 0).map(|(_, field)| field)
    }

    /// The field of this number and where it is among all numbers. It is looked for first from `near` on: most
    /// walks go through the numbers in their order.
    pub(crate) fn numbered(&self, number: u32, near: usize) -> Option<(usize, &FieldSchema)> {
        let field = |place: usize| Some(&self.fields[*self.by_number.get(place)?]);
        let is_it = |place: &usize| field(*place).is_some_and(|field| field.number == number);
        let place = (near..near + 3).find(is_it).or_else(|| {
            self.by_number.binary_search_by_key(&number, |index| self.fields[*index].number).ok()
        })?;
        Some((place, field(place)?))
    }

    /// Sets a field of a record of this message: zero is no value where the field has no presence, and of a choice
    /// the other branches go.
    pub fn set(&self, record: &mut Record, field: &FieldSchema, value: Value) {
        if let Some(oneof) = field.oneof {
            let branches = self.oneofs[oneof].fields.iter().map(|index| &self.fields[*index]);
            branches.for_each(|branch| record.clear(branch.number));
        }
        match field.presence || !value.is_zero() {
            true => record.put(field.number, value),
            false => record.clear(field.number),
        }
    }

    pub fn field_by_json_name(&self, name: &str) -> Option<&FieldSchema> {
        self.fields.iter().find(|field| field.json_name == name)
    }
}

impl Shape {
    /// What the value, each item or each map value is.
    pub fn element(self) -> Element {
        match self {
            Self::Single(element) | Self::List(element) => element,
            Self::Map { value, .. } => value,
        }
    }
}

impl Scalar {
    /// The words for this type in messages to people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int32 | Self::Int64 => "an integer",
            Self::Uint32 | Self::Uint64 => "a non-negative integer",
            Self::Float | Self::Double => "a number",
            Self::String => "a string",
            Self::Bytes => "a base64 string",
        }
    }
}

impl FieldSchema {
    /// Whether the list is a set: order has no meaning.
    pub fn is_set(&self) -> bool {
        self.rules.set
    }

    /// The JSON name of the field that identifies an item of this list.
    pub fn key(&self) -> Option<&str> {
        (!self.rules.key.is_empty()).then_some(self.rules.key.as_str())
    }
}
