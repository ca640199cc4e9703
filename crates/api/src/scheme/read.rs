//! Reads resources whose kind stands in themselves: JSON text, values and manifests.
use std::sync::Arc;

use serde_json::Value;

use super::{ReadError, Scheme};
use crate::{
    Reason,
    json::{DecodeError, DecodeOptions, describe, parse_json},
    kind::Kind,
    manifest::{Manifest, ManifestError, ManifestErrors, parse_manifests},
    object::{Decoded, Object},
    violation::Violation,
};

impl Scheme {
    /// Reads one resource from JSON text and fills in its defaults.
    pub fn read_json(&self, text: &[u8], options: &DecodeOptions) -> Result<Decoded, ReadError> {
        self.read_value(&parse_json(text)?, options)
    }

    /// Reads one resource from a JSON value and fills in its defaults. Resources of a spoke
    /// version get none: their hub version does, once they are converted.
    pub fn read_value(&self, value: &Value, options: &DecodeOptions) -> Result<Decoded, ReadError> {
        let kind = self.kind_of_value(value)?;
        let mut decoded = Object::from_json_value(&kind, value, options)?;
        decoded.object.default();
        Ok(decoded)
    }

    /// The kind that a JSON value says it is of.
    pub fn kind_of_value(&self, value: &Value) -> Result<Arc<Kind>, ReadError> {
        let Value::Object(fields) = value else {
            return Err(ReadError::NotAnObject(describe(value)));
        };
        let text = |name: &'static str| match fields.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
            Some(Value::String(_) | Value::Null) | None => Err(ReadError::MissingType(name)),
            Some(other) => {
                Err(ReadError::Decode(DecodeError::Invalid(vec![Violation::wrong_type(
                    name,
                    "a string",
                    describe(other),
                )])))
            }
        };
        let kind = text("kind")?;
        Ok(self.resolve_exact(text("apiVersion")?, kind)?)
    }

    /// Reads every resource of a file. All problems of all resources are reported, each with its
    /// line and column. Validation is left to the caller.
    pub fn read_manifests(
        &self,
        source: &str,
        bytes: &[u8],
    ) -> Result<Vec<(Manifest, Object)>, ManifestErrors> {
        let manifests = parse_manifests(source, bytes)?;
        let mut objects = Vec::new();
        let mut problems = Vec::new();
        for manifest in manifests {
            match self.read_value(&manifest.value, &DecodeOptions::default()) {
                Ok(decoded) => objects.push((manifest, decoded.object)),
                Err(error) => problems.extend(located(&manifest, error)),
            }
        }
        if problems.is_empty() { Ok(objects) } else { Err(ManifestErrors(problems)) }
    }
}

fn located(manifest: &Manifest, error: ReadError) -> Vec<ManifestError> {
    match error {
        ReadError::Decode(DecodeError::Invalid(violations)) => {
            violations.iter().map(|violation| manifest.error(&violation.path, violation)).collect()
        }
        ReadError::Kind(error) => {
            let place = match error {
                super::ResolveError::WrongVersion { .. } => "apiVersion",
                super::ResolveError::Unknown { .. } | super::ResolveError::Ambiguous { .. } => {
                    "kind"
                }
            };
            vec![manifest.error(place, Violation::new("", Reason::Invalid, error.to_string()))]
        }
        error @ (ReadError::NotAnObject(_) | ReadError::MissingType(_) | ReadError::Decode(_)) => {
            vec![manifest.error("", error)]
        }
    }
}
