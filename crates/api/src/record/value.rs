//! One value of a field.
use std::collections::BTreeMap;

use prost::bytes::Bytes;
use prost_reflect::prost_types;

use super::Record;
use crate::schema::Scalar;

/// The entries of a map, in the order of their keys.
pub type Map = BTreeMap<Key, Value>;

/// What a field, an item of a list or an entry of a map holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    String(String),
    Bytes(Bytes),
    Record(Record),
    List(Vec<Value>),
    Map(Map),
    /// A point in time or a duration.
    Time {
        seconds: i64,
        nanos: i32,
    },
    /// Any JSON. Where only an object or a list may stand, it is one.
    Open(Box<prost_types::Value>),
}

/// The key of an entry of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Bool(bool),
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
    String(String),
}

impl Value {
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::I64(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_record(&self) -> Option<&Record> {
        match self {
            Self::Record(record) => Some(record),
            _ => None,
        }
    }

    pub fn as_record_mut(&mut self) -> Option<&mut Record> {
        match self {
            Self::Record(record) => Some(record),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Whether it is a list or a map with nothing in it, which is the same as none.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    pub(super) fn order_unknown(&mut self) {
        match self {
            Self::Record(record) => record.order_unknown(),
            Self::List(items) => items.iter_mut().for_each(Self::order_unknown),
            Self::Map(entries) => entries.values_mut().for_each(Self::order_unknown),
            _ => {}
        }
    }

    /// Whether it is what a field without presence has where it is absent.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Bool(value) => !value,
            Self::I32(value) => *value == 0,
            Self::I64(value) => *value == 0,
            Self::U32(value) => *value == 0,
            Self::U64(value) => *value == 0,
            Self::F32(value) => value.to_bits() == 0,
            Self::F64(value) => value.to_bits() == 0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(_) | Self::Map(_) => self.is_nothing(),
            Self::Record(_) | Self::Time { .. } | Self::Open(_) => false,
        }
    }
}

impl Scalar {
    /// What a field of this type has where nobody has set it.
    pub(crate) fn zero(self) -> Value {
        match self {
            Self::Bool => Value::Bool(false),
            Self::Int32 => Value::I32(0),
            Self::Int64 => Value::I64(0),
            Self::Uint32 => Value::U32(0),
            Self::Uint64 => Value::U64(0),
            Self::Float => Value::F32(0.0),
            Self::Double => Value::F64(0.0),
            Self::String => Value::String(String::new()),
            Self::Bytes => Value::Bytes(Bytes::new()),
        }
    }
}

impl Key {
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}
