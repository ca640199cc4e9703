//! Writing: create, replace, patch.
use super::body::{self, Language};
use super::call::Call;
use super::decode;
use super::failure::{Cause, Failure};
use super::gated::About;
use super::patching::{self, Patch, PatchOptions, Patched, absent_project, check_declared};
use super::render;
use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use orrery_api::Object;
use orrery_hub::{ApplyOptions, Merge, ObjectName, Outcome, Part, Precondition};
use serde_json::{Value, json};

/// Largest body that is read only to say in the audit log what was refused.
const REFUSED_BYTES_MAX: u64 = 64 << 10;
/// Letters that make no words by accident, for names that the server completes.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// Longest part of a name that a suffix is put after, so that the whole is a name.
const PREFIX_MAX: usize = 63 - SUFFIX_LENGTH;

pub async fn create(call: &Call, project: &str, body: Body) -> Result<Response, Failure> {
    let (value, twice) = read(call, body).await?;
    let meant = meant(&value, project);
    let created = create_value(call, project, value, twice).await;
    Ok(created.unwrap_or_else(|failure| about(failure, meant)))
}

/// A refusal to create something, which says what it was: who reads the audit log wants to know. What
/// is larger than objects usually are is not waited for.
pub async fn refused(call: &Call, project: &str, body: Body, failure: Failure) -> Response {
    let small = body.size_hint().upper().is_some_and(|bytes| bytes <= REFUSED_BYTES_MAX);
    let value = if small { read(call, body).await.ok().map(|(value, _)| value) } else { None };
    about(failure, value.and_then(|value| meant(&value, project)))
}

fn about(failure: Failure, meant: Option<ObjectName>) -> Response {
    let mut response = failure.into_response();
    if let Some(name) = meant {
        response.extensions_mut().insert(About(name));
    }
    response
}

/// Which object a body is about. A star stands for what the server would have put there.
fn meant(value: &Value, project: &str) -> Option<ObjectName> {
    let text = |pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    };
    let begins = || text("/metadata/generateName").map(|prefix| format!("{prefix}*"));
    let name = text("/metadata/name").map(str::to_owned).or_else(begins)?;
    Some(ObjectName::new(project, name))
}

async fn create_value(
    call: &Call,
    project: &str,
    mut value: Value,
    twice: Vec<String>,
) -> Result<Response, Failure> {
    decode::settle(&call.resource, &mut value, project, None)?;
    complete_name(&mut value);
    if has_text(&value, "/metadata/resourceVersion") {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Failure::bad_request(message));
    }
    let given = decode::decode(&call.resource, value, call.query.validation)?.warning(twice);
    let name = given.object.name().to_owned();
    check_lineage(call, project, &name)?;
    let (manager, dry_run) = (call.manager(), call.query.dry_run);
    let admit = call.guard.admit(given.object.kind());
    let include_lineage = call.query.lineage;
    let options =
        ApplyOptions { manager, dry_run, admit, include_lineage, ..ApplyOptions::create() };
    let applied = match call.resource.accessor.apply(given.object, options).await {
        Ok(applied) => applied,
        Err(error) => {
            return Err(Failure::of(error, &call.resource, &name).warning(given.warnings));
        }
    };
    answer(call, StatusCode::CREATED, &applied.object, &given.warnings)
}

pub async fn replace(
    call: &Call,
    name: &ObjectName,
    part: Part,
    body: Body,
) -> Result<Response, Failure> {
    check_lineage(call, &name.project, &name.name)?;
    let (mut value, twice) = read(call, body).await?;
    decode::settle(&call.resource, &mut value, &name.project, Some(&name.name))?;
    let given = decode::decode(&call.resource, value, call.query.validation)?.warning(twice);
    let options = ApplyOptions {
        precondition: Precondition::Present,
        part,
        merge: Merge::Replace,
        manager: call.manager(),
        dry_run: call.query.dry_run,
        include_lineage: call.query.lineage,
        admit: call.guard.admit(given.object.kind()),
        ..ApplyOptions::default()
    };
    let applied = match call.resource.accessor.apply(given.object, options).await {
        Ok(applied) => applied,
        Err(error) => {
            let error = absent_project(error, &call.resource, name);
            let failure = Failure::of(error, &call.resource, &name.name);
            return Err(failure.warning(given.warnings));
        }
    };
    answer(call, StatusCode::OK, &applied.object, &given.warnings)
}

