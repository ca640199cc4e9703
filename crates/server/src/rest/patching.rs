//! Patches: a change, laid over what is there now and written only if that is still there.
//!
//! ```text
//!   read ─> as JSON in the client's version ─> patch ─> decode ─> write at the revision that was read
//!     ^                                                                    │
//!     └──────────────── someone else was faster: once more ────────────────┘
//! ```
use super::body;
use super::decode::{self, Given};
use super::failure::Failure;
use super::jsonpatch::{JsonPatch, PatchError};
use super::query::Validation;
use super::resource::{Face, Resource};
use axum::http::StatusCode;
use orrery_hub::{Applied, ApplyOptions, Error, Merge, ObjectName, Part, Precondition};
use serde_json::{Map, Value};

/// How often a patch is tried again because someone else was faster.
const ATTEMPTS_MAX: usize = 16;

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// JSON Merge Patch (RFC 7386): null takes a field away.
    Merge(Value),
    Json(JsonPatch),
    /// What one manager declares; creates the object where it is absent.
    Apply(Value),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct PatchOptions {
    pub part: Part,
    pub dry_run: bool,
    pub validation: Validation,
}

/// What a patch did.
pub struct Patched {
    pub applied: Applied,
    pub warnings: Vec<String>,
}

impl Patch {
    /// Reads a patch of a media type.
    pub fn read(resource: &Resource, media_type: &str, bytes: &[u8]) -> Result<Self, Failure> {
        match media_type {
            "application/merge-patch+json" => merge_patch(body::json(bytes)?),
            "application/json-patch+json" => {
                let patch = JsonPatch::parse(&body::json(bytes)?);
                patch.map(Self::Json).map_err(|error| Failure::bad_request(error.to_string()))
            }
            "application/apply-patch+yaml" => Ok(Self::Apply(body::yaml(bytes)?)),
            // kubectl patches kinds that it has built in this way. A namespace has only maps to
            // merge, and there both kinds of patches mean the same.
            "application/strategic-merge-patch+json" if resource.face == Face::Namespace => {
                merge_patch(without_directives(body::json(bytes)?))
            }
            _ => Err(Failure::unsupported_media(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }

    /// What becomes of an object.
    fn onto(&self, current: Value) -> Result<Value, PatchError> {
        match self {
            Self::Merge(patch) => Ok(merged(current, patch)),
            Self::Json(patch) => patch.apply(current),
            Self::Apply(declared) => Ok(merged(current, declared)),
        }
    }
}

/// Patches one object.
pub async fn patch(
    resource: &Resource,
    name: &ObjectName,
    patch: &Patch,
    options: PatchOptions,
) -> Result<Patched, Failure> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match attempt_patch(resource, name, patch, options).await {
            Err(Refused::Raced(_)) if attempt < ATTEMPTS_MAX => {}
            Err(Refused::Raced(error)) => return Err(Failure::of(error, resource, &name.name)),
            Err(Refused::For(failure)) => return Err(failure),
            Ok(patched) => return Ok(patched),
        }
    }
}

/// Why an attempt came to nothing.
enum Refused {
    /// The object changed between reading and writing.
    Raced(Error),
    For(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::For(failure)
    }
}

async fn attempt_patch(
    resource: &Resource,
    name: &ObjectName,
    patch: &Patch,
    options: PatchOptions,
) -> Result<Patched, Refused> {
    let failed = |error| Failure::of(error, resource, &name.name);
    let (value, precondition) = match resource.accessor.get(name.clone().into()).await {
        Ok(object) => {
            let current = resource.encode(&object)?;
            let version = object.resource_version();
            let revision = version
                .parse()
                .map_err(|_| Failure::internal(format!("{name} has no revision")))?;
            let next = patch.onto(current).map_err(unusable)?;
            check_version(resource, name, &next, version)?;
            (next, Precondition::At(revision))
        }
        Err(Error::NotFound { .. }) if creates(patch, options.part) => {
            (patch.onto(Value::Object(Map::new())).map_err(unusable)?, Precondition::Absent)
        }
        // Whoever would create the object must learn that its project is what is missing.
        Err(error) if creates(patch, options.part) => return Err(failed(error).into()),
        Err(error) => return Err(failed(absent_project(error, resource, name)).into()),
    };
    let given = read(resource, name, value, options.validation)?;
    let apply = ApplyOptions {
        precondition,
        part: options.part,
        merge: Merge::Replace,
        dry_run: options.dry_run,
        ..ApplyOptions::default()
    };
    match resource.accessor.apply(given.object, apply).await {
        Ok(applied) => Ok(Patched { applied, warnings: given.warnings }),
        Err(error @ (Error::Conflict { .. } | Error::AlreadyExists { .. })) => {
            Err(Refused::Raced(error))
        }
        Err(error) => Err(failed(error).into()),
    }
}

/// What is asked for in a project that is not there, is not there either; a client finds out by
/// itself which of the two is missing.
pub fn absent_project(error: Error, resource: &Resource, name: &ObjectName) -> Error {
    match error {
        Error::ProjectNotFound { project } => {
            let kind = resource.qualified_plural();
            Error::NotFound { kind, project, name: name.name.clone() }
        }
        other => other,
    }
}

fn creates(patch: &Patch, part: Part) -> bool {
    matches!((patch, part), (Patch::Apply(_), Part::Main))
}

fn read(
    resource: &Resource,
    name: &ObjectName,
    mut value: Value,
    validation: Validation,
) -> Result<Given, Failure> {
    decode::settle(resource, &mut value, &name.project, Some(&name.name))?;
    decode::decode(resource, value, validation)
}

/// A patch that names a version applies to that version only.
fn check_version(
    resource: &Resource,
    name: &ObjectName,
    next: &Value,
    current: &str,
) -> Result<(), Failure> {
    let wanted = next.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    match wanted {
        Some(wanted) if !wanted.is_empty() && wanted != current => {
            let message = "the object has been modified; please apply your changes to the latest version and try again".to_owned();
            let (kind, name) = (resource.qualified_plural(), name.name.clone());
            let conflict = Error::Conflict { kind, name: name.clone(), message };
            Err(Failure::of(conflict, resource, &name))
        }
        Some(_) | None => Ok(()),
    }
}

fn unusable(error: PatchError) -> Failure {
    match error {
        PatchError::Malformed(problem) => Failure::bad_request(problem),
        PatchError::DoesNotApply(problem) => {
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", problem)
        }
    }
}

fn merge_patch(patch: Value) -> Result<Patch, Failure> {
    if patch.is_object() {
        return Ok(Patch::Merge(patch));
    }
    Err(Failure::bad_request("a merge patch must be an object"))
}

/// Null takes a field away, objects merge, everything else replaces.
fn merged(current: Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut fields = match current {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    for (key, change) in changes {
        if change.is_null() {
            fields.shift_remove(key);
        } else {
            let before = fields.get_mut(key).map(Value::take).unwrap_or_default();
            fields.insert(key.clone(), merged(before, change));
        }
    }
    Value::Object(fields)
}

/// Without what only tells a strategic merge how to order and keep things.
fn without_directives(patch: Value) -> Value {
    match patch {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(key, _)| !key.starts_with('$'));
            Value::Object(kept.map(|(key, value)| (key, without_directives(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn merging_follows_the_standard() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (current, patch, expect) in cases {
            assert_eq!(merged(current, &patch), expect, "{patch}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<bool>().prop_map(Value::Bool), "[a-c]".prop_map(Value::String)];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop::collection::btree_map("[a-d]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn a_patch_applied_twice_changes_nothing_more(current in any_json(), patch in any_json()) {
            let once = merged(current, &patch);
            prop_assert_eq!(merged(once.clone(), &patch), once);
        }
    }
}
