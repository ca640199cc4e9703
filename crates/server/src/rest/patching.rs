//! Patches: a change, laid over what is there now and written only if that is still there.
//!
//! ```text
//!   read ─> as JSON in the client's version ─> patch ─> decode ─> lay over ─> write at the revision that was read
//!     ^                                                                        │
//!     └────────────────── someone else was faster: once more ──────────────────┘
//! ```
//! What a newer server wrote has no form in JSON here. It stays because what was decoded is laid over what was read.
use super::body;
use super::decode::{self, Given};
use super::failure::Failure;
use super::query::Validation;
use super::resource::Resource;
use super::strategic;
use orrery_api::Object;
use orrery_hub::modified;
use orrery_hub::patch::overlay;
use orrery_hub::{
    Admit, Applied, ApplyOptions, Error, GetOptions, Merge, ObjectName, Part, Precondition,
};
use serde_json::{Map, Value};

/// How often a patch is tried again because someone else was faster.
const ATTEMPTS_MAX: usize = 16;

/// A change to an object.
#[derive(Clone, Debug)]
pub enum Patch {
    /// A change of what is there.
    Change(Change),
    /// What one manager declares; creates the object where it is absent.
    Apply(Value),
}

#[derive(Clone, Debug)]
pub enum Change {
    /// A merge patch or a list of operations.
    Plain(orrery_hub::patch::Patch),
    Strategic(Map<String, Value>),
}