pub async fn patch(
    call: &Call,
    name: &ObjectName,
    part: Part,
    body: Body,
) -> Result<Response, Failure> {
    check_lineage(call, &name.project, &name.name)?;
    let media_type = body::media_type(&call.headers);
    let bytes = body::read(body).await?;
    let (patch, mut twice) =
        Patch::read(&call.resource, &media_type, &bytes, call.query.validation)?;
    check_options(call, &patch)?;
    let options = PatchOptions {
        part,
        dry_run: call.query.dry_run,
        validation: call.query.validation,
        manager: call.manager(),
        force: call.query.force.unwrap_or(false),
        include_lineage: call.query.lineage,
        only_present: call.check("create", "", &name.project, &name.name).is_err(),
        admit: call.guard.admit(&call.resource.kind),
    };
    let Patched { applied, warnings } =
        patching::patch(&call.resource, name, &patch, &options).await?;
    let code = match applied.outcome {
        Outcome::Created => StatusCode::CREATED,
        Outcome::Changed | Outcome::Unchanged | Outcome::Gone => StatusCode::OK,
    };
    twice.extend(warnings);
    answer(call, code, &applied.object, &twice)
}

/// Who says where an object came from may have it deleted by that.
fn check_lineage(call: &Call, project: &str, name: &str) -> Result<(), Failure> {
    if !call.query.lineage {
        return Ok(());
    }
    call.check("delete", "", project, name)
}

/// Who applies must say who they are, and only who applies can insist.
pub fn check_options(call: &Call, patch: &Patch) -> Result<(), Failure> {
    let refuse = |cause| Err(Failure::invalid_options("PatchOptions", cause));
    match patch {
        Patch::Apply(declared) => {
            if call.query.manager.is_none() {
                let message = "Required value: is required for apply patch";
                return refuse(Cause::new("FieldValueRequired", "fieldManager", message));
            }
            check_declared(declared)?;
            match declared.pointer("/metadata/managedFields") {
                None | Some(Value::Null) => Ok(()),
                Some(_) => Err(Failure::bad_request("metadata.managedFields must be nil")),
            }
        }
        Patch::Change(_) if call.query.force.is_some() => {
            let message = "Forbidden: may not be specified for non-apply patch";
            refuse(Cause::new("FieldValueForbidden", "force", message))
        }
        Patch::Change(_) => Ok(()),
    }
}

/// The value of a body, and what to warn of.
async fn read(call: &Call, body: Body) -> Result<(Value, Vec<String>), Failure> {
    let language: Language = body::language(&call.headers)?;
    body::judged(language, &body::read(body).await?, call.query.validation)
}

fn answer(
    call: &Call,
    code: StatusCode,
    object: &Object,
    warnings: &[String],
) -> Result<Response, Failure> {
    let value = call.renderer().object(object)?;
    let mut response = render::answer(code, call.form, &value, warnings);
    response.extensions_mut().insert(About(ObjectName::of(object)));
    Ok(response)
}

fn has_text(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// Completes the name of an object that only says how it should begin.
fn complete_name(value: &mut Value) {
    if has_text(value, "/metadata/name") {
        return;
    }
    let prefix = value.pointer("/metadata/generateName").and_then(Value::as_str);
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else { return };
    let short: String = prefix.chars().take(PREFIX_MAX).collect();
    value["metadata"]["name"] = json!(format!("{short}{}", suffix()));
}

fn suffix() -> String {
    let letter = |_| SUFFIX_LETTERS[rand::random_range(0..SUFFIX_LETTERS.len())] as char;
    (0..SUFFIX_LENGTH).map(letter).collect()
}
