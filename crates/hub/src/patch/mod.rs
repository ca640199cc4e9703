//! Patches: a change of what is there, whatever that is by then.
//!
//! ```text
//!   get ─> as JSON ─> patch ─> read again, strictly ─> lay over ─> replace at that revision
//!    ^                                                                   │
//!    └──────── someone was faster, and the patch names no revision ──────┘
//! ```
mod document;
mod overlay;
#[cfg(test)]
mod tests;

use crate::accessor::Accessor;
use crate::error::Error;
use crate::options::{Admit, Applied, ApplyOptions, GetOptions, ObjectName, Part};
use crate::refusal::modified;
use orrery_api::{
    DecodeError, DecodeOptions, JsonOptions, Kind, Object, Reason, Scheme, UnknownFields, Violation,
};
use orrery_store::Op;
use std::sync::Arc;

pub use document::{OPERATIONS_MAX, Patch};
pub use overlay::overlay;

/// How often a patch is tried again because someone else was faster.
const ATTEMPTS_MAX: usize = 16;

/// Where the revision stands in an object.
const REVISION: &str = "/metadata/resourceVersion";

#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    /// Which part is written; the rest of the patched object is left aside.
    pub part: Part,
    /// Who writes, and owns the fields it changes.
    pub manager: String,
    /// What becomes of fields that the kind does not have.
    pub unknown_fields: UnknownFields,
    /// How the object is shown to the patch.
    pub json: JsonOptions,
    /// The version that the patch speaks, when it is not the hub's own.
    pub version: Option<SpokenVersion>,
    /// Where the object came from is patched like the rest of it.
    pub include_lineage: bool,
    /// Check everything, store nothing.
    pub dry_run: bool,
    /// What else must hold in the store at the moment of writing.
    pub guards: Vec<Op>,
    /// Whether whoever writes may make this of the object.
    pub admit: Option<Admit>,
}

/// A served version of a kind, and the scheme that converts to it.
#[derive(Clone)]
pub struct SpokenVersion {
    pub scheme: Arc<Scheme>,
    pub kind: Arc<Kind>,
}

impl std::fmt::Debug for SpokenVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind.fmt(f)
    }
}

/// What a patch did.
#[derive(Clone, Debug)]
pub struct Patched {
    pub applied: Applied,
    /// Unknown fields that were left out because the caller asked for that.
    pub warnings: Vec<Violation>,
}

/// Changes an object that is there.
pub async fn patch(
    accessor: &dyn Accessor,
    name: &ObjectName,
    patch: &Patch,
    options: &PatchOptions,
) -> Result<Patched, Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_patch(accessor, name, patch, options).await {
            Err(error @ Error::Conflict { .. })
                if attempt < ATTEMPTS_MAX && !patch.names(REVISION) =>
            {
                tracing::debug!(%error, attempt, "someone else was faster, patching again");
            }
            outcome => return outcome,
        }
    }
}

async fn try_patch(
    accessor: &dyn Accessor,
    name: &ObjectName,
    patch: &Patch,
    options: &PatchOptions,
) -> Result<Patched, Error> {
    let include_lineage = options.include_lineage;
    let current = accessor
        .get(GetOptions { name: name.clone(), include_lineage, ..GetOptions::default() })
        .await?;
    let (next, warnings) = patched(&current, patch, options)?;
    let revision = current
        .resource_version()
        .parse()
        .map_err(|_| Error::Internal(format!("{name} has no revision after it was read")))?;
    let write = ApplyOptions {
        part: options.part,
        manager: options.manager.clone(),
        include_lineage,
        dry_run: options.dry_run,
        guards: options.guards.clone(),
        admit: options.admit.clone(),
        ..ApplyOptions::replace_at(revision)
    };
    let applied = accessor.apply(next, write).await?;
    Ok(Patched { applied, warnings })
}

/// What an object becomes by a patch.
fn patched(
    current: &Object,
    patch: &Patch,
    options: &PatchOptions,
) -> Result<(Object, Vec<Violation>), Error> {
    let shown = shown(current, options)?;
    let changed = patch.apply_to(shown.to_json_value(&options.json), current)?;
    let decode = DecodeOptions { unknown_fields: options.unknown_fields };
    let decoded = Object::from_json_value(shown.kind(), &changed, &decode)
        .map_err(|error| unreadable(current, error))?;
    check_identity(current, &decoded.object)?;
    let mut next = shown;
    overlay(&mut next, &decoded.object);
    let next = match &options.version {
        Some(version) => version.scheme.to_hub(&next).map_err(unconvertible)?,
        None => next,
    };
    Ok((next, decoded.warnings))
}

fn shown(current: &Object, options: &PatchOptions) -> Result<Object, Error> {
    match &options.version {
        Some(version) => version.scheme.from_hub(current, &version.kind).map_err(unconvertible),
        None => Ok(current.clone()),
    }
}

fn unconvertible(error: orrery_api::ConvertError) -> Error {
    Error::BadRequest(error.to_string())
}

/// A patch changes an object; it does not make another one of it.
fn check_identity(current: &Object, next: &Object) -> Result<(), Error> {
    let fields = [
        ("metadata.name", current.name(), next.name()),
        ("metadata.project", current.project(), next.project()),
    ];
    let refuse = |(path, was, is): (&str, &str, &str)| {
        (was != is).then(|| {
            let why = format!("must stay {was:?}: a patch cannot rename or move an object");
            Violation::invalid(path, format_args!("{is:?}"), &why)
        })
    };
    let violations: Vec<Violation> = fields.into_iter().filter_map(refuse).collect();
    if !violations.is_empty() {
        return Err(invalid(current, violations));
    }
    let (was, is) = (current.resource_version(), next.resource_version());
    if is.is_empty() || is == was {
        return Ok(());
    }
    let (kind, name) = (current.kind().qualified_plural(), current.name().to_owned());
    Err(Error::Conflict { kind, name, message: modified(was, is) })
}

/// Unknown fields make a bad request; values that do not fit make an invalid object.
fn unreadable(current: &Object, error: DecodeError) -> Error {
    match error {
        DecodeError::Invalid(violations) => {
            let unknown = |violation: &Violation| violation.reason == Reason::UnknownField;
            if violations.iter().any(unknown) {
                let texts: Vec<String> = violations.iter().map(Violation::strict_text).collect();
                return Error::BadRequest(format!("strict decoding error: {}", texts.join(", ")));
            }
            invalid(current, violations)
        }
        DecodeError::TooLarge { .. } => Error::TooLarge(error.to_string()),
        DecodeError::TooDeep { .. } | DecodeError::NotUtf8 { .. } | DecodeError::Syntax { .. } => {
            Error::BadRequest(error.to_string())
        }
    }
}

fn invalid(current: &Object, violations: Vec<Violation>) -> Error {
    let (kind, name) = (current.kind().kind().to_owned(), current.name().to_owned());
    Error::Invalid { kind, name, violations }
}
