//! Typed lists of resources, in every codec that single resources have.
use std::{borrow::Borrow, io, sync::Arc};

use prost::{Message as _, encoding};
use serde_json::{Map, Value, json};

use super::{Object, ObjectError, compose::put_bytes, decode_error, wire::next};
use crate::{
    ListMeta,
    json::{DecodeError, DecodeOptions, JsonOptions, describe, parse_json_up_to},
    kind::Kind,
    manifest::{self, FILE_BYTES_MAX},
    record::Malformed,
    violation::Violation,
};

/// A list of resources of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectList {
    kind: Arc<Kind>,
    /// Revision of the list, and how to get the next part of it.
    pub metadata: ListMeta,
    pub items: Vec<Object>,
}

impl ObjectList {
    /// An empty list.
    pub fn new(kind: &Arc<Kind>) -> Self {
        Self { kind: kind.clone(), metadata: ListMeta::default(), items: Vec::new() }
    }

    /// The kind of the items.
    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// Writes the list as the kind's own list message.
    pub fn encode(&self) -> Vec<u8> {
        let (numbers, mut out) = (&self.kind.list_numbers, Vec::new());
        encoding::string::encode(numbers.api_version, &self.kind.api_version().into(), &mut out);
        encoding::string::encode(numbers.kind, &self.kind.list_kind().into(), &mut out);
        encoding::message::encode(numbers.metadata, &self.metadata, &mut out);
        for item in &self.items {
            put_bytes(numbers.items, &item.encode(), &mut out);
        }
        out
    }

    /// Reads the kind's own list message; unknown fields of the items are kept.
    pub fn decode(kind: &Arc<Kind>, bytes: &[u8]) -> Result<Self, ObjectError> {
        let numbers = &kind.list_numbers;
        let mut list = Self::new(kind);
        let (mut rest, cut) = (bytes, || decode_error(kind.list_kind(), &Malformed::Truncated));
        while let Some(field) = next(&mut rest).ok_or_else(cut)? {
            let (number, content) = (field.number, field.content);
            if number == numbers.metadata {
                let read = list.metadata.merge(content);
                read.map_err(|error| decode_error(kind.list_kind(), &error))?;
            } else if number == numbers.items {
                list.items.push(Object::decode(kind, content)?);
            }
        }
        Ok(list)
    }

    /// The list as JSON.
    pub fn to_json_value(&self, options: &JsonOptions) -> Value {
        let mut list = head(&self.kind, &self.metadata);
        let items = self.items.iter().map(|item| item.to_json_value(options)).collect();
        list.insert("items".to_owned(), Value::Array(items));
        Value::Object(list)
    }

    /// The list as JSON text on one line.
    pub fn to_json(&self, options: &JsonOptions) -> String {
        self.to_json_value(options).to_string()
    }

    /// The list as YAML text.
    pub fn to_yaml(&self, options: &JsonOptions) -> String {
        manifest::value_to_yaml(&self.to_json_value(options))
    }

    /// Writes a list as JSON, one item at a time: only one item is ever in memory as JSON.
    pub fn write_json<T: Borrow<Object>>(
        kind: &Kind,
        metadata: &ListMeta,
        items: impl IntoIterator<Item = T>,
        options: &JsonOptions,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let head = Value::Object(head(kind, metadata)).to_string();
        // The head is an object without its items: everything but its closing brace.
        out.write_all(&head.as_bytes()[..head.len() - 1])?;
        out.write_all(b",\"items\":[")?;
        for (index, item) in items.into_iter().enumerate() {
            if 0 < index {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &item.borrow().to_json_value(options))?;
        }
        out.write_all(b"]}")
    }

    /// Reads a list from JSON text, without defaults.
    pub fn from_json(
        kind: &Arc<Kind>,
        text: &[u8],
        options: &DecodeOptions,
    ) -> Result<Self, DecodeError> {
        Self::from_json_value(kind, &parse_json_up_to(text, FILE_BYTES_MAX)?, options)
    }

    /// Reads a list from YAML text, without defaults.
    pub fn from_yaml(
        kind: &Arc<Kind>,
        text: &[u8],
        options: &DecodeOptions,
    ) -> Result<Self, DecodeError> {
        Self::from_json_value(kind, &manifest::parse_single(text)?, options)
    }

    /// Reads a list from a JSON value, without defaults. All problems of all items are reported.
    pub fn from_json_value(
        kind: &Arc<Kind>,
        value: &Value,
        options: &DecodeOptions,
    ) -> Result<Self, DecodeError> {
        let mut list = Self::new(kind);
        let mut problems = check_type(kind, value);
        list.metadata = read_metadata(value, &mut problems);
        for (index, item) in read_items(value, &mut problems).iter().enumerate() {
            match Object::from_json_value(kind, item, options) {
                Ok(decoded) => list.items.push(decoded.object),
                Err(DecodeError::Invalid(found)) => {
                    problems.extend(found.into_iter().map(|mut problem| {
                        problem.path = format!("items[{index}].{}", problem.path);
                        problem
                    }));
                }
                Err(error) => return Err(error),
            }
        }
        if problems.is_empty() { Ok(list) } else { Err(DecodeError::Invalid(problems)) }
    }
}

/// Everything of a list but its items.
fn head(kind: &Kind, metadata: &ListMeta) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("resourceVersion".to_owned(), json!(metadata.resource_version));
    if !metadata.r#continue.is_empty() {
        meta.insert("continue".to_owned(), json!(metadata.r#continue));
    }
    if let Some(count) = metadata.remaining_item_count {
        meta.insert("remainingItemCount".to_owned(), json!(count));
    }
    let mut head = Map::new();
    head.insert("apiVersion".to_owned(), json!(kind.api_version()));
    head.insert("kind".to_owned(), json!(kind.list_kind()));
    head.insert("metadata".to_owned(), Value::Object(meta));
    head
}

fn check_type(kind: &Kind, value: &Value) -> Vec<Violation> {
    let expected = [("apiVersion", kind.api_version()), ("kind", kind.list_kind())];
    let mut problems = Vec::new();
    for (field, expected) in expected {
        match value.get(field) {
            Some(Value::String(found)) if found == expected => {}
            Some(found) => {
                problems.push(Violation::invalid(field, found, &format!("must be {expected:?}")))
            }
            None => problems.push(Violation::required(field, &format!("say {expected:?}"))),
        }
    }
    problems
}

fn read_metadata(value: &Value, problems: &mut Vec<Violation>) -> ListMeta {
    let mut text = |name: &str| match value.pointer(&format!("/metadata/{name}")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => {
            let path = format!("metadata.{name}");
            problems.push(Violation::wrong_type(path, "a string", describe(other)));
            String::new()
        }
    };
    let (resource_version, r#continue) = (text("resourceVersion"), text("continue"));
    let remaining_item_count =
        value.pointer("/metadata/remainingItemCount").and_then(Value::as_i64);
    ListMeta { resource_version, r#continue, remaining_item_count }
}

fn read_items<'a>(value: &'a Value, problems: &mut Vec<Violation>) -> &'a [Value] {
    match value.get("items") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(other) => {
            problems.push(Violation::wrong_type("items", "a list", describe(other)));
            &[]
        }
    }
}
