//! Values of Terraform's language, and their types.
//!
//! ```text
//!   msgpack --decode (type, limits)--> Value --encode--> msgpack      what goes over the wire
//!   JSON of a state file --read (type)--> Value                       what an upgrade starts from
//! ```
//!
//! Sets are kept sorted and without doubles, and every number in its simplest form, so that values compare
//! with `==`.
mod msgpack;
mod number;
mod state;
mod r#type;

#[cfg(test)]
mod tests;

pub use msgpack::{DEPTH_MAX, DecodeError, MESSAGE_BYTES_MAX, decode, encode};
pub use number::Number;
pub use state::{StateError, read_state};
pub use r#type::{Type, TypeError};

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    /// Known after apply. The bytes are what is known of it all the same, as they came.
    Unknown(Refinement),
    Bool(bool),
    Number(Number),
    String(String),
    /// A list, a tuple or a set.
    List(Vec<Value>),
    /// A map or an object.
    Map(BTreeMap<String, Value>),
    /// A value that brings its type along.
    Dynamic(Box<(Type, Value)>),
}

/// What is known of an unknown value, in the words of the host; handed back unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refinement(pub(crate) Vec<u8>);

impl Value {
    /// A value of which nothing is known.
    pub const UNKNOWN: Self = Self::Unknown(Refinement(Vec::new()));

    pub fn text(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    pub fn integer(number: i64) -> Self {
        Self::Number(Number::Integer(number.into()))
    }

    /// An object with these attributes.
    pub fn object<K: Into<String>>(attributes: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(attributes.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// A set: sorted, nothing twice.
    pub fn set(items: Vec<Self>) -> Self {
        let mut keyed: Vec<(Vec<u8>, Self)> =
            items.into_iter().map(|item| (encode(&item), item)).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        keyed.dedup_by(|a, b| a.0 == b.0);
        Self::List(keyed.into_iter().map(|(_, item)| item).collect())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether it, or something in it, is unknown.
    pub fn has_unknowns(&self) -> bool {
        match self {
            Self::Unknown(_) => true,
            Self::List(items) => items.iter().any(Self::has_unknowns),
            Self::Map(entries) => entries.values().any(Self::has_unknowns),
            Self::Dynamic(inner) => inner.1.has_unknowns(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => false,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// An attribute of an object; null where there is none.
    pub fn get(&self, attribute: &str) -> &Self {
        self.as_map().and_then(|entries| entries.get(attribute)).unwrap_or(&Self::Null)
    }

    /// A value some steps into an object.
    pub fn at(&self, path: &[&str]) -> &Self {
        path.iter().fold(self, |value, step| value.get(step))
    }
}
