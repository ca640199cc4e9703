//! JSON in and out, led by the schema of a kind.
//!
//! ```text
//!   text --parse (size, UTF-8, depth, duplicate keys)--> value --decode (types)--> message
//!   text <----------------------------------------------- value <--encode--------- message
//! ```
//!
//! Reading is strict and complete: every problem is reported with its path. 64-bit integers are
//! JSON numbers, timestamps are RFC 3339, bytes are base64.
mod decode;
mod encode;
mod opaque;
mod same;
mod scalar;
mod text;
mod well_known;

pub(crate) use decode::{decode, decode_default};
pub(crate) use encode::{element_text, encode};
pub use same::same_json;
pub(crate) use scalar::{describe, encode_key as key_text, text as scalar_text};
pub(crate) use text::parse_json_up_to;
pub use text::{parse_json, parse_json_noting};
pub(crate) use well_known::{
    problem_of as well_known_problem, problem_of_struct_bytes as struct_bytes_problem, timestamp_of,
};

use crate::violation::{Violation, summarize};

/// Largest JSON text of one resource: the store takes objects of 1 MiB, and JSON is never
/// shorter than the protobuf that is stored.
pub const JSON_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting of lists and objects in JSON and YAML. The deepest kind needs about ten
/// levels; every level of ours costs a stack frame.
pub const JSON_DEPTH_MAX: usize = 64;

/// Deepest nesting of messages in what is read. Protobuf decoders stop at 100; the difference is
/// left for the messages that carry resources. A level of opaque data costs three messages.
pub const WIRE_DEPTH_MAX: usize = 90;

/// How JSON is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonOptions {
    /// What the project is called.
    pub project_key: ProjectKey,
}

/// The two names of `metadata.project`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectKey {
    /// `project`, as our own tools show it.
    #[default]
    Project,
    /// `namespace`, as clients of the Kubernetes dialect expect it.
    Namespace,
}

/// How JSON is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    pub unknown_fields: UnknownFields,
}

/// What happens to fields that a kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are errors.
    #[default]
    Refuse,
    /// They are left out and returned as warnings.
    Drop,
}

impl JsonOptions {
    /// As the REST dialect writes JSON.
    pub fn rest() -> Self {
        Self { project_key: ProjectKey::Namespace }
    }
}

impl DecodeOptions {
    /// Leaves unknown fields out.
    pub fn lenient() -> Self {
        Self { unknown_fields: UnknownFields::Drop }
    }
}

/// JSON or YAML that is not a resource of its kind.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecodeError {
    #[error("too large: {size} bytes, at most {limit} are allowed")]
    TooLarge { size: usize, limit: usize },
    #[error("nested too deeply{}: at most {limit} levels are allowed", at(.path))]
    TooDeep { path: String, limit: usize },
    #[error("not valid UTF-8 at byte {offset}")]
    NotUtf8 { offset: usize },
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    #[error("{}", summarize(.0))]
    Invalid(Vec<Violation>),
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at {path}") }
}
