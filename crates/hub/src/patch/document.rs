//! The two forms of patches, on JSON.
use crate::error::Error;
use json_patch::{PatchErrorKind, PatchOperation};
use orrery_api::{JSON_BYTES_MAX, Object, Violation, same_json};
use serde_json::Value;

/// Operations of one JSON patch, at most: no tool writes so many, and each costs a walk.
pub const OPERATIONS_MAX: usize = 1000;

/// A change of a JSON document.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 7396: fields that are given replace, null takes away.
    Merge(Value),
    /// RFC 6902: operations in order, all or none.
    Json(json_patch::Patch),
}

impl Patch {
    /// Reads a merge patch.
    pub fn merge(patch: Value) -> Result<Self, Error> {
        match patch {
            Value::Object(_) => Ok(Self::Merge(patch)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                Err(Error::BadRequest("a merge patch of a resource must be a JSON object".into()))
            }
        }
    }

    /// Reads a JSON patch.
    pub fn json(patch: Value) -> Result<Self, Error> {
        let parsed: json_patch::Patch = serde_json::from_value(patch)
            .map_err(|error| Error::BadRequest(format!("this is not a JSON patch: {error}")))?;
        let count = parsed.0.len();
        if OPERATIONS_MAX < count {
            let text =
                format!("{count} operations in one patch, at most {OPERATIONS_MAX} are allowed");
            return Err(Error::TooLarge(text));
        }
        Ok(Self::Json(parsed))
    }

    /// Whether the patch says anything about this place itself.
    pub(super) fn names(&self, pointer: &str) -> bool {
        match self {
            Self::Merge(patch) => patch.pointer(pointer).is_some_and(|value| !value.is_null()),
            Self::Json(patch) => patch.0.iter().any(|operation| match operation {
                PatchOperation::Add(_)
                | PatchOperation::Replace(_)
                | PatchOperation::Move(_)
                | PatchOperation::Copy(_)
                | PatchOperation::Test(_) => operation.path().as_str() == pointer,
                PatchOperation::Remove(_) => false,
            }),
        }
    }

    /// The document after the patch. `object` is only named in errors.
    pub fn apply_to(&self, mut document: Value, object: &Object) -> Result<Value, Error> {
        match self {
            Self::Merge(patch) => json_patch::merge(&mut document, patch),
            Self::Json(patch) => {
                let mut copied = 0;
                for (index, operation) in patch.0.iter().enumerate() {
                    copied += copied_bytes(&document, operation);
                    if JSON_BYTES_MAX < copied {
                        let text = format!("the patch copies more than {JSON_BYTES_MAX} bytes");
                        return Err(Error::TooLarge(text));
                    }
                    if holds(&document, operation) {
                        continue;
                    }
                    json_patch::patch_unsafe(&mut document, std::slice::from_ref(operation))
                        .map_err(|error| refused(object, index, operation, &error.kind))?;
                }
            }
        }
        Ok(document)
    }
}

/// Whether this is a test, and there is what it says. The library compares numbers by how they are written.
fn holds(document: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    document.pointer(test.path.as_str()).is_some_and(|found| same_json(found, &test.value))
}

/// A copy of a copy of a copy doubles each time.
fn copied_bytes(document: &Value, operation: &PatchOperation) -> usize {
    match operation {
        PatchOperation::Copy(copy) => {
            document.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len())
        }
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Test(_) => 0,
    }
}

/// A patch that is well formed and does not fit the object that it is for.
fn refused(
    object: &Object,
    index: usize,
    operation: &PatchOperation,
    why: &PatchErrorKind,
) -> Error {
    let word = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    };
    let path = operation.path().as_str().trim_start_matches('/').replace('/', ".");
    let message = format!("operation {index} of the patch ({word}) failed: {why}");
    let violation = Violation::new(path, orrery_api::Reason::Invalid, message);
    let (kind, name) = (object.kind().kind().to_owned(), object.name().to_owned());
    Error::Invalid { kind, name, violations: vec![violation] }
}