impl Change {
    pub fn apply_to(&self, document: Value, object: &Object) -> Result<Value, Error> {
        match self {
            Self::Plain(patch) => patch.apply_to(document, object),
            Self::Strategic(patch) => strategic::merged(document, patch).map_err(Error::BadRequest),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    pub part: Part,
    pub dry_run: bool,
    pub validation: Validation,
    /// Who writes, and owns the fields it sets.
    pub manager: String,
    /// Take fields from other managers.
    pub force: bool,
    /// Where the object came from is patched like the rest of it.
    pub include_lineage: bool,
    /// Whether who writes may only change what is there.
    pub only_present: bool,
    /// Whether who writes may make this of the object.
    pub admit: Option<Admit>,
}

/// What a patch did.
pub struct Patched {
    pub applied: Applied,
    pub warnings: Vec<String>,
}

impl Patch {
    /// Reads a patch of a media type, and what to warn of.
    pub fn read(
        resource: &Resource,
        media_type: &str,
        bytes: &[u8],
        validation: Validation,
    ) -> Result<(Self, Vec<String>), Failure> {
        let json = || body::judged_json(bytes, validation);
        match media_type {
            "application/merge-patch+json" => {
                let (patch, warnings) = json()?;
                Ok((merge_patch(patch)?, warnings))
            }
            "application/json-patch+json" => {
                let (patch, warnings) = json()?;
                let patch = orrery_hub::patch::Patch::json(patch);
                let patch = patch.map_err(unreadable_patch)?;
                Ok((Self::Change(Change::Plain(patch)), warnings))
            }
            "application/apply-patch+yaml" => {
                let (declared, warnings) = body::judged_yaml(bytes, validation)?;
                Ok((Self::Apply(declared), warnings))
            }
            // kubectl patches kinds that it has built in this way.
            "application/strategic-merge-patch+json" if resource.is_built_in() => {
                let (patch, warnings) = json()?;
                let Value::Object(patch) = patch else {
                    let text = "a strategic merge patch must be a JSON object";
                    return Err(Failure::bad_request(text));
                };
                Ok((Self::Change(Change::Strategic(patch)), warnings))
            }
            _ => Err(Failure::unsupported_media(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }
}

/// Whoever declares fields says of what: one who sends nothing would take back all that they have declared.
pub fn check_declared(declared: &Value) -> Result<(), Failure> {
    if !declared.is_object() {
        return Err(Failure::bad_request("the body of an apply patch must be an object"));
    }
    for key in ["apiVersion", "kind"] {
        let said = declared.get(key).is_some_and(|value| value != "" && !value.is_null());
        if !said {
            return Err(Failure::bad_request(format!(
                "Object '{key}' is missing in the body of the apply patch"
            )));
        }
    }
    Ok(())
}

/// Patches one object.
pub async fn patch(
    resource: &Resource,
    name: &ObjectName,
    patch: &Patch,
    options: &PatchOptions,
) -> Result<Patched, Failure> {
    let change = match patch {
        Patch::Change(change) => change,
        Patch::Apply(declared) => return apply(resource, name, declared.clone(), options).await,
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        match attempt_change(resource, name, change, options).await {
            Err(Refused::Raced(_)) if attempt < ATTEMPTS_MAX => {}
            Err(Refused::Raced(error)) => return Err(Failure::of(error, resource, &name.name)),
            Err(Refused::For(failure)) => return Err(failure),
            Ok(patched) => return Ok(patched),
        }
    }
}

/// Writes the fields that one manager declares; the hub knows whose the others are.
async fn apply(
    resource: &Resource,
    name: &ObjectName,
    declared: Value,
    options: &PatchOptions,
) -> Result<Patched, Failure> {
    let given = read(resource, name, declared, options.validation)?;
    let uid = given.object.uid().to_owned();
    let named = !uid.is_empty() || !given.object.resource_version().is_empty();
    let apply = ApplyOptions {
        part: options.part,
        force: options.force,
        dry_run: options.dry_run,
        include_lineage: options.include_lineage,
        precondition: match options.only_present || !uid.is_empty() {
            true => Precondition::Present,
            false => Precondition::Any,
        },
        admit: options.admit.clone(),
        ..ApplyOptions::declared_by(&options.manager)
    };
    match resource.accessor.apply(given.object, apply).await {
        Ok(applied) => Ok(Patched { applied, warnings: given.warnings }),
        Err(error) => {
            let error = match error {
                Error::NotFound { .. } if named && !options.only_present => {
                    gone(resource, name, &uid)
                }
                other => other,
            };
            Err(Failure::of(error, resource, &name.name).warning(given.warnings))
        }
    }
}

fn unreadable_patch(error: Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::TooLarge(_) => Failure::too_large(message),
        _ => Failure::bad_request(message),
    }
}

/// Whoever names the identity or the version of an object means that one, and makes no other in its place.
fn gone(resource: &Resource, name: &ObjectName, uid: &str) -> Error {
    let mismatch = match uid {
        "" => "the provided object specified a resourceVersion".to_owned(),
        uid => format!("uid mismatch: the provided object specified uid {uid}"),
    };
    let message = format!("{mismatch}, and no existing object was found");
    Error::Conflict { kind: resource.qualified_plural(), name: name.name.clone(), message }
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

async fn attempt_change(
    resource: &Resource,
    name: &ObjectName,
    change: &Change,
    options: &PatchOptions,
) -> Result<Patched, Refused> {
    let failed = |error| Failure::of(error, resource, &name.name);
    let include_lineage = options.include_lineage;
    let current = GetOptions { name: name.clone(), include_lineage, ..GetOptions::default() };
    let current = resource.accessor.get(current).await;
    let current = current.map_err(|error| failed(absent_project(error, resource, name)))?;
    let version = current.resource_version();
    let revision =
        version.parse().map_err(|_| Failure::internal(format!("{name} has no revision")))?;
    let (object, warnings) = changed(resource, name, change, &current, options)?;
    let replace = ApplyOptions {
        precondition: Precondition::At(revision),
        part: options.part,
        merge: Merge::Replace,
        manager: options.manager.clone(),
        dry_run: options.dry_run,
        include_lineage: options.include_lineage,
        admit: options.admit.clone(),
        ..ApplyOptions::default()
    };
    match resource.accessor.apply(object, replace).await {
        Ok(applied) => Ok(Patched { applied, warnings }),
        Err(error @ (Error::Conflict { .. } | Error::AlreadyExists { .. })) => {
            Err(Refused::Raced(error))
        }
        Err(error) => Err(failed(error).warning(warnings).into()),
    }
}

/// What an object becomes by a change, in its hub version, and what to warn of.
fn changed(
    resource: &Resource,
    name: &ObjectName,
    change: &Change,
    current: &Object,
    options: &PatchOptions,
) -> Result<(Object, Vec<String>), Failure> {
    let mut object = resource.spoken(current)?;
    let next = change.apply_to(resource.faced(&object), current);
    let mut next = next.map_err(|error| Failure::of(error, resource, &name.name))?;
    check_version(resource, name, &next, current.resource_version())?;
    decode::settle(resource, &mut next, &name.project, Some(&name.name))?;
    let given = decode::spoken(resource, next, options.validation)?;
    overlay(&mut object, &given.object);
    Ok((decode::to_hub(resource, &object)?, given.warnings))
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

/// A value as an object of this name.
pub fn read(
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
            let message = modified(current, wanted);
            let (kind, name) = (resource.qualified_plural(), name.name.clone());
            let conflict = Error::Conflict { kind, name: name.clone(), message };
            Err(Failure::of(conflict, resource, &name))
        }
        Some(_) | None => Ok(()),
    }
}

pub fn merge_patch(patch: Value) -> Result<Patch, Failure> {
    let patch = orrery_hub::patch::Patch::merge(patch);
    patch
        .map(|patch| Patch::Change(Change::Plain(patch)))
        .map_err(|error| Failure::bad_request(error.to_string()))
}
