//! JSON and YAML of one resource.
use std::sync::Arc;

use serde_json::Value;

use super::Object;
use crate::{
    json::{self, DecodeError, DecodeOptions, JsonOptions},
    kind::Kind,
    manifest,
    violation::Violation,
};

/// A resource that was read, and what was left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub object: Object,
    /// Unknown fields that were dropped because the caller asked for that.
    pub warnings: Vec<Violation>,
}

impl Object {
    /// The resource as JSON, with its fields in the order of the definition.
    pub fn to_json_value(&self, options: &JsonOptions) -> Value {
        json::encode(&self.kind.schema, &self.record, options)
    }

    /// The resource as JSON text on one line.
    pub fn to_json(&self, options: &JsonOptions) -> String {
        self.to_json_value(options).to_string()
    }

    /// The resource as YAML text.
    pub fn to_yaml(&self, options: &JsonOptions) -> String {
        manifest::value_to_yaml(&self.to_json_value(options))
    }

    /// Reads JSON text: exactly what is written, without defaults. The scheme's readers add them.
    pub fn from_json(
        kind: &Arc<Kind>,
        text: &[u8],
        options: &DecodeOptions,
    ) -> Result<Decoded, DecodeError> {
        Self::from_json_value(kind, &json::parse_json(text)?, options)
    }

    /// Reads a JSON value: exactly what is written, without defaults.
    pub fn from_json_value(
        kind: &Arc<Kind>,
        value: &Value,
        options: &DecodeOptions,
    ) -> Result<Decoded, DecodeError> {
        let (record, warnings) = json::decode(kind, value, options)?;
        Ok(Decoded { object: Self::of_record(kind, record), warnings })
    }

    /// Reads YAML text with one document: exactly what is written, without defaults.
    pub fn from_yaml(
        kind: &Arc<Kind>,
        text: &[u8],
        options: &DecodeOptions,
    ) -> Result<Decoded, DecodeError> {
        Self::from_json_value(kind, &manifest::parse_single(text)?, options)
    }
}
