//! Sets of fields in the form that clients of the Kubernetes dialect know as `FieldsV1`.
//!
//! `{"f:spec": {"f:ports": {"k:{\"name\":\"http\"}": {".": {}, "f:number": {}}}}}`: a place without
//! anything below it is in the set; one with something below it is in the set if it has a dot.
use super::set::{Element, FieldSet, Node};
use orrery_api::within;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::{Struct, Value, value::Kind};
use serde_json::Value as Json;

const SELF: &str = ".";

// Of a `Struct`, of an entry of its map, and of a `Value`.
const FIELDS: u32 = 1;
const KEY: u32 = 1;
const VALUE: u32 = 2;
const STRUCT: u32 = 5;

/// What a place is called, without a copy of it.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    Itself,
    Field(&'a str),
    Value(&'a str),
    /// As it is written.
    Whole(&'a str),
}

/// Writes one place and what is below it as an entry of a set, as [`to_bytes`] writes it.
pub(super) fn entry(key: Key<'_>, out: &mut Vec<u8>, below: impl FnOnce(&mut Vec<u8>)) {
    let (tag, text) = match key {
        Key::Itself => ("", SELF),
        Key::Field(name) => ("f:", name),
        Key::Value(json) => ("v:", json),
        Key::Whole(text) => ("", text),
    };
    within(FIELDS, out, |out| {
        encode_key(KEY, WireType::LengthDelimited, out);
        encode_varint((tag.len() + text.len()) as u64, out);
        out.extend_from_slice(tag.as_bytes());
        out.extend_from_slice(text.as_bytes());
        within(VALUE, out, |out| within(STRUCT, out, below));
    });
}

/// The same bytes for the same set.
pub fn to_bytes(set: &FieldSet) -> Vec<u8> {
    to_struct(set).encode_to_vec()
}

fn to_struct(set: &FieldSet) -> Struct {
    let entry = |(element, node): (&Element, &Node)| (key_of(element), wrap(node_struct(node)));
    Struct { fields: set.iter().map(entry).collect() }
}

fn node_struct(node: &Node) -> Struct {
    let mut inner = to_struct(&node.children);
    if node.owned && !node.children.is_empty() {
        inner.fields.insert(SELF.to_owned(), wrap(Struct::default()));
    }
    inner
}

fn wrap(inner: Struct) -> Value {
    Value { kind: Some(Kind::StructValue(inner)) }
}

pub(super) fn key_of(element: &Element) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Key { field, value } => {
            let key = serde_json::Map::from_iter([(field.clone(), Json::from(value.as_str()))]);
            format!("k:{}", Json::Object(key))
        }
        Element::Value(json) => format!("v:{json}"),
    }
}

/// Reads a set; `None` where the bytes are those of something else.
pub fn from_bytes(bytes: &[u8]) -> Option<FieldSet> {
    Struct::decode(bytes).ok().map(|fields| from_struct(&fields))
}

/// Reads a set. What cannot be read is left out: nobody owns it then.
fn from_struct(fields: &Struct) -> FieldSet {
    let mut set = FieldSet::default();
    for (key, value) in &fields.fields {
        let (Some(element), Some(Kind::StructValue(inner))) = (element_of(key), &value.kind) else {
            continue;
        };
        let children = from_struct(inner);
        let owned = inner.fields.contains_key(SELF) || inner.fields.is_empty();
        set.put(element, Node { owned, children });
    }
    set
}

fn element_of(key: &str) -> Option<Element> {
    let (tag, text) = key.split_once(':')?;
    match tag {
        "f" => Some(Element::Field(text.to_owned())),
        "v" => Some(Element::Value(text.to_owned())),
        "k" => {
            let key: serde_json::Map<String, Json> = serde_json::from_str(text).ok()?;
            let (field, value) = key.into_iter().next()?;
            Some(Element::Key { field, value: value.as_str()?.to_owned() })
        }
        _ => None,
    }
}
