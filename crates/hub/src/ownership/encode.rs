//! Sets of fields in the form that clients of the Kubernetes dialect know as `FieldsV1`.
//!
//! `{"f:spec": {"f:ports": {"k:{\"name\":\"http\"}": {".": {}, "f:number": {}}}}}`: a place without
//! anything below it is in the set; one with something below it is in the set if it has a dot.
use super::set::{Element, FieldSet, Node};
use prost::Message as _;
use prost_types::{Struct, Value, value::Kind};
use serde_json::Value as Json;

const SELF: &str = ".";

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

fn key_of(element: &Element) -> String {
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
