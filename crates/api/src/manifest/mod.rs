//! Manifests: files of resources in YAML or JSON, with the place of every field.
//!
//! ```text
//!   bytes --> documents (value and places) --> lists are taken apart --> Manifest, Manifest, ...
//! ```
//!
//! YAML is read by the core schema of YAML 1.2, so `no` is a word and `012` is twelve. Whatever
//! is wrong is said as `file:line:column: what`.
mod build;
mod place;
mod print;
mod scalar;

use std::fmt;

use serde_json::Value;

pub use place::Position;
pub use print::value_to_yaml;

use crate::{
    json::{DecodeError, JSON_BYTES_MAX, parse_json_up_to},
    violation::Violation,
};
use build::{Document, Flaw, parse_documents};
use place::Place;

/// Largest file of manifests. It may hold many resources; each of them has its own limit.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// Most values in one file, those included that aliases repeat: bounds what a small file can
/// make of itself in memory.
pub const NODES_MAX: usize = 1_000_000;

/// One resource of a file, as it is written there.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Name of the file, as the caller gave it.
    pub source_name: String,
    /// Position among the resources of the file, from 0.
    pub index: usize,
    /// Line at which the resource starts.
    pub line: usize,
    pub value: Value,
    place: Place,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}:{column}: {message}")]
pub struct ManifestError {
    pub source_name: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Everything that is wrong with a file; prints one line for each problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestErrors(pub Vec<ManifestError>);

impl fmt::Display for ManifestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ManifestError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ManifestErrors {}

impl From<ManifestError> for ManifestErrors {
    fn from(error: ManifestError) -> Self {
        Self(vec![error])
    }
}

impl Manifest {
    /// Where a field stands in the file. For a field that is not written there, the nearest
    /// thing around it.
    pub fn locate(&self, path: &str) -> Position {
        self.place.locate(path)
    }

    /// The place of a field as editors understand it: `hello.yaml:12:9`.
    pub fn at(&self, path: &str) -> String {
        let Position { line, column } = self.locate(path);
        format!("{}:{line}:{column}", self.source_name)
    }

    /// A violation with its place: `hello.yaml:12:9: spec.replicas: ...`.
    pub fn describe(&self, violation: &Violation) -> String {
        self.error(&violation.path, violation).to_string()
    }

    /// An error at the place of a field.
    pub fn error(&self, path: &str, message: impl fmt::Display) -> ManifestError {
        let Position { line, column } = self.locate(path);
        let (source_name, message) = (self.source_name.clone(), message.to_string());
        ManifestError { source_name, line, column, message }
    }
}

/// Reads all resources of a file. Empty documents are skipped and lists are taken apart.
pub fn parse_manifests(source_name: &str, bytes: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    let located = |flaw: Flaw| ManifestError {
        source_name: source_name.to_owned(),
        line: flaw.at.line,
        column: flaw.at.column,
        message: flaw.message,
    };
    let text = checked_text(bytes).map_err(located)?;
    let documents = read(source_name, text).map_err(located)?;
    let mut manifests = Vec::new();
    for document in documents {
        for (value, place) in take_apart(document) {
            let at = place.locate("");
            if JSON_BYTES_MAX < value.to_string().len() {
                let message = format!("resource is too large: at most {JSON_BYTES_MAX} bytes");
                return Err(located(Flaw { at, message }));
            }
            let (source_name, index) = (source_name.to_owned(), manifests.len());
            manifests.push(Manifest { source_name, index, line: at.line, value, place });
        }
    }
    Ok(manifests)
}

/// Reads YAML text with exactly one document, which may also be a list.
pub(crate) fn parse_single(bytes: &[u8]) -> Result<Value, DecodeError> {
    let syntax = |flaw: Flaw| DecodeError::Syntax {
        line: flaw.at.line,
        column: flaw.at.column,
        message: flaw.message,
    };
    let text = checked_text(bytes).map_err(syntax)?;
    let mut documents = read("", text).map_err(syntax)?;
    match (documents.pop(), documents.pop()) {
        (Some(only), None) => Ok(only.value),
        (None, _) => Err(syntax(Flaw::start("there is no resource in this text"))),
        (Some(second), Some(_)) => Err(syntax(Flaw {
            at: second.place.locate(""),
            message: "expected one document, found another".to_owned(),
        })),
    }
}

fn checked_text(bytes: &[u8]) -> Result<&str, Flaw> {
    if FILE_BYTES_MAX < bytes.len() {
        let message = format!("too large: {} bytes, at most {FILE_BYTES_MAX}", bytes.len());
        return Err(Flaw::start(&message));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let line_start = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = String::from_utf8_lossy(&valid[line_start..]).chars().count() + 1;
        let message = format!("not valid UTF-8 at byte {}", error.valid_up_to());
        Flaw { at: Position { line, column }, message }
    })
}

/// JSON is nearly YAML; where they differ (escapes), JSON text is read as JSON, and the YAML
/// reader only says where things stand.
fn read(source_name: &str, text: &str) -> Result<Vec<Document>, Flaw> {
    let documents = parse_documents(text);
    if !text.trim_start().starts_with(['{', '[']) {
        return documents;
    }
    match parse_json_up_to(text.as_bytes(), FILE_BYTES_MAX) {
        Ok(value) => {
            let place = documents.ok().and_then(|mut found| Some(found.pop()?.place));
            Ok(vec![Document { value, place: place.unwrap_or_default() }])
        }
        Err(DecodeError::Syntax { line, column, message }) if source_name.ends_with(".json") => {
            Err(Flaw { at: Position { line, column: column.max(1) }, message })
        }
        Err(_) => documents,
    }
}

/// A list becomes its items. Items of a typed list may leave their own type out.
fn take_apart(document: Document) -> Vec<(Value, Place)> {
    let Document { mut value, place } = document;
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let Some(item_kind) = kind.strip_suffix("List").map(str::to_owned) else {
        return vec![(value, place)];
    };
    let api_version = value.get("apiVersion").cloned();
    if !value.get("items").is_some_and(Value::is_array) {
        return vec![(value, place)];
    }
    let Value::Array(items) = value["items"].take() else { return Vec::new() };
    let places = place.into_items("items", items.len());
    let typed = |item| with_type(item, &item_kind, api_version.as_ref());
    items.into_iter().map(typed).zip(places).collect()
}

fn with_type(mut item: Value, kind: &str, api_version: Option<&Value>) -> Value {
    if let Value::Object(fields) = &mut item
        && !kind.is_empty()
        && !fields.contains_key("kind")
        && !fields.contains_key("apiVersion")
    {
        fields.insert("kind".to_owned(), Value::String(kind.to_owned()));
        if let Some(api_version) = api_version {
            fields.insert("apiVersion".to_owned(), api_version.clone());
        }
    }
    item
}
