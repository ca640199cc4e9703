//! The scale of an object: how many copies there should be and are, in the one shape that tools of
//! this field know for every kind that can be scaled.
//!
//! ```text
//!   object ─> Scale ─> patch or replace ─> number of copies ─> merge patch of the object's own field
//!             apply ─────────────────────> number of copies ─> apply of the object's own field
//! ```
use super::accept::{Form, MetaVersion};
use super::body;
use super::call::Call;
use super::decode::check_type;
use super::failure::{Cause, Failure};
use super::patching::{self, Change, Patch, PatchOptions, absent_project};
use super::query::Validation;
use super::render;
use super::resource::Resource;
use super::table;
use super::write::check_options;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use orrery_api::Object;
use orrery_hub::{ApplyOptions, Error, ObjectName, Part, Precondition};
use serde_json::{Map, Value, json};

const GROUP: &str = "autoscaling";
const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// How often a change is tried again because someone else was faster.
const ATTEMPTS_MAX: usize = 16;

/// What a scale asks for.
struct Wanted {
    replicas: i32,
    /// The version that it was read at; empty when it does not matter.
    version: String,
}

pub async fn get(call: &Call, name: &ObjectName) -> Result<Response, Failure> {
    let object = read(call, name).await?;
    call.check_version(call.query.version).await?;
    answer(call, &object, &[])
}

pub async fn replace(call: &Call, name: &ObjectName, body: Body) -> Result<Response, Failure> {
    let (language, bytes) = (body::language(&call.headers)?, body::read(body).await?);
    let (mut given, mut warnings) = body::judged(language, &bytes, call.query.validation)?;
    warnings.extend(check(call, &mut given, name)?);
    // Zero copies are left out by clients that write only what is not zero.
    if given.pointer("/spec/replicas").is_none_or(Value::is_null) {
        given["spec"] = json!({ "replicas": 0 });
    }
    let wanted = Wanted::of(&given, name)?;
    let object = write(call, name, &wanted).await?;
    answer(call, &object, &warnings)
}

pub async fn patch(call: &Call, name: &ObjectName, body: Body) -> Result<Response, Failure> {
    let media_type = body::media_type(&call.headers);
    let bytes = body::read(body).await?;
    // What is written twice in the patch of a number is not worth a warning of its own.
    let (patch, _) = Patch::read(&call.resource, &media_type, &bytes, call.query.validation)?;
    check_options(call, &patch)?;
    match patch {
        Patch::Change(change) => self::change(call, name, &change).await,
        Patch::Apply(declared) => apply(call, name, declared).await,
    }
}

/// Changes the scale as it is now, and again when someone else was faster.
async fn change(call: &Call, name: &ObjectName, change: &Change) -> Result<Response, Failure> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let current = read(call, name).await?;
        let shown = shape(&call.resource, &call.resource.encode(&current)?);
        let failed = |error| Failure::of(error, &call.resource, &name.name);
        let mut next = change.apply_to(shown, &current).map_err(failed)?;
        let warnings = check(call, &mut next, name)?;
        let wanted = Wanted::of(&next, name)?;
        let as_it_was = wanted.version == current.resource_version();
        match write(call, name, &wanted).await {
            Err(failure)
                if failure.code == StatusCode::CONFLICT && as_it_was && attempt < ATTEMPTS_MAX => {}
            Err(failure) => return Err(failure),
            Ok(object) => return answer(call, &object, &warnings),
        }
    }
}

/// Declares the number of copies, and nothing else of the object.
async fn apply(call: &Call, name: &ObjectName, mut declared: Value) -> Result<Response, Failure> {
    let warnings = check(call, &mut declared, name)?;
    let wanted = Wanted::of(&declared, name)?;
    let field = wanted.in_object(&call.resource);
    let given = patching::read(&call.resource, name, Value::Object(field), call.query.validation)?;
    let options = ApplyOptions {
        part: Part::Scale,
        precondition: Precondition::Present,
        force: call.query.force.unwrap_or(false),
        dry_run: call.query.dry_run,
        ..ApplyOptions::declared_by(call.manager())
    };
    let applied = call.resource.accessor.apply(given.object, options).await;
    let applied = applied.map_err(|error| {
        let error = absent_project(as_scale(error, path(&call.resource)), &call.resource, name);
        Failure::of(error, &call.resource, &name.name)
    })?;
    answer(call, &applied.object, &warnings)
}

/// A conflict over the field of the object is one over that of the scale.
fn as_scale(error: Error, path: &str) -> Error {
    match error {
        Error::ApplyConflict { kind, name, mut conflicts } => {
            for conflict in &mut conflicts {
                if conflict.field.strip_prefix('.') == Some(path) {
                    ".spec.replicas".clone_into(&mut conflict.field);
                }
            }
            Error::ApplyConflict { kind, name, conflicts }
        }
        other => other,
    }
}

async fn read(call: &Call, name: &ObjectName) -> Result<Object, Failure> {
    let found = call.resource.accessor.get(name.clone().into()).await;
    found.map_err(|error| {
        Failure::of(absent_project(error, &call.resource, name), &call.resource, &name.name)
    })
}

async fn write(call: &Call, name: &ObjectName, wanted: &Wanted) -> Result<Object, Failure> {
    let options = PatchOptions {
        part: Part::Scale,
        dry_run: call.query.dry_run,
        validation: call.query.validation,
        manager: call.manager(),
        force: false,
        include_lineage: false,
        only_present: true,
        admit: call.guard.admit(&call.resource.kind),
    };
    let change = patching::merge_patch(Value::Object(wanted.in_object(&call.resource)))?;
    let patched = patching::patch(&call.resource, name, &change, &options).await?;
    Ok(patched.applied.object)
}

/// Where the object says how many copies there should be.
fn path(resource: &Resource) -> &str {
    resource.scale().map(|fields| fields.spec_path.as_str()).unwrap_or_default()
}

/// `{"spec": {"replicas": value}}` of `spec.replicas`.
fn nested(path: &str, value: Value) -> Map<String, Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let inner = if rest.is_empty() { value } else { Value::Object(nested(rest, value)) };
    Map::from_iter([(first.to_owned(), inner)])
}

fn at<'a>(encoded: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(encoded, |value, key| value.get(key))
}

/// The scale of an object; without a number where the object names none.
fn shape(resource: &Resource, encoded: &Value) -> Value {
    let Some(fields) = resource.scale() else { return Value::Null };
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = encoded["metadata"].get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = at(encoded, &fields.spec_path) {
        spec["replicas"] = replicas.clone();
    }
    let is = at(encoded, &fields.status_path).cloned().unwrap_or_else(|| json!(0));
    json!({
        "kind": KIND, "apiVersion": API_VERSION, "metadata": metadata,
        "spec": spec, "status": { "replicas": is },
    })
}

/// Whether a scale can be read at all, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub fn check_given(mut given: Value, name: &ObjectName) -> Result<(), Failure> {
    check_identity(&mut given, name)?;
    let _ = unknown(&given);
    Wanted::of(&given, name).map(|_| ())
}

/// It must be a scale, and of this very object. What it should not say is refused or warned of, as the
/// caller wishes.
fn check(call: &Call, given: &mut Value, name: &ObjectName) -> Result<Vec<String>, Failure> {
    check_identity(given, name)?;
    match (call.query.validation, unknown(given)) {
        (Validation::Strict, unknown) if !unknown.is_empty() => {
            let text = unknown.join(", ");
            Err(Failure::bad_request(format!(
                "{KIND} in version \"v1\" cannot be handled as a {KIND}: strict decoding error: {text}"
            )))
        }
        (Validation::Strict | Validation::Ignore, _) => Ok(Vec::new()),
        (Validation::Warn, unknown) => Ok(unknown),
    }
}

/// The fields of a scale, but for its metadata, which other tools fill as they like.
const FIELDS: [(&str, &[&str]); 3] = [
    ("", &["apiVersion", "kind", "metadata", "spec", "status"]),
    ("spec", &["replicas"]),
    ("status", &["replicas", "selector"]),
];

/// Fields that no scale has.
fn unknown(given: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (place, known) in FIELDS {
        let fields = if place.is_empty() { Some(given) } else { given.get(place) };
        let keys = fields.and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let prefix = if place.is_empty() { String::new() } else { format!("{place}.") };
        let strange = keys.filter(|key| !known.contains(&key.as_str()));
        found.extend(strange.map(|key| format!("unknown field \"{prefix}{key}\"")));
    }
    found
}

fn check_identity(given: &mut Value, name: &ObjectName) -> Result<(), Failure> {
    let Value::Object(fields) = given else {
        return Err(Failure::bad_request("the body of the request must be a Scale"));
    };
    check_type(fields, "apiVersion", "API version", API_VERSION)?;
    check_type(fields, "kind", "kind", KIND)?;
    for (key, expected) in [("name", &name.name), ("namespace", &name.project)] {
        let found = fields.get("metadata").and_then(|metadata| metadata.get(key));
        match found.and_then(Value::as_str) {
            Some(found) if !found.is_empty() && found != expected => {
                return Err(Failure::bad_request(format!(
                    "the {key} of the object ({found}) does not match the {key} on the URL ({expected})"
                )));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

impl Wanted {
    fn of(scale: &Value, name: &ObjectName) -> Result<Self, Failure> {
        let refuse = |reason, message: String| {
            let cause = Cause::new(reason, "spec.replicas", message);
            Err(Failure::invalid(GROUP, KIND, &name.name, &[cause]))
        };
        let replicas = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) => {
                return refuse("FieldValueRequired", format!("Required value: {NUMBERLESS}"));
            }
            Some(found) => match found.as_i64().map(i32::try_from) {
                Some(Ok(replicas)) if 0 <= replicas => replicas,
                Some(_) | None => {
                    let rule = "must be a whole number, 0 or more";
                    return refuse("FieldValueInvalid", format!("Invalid value: {found}: {rule}"));
                }
            },
        };
        let version = scale.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Ok(Self { replicas, version: version.unwrap_or_default().to_owned() })
    }

    /// The same as a part of the object itself.
    fn in_object(&self, resource: &Resource) -> Map<String, Value> {
        let mut object = nested(path(resource), json!(self.replicas));
        if !self.version.is_empty() {
            object.insert("metadata".to_owned(), json!({ "resourceVersion": self.version }));
        }
        object
    }
}

/// Why an object has no scale to show.
const NUMBERLESS: &str = "the object names no number of copies; set one to scale it";

fn answer(call: &Call, object: &Object, warnings: &[String]) -> Result<Response, Failure> {
    let scale = shape(&call.resource, &call.resource.encode(object)?);
    Wanted::of(&scale, &ObjectName::of(object))?;
    let value = match call.form {
        Form::Json | Form::Yaml => scale,
        Form::Metadata(version) => render::partial("PartialObjectMetadata", version, scale),
        Form::Table(version) => as_table(call, object, scale, version),
    };
    Ok(render::answer(StatusCode::OK, call.form, &value, warnings))
}

fn as_table(call: &Call, object: &Object, scale: Value, version: MetaVersion) -> Value {
    let cells = json!([
        object.name(),
        scale["spec"]["replicas"],
        scale["status"]["replicas"],
        orrery_api::age(object, call.renderer().now()),
    ]);
    let head = json!({ "resourceVersion": object.resource_version() });
    let row = json!({
        "cells": cells, "object": render::partial("PartialObjectMetadata", version, scale),
    });
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": head,
        "columnDefinitions": [
            table::column("Name", "string", "name", "Name, unique in its project.", false),
            table::column("Desired", "integer", "", "Copies that there should be.", false),
            table::column("Available", "integer", "", "Copies that there are.", false),
            table::column("Age", "string", "", "Time since it was created.", false),
        ],
        "rows": [row],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_patch_of_one_field() {
        let cases = [
            ("spec.replicas", json!({ "spec": { "replicas": 3 } })),
            ("spec.a.b", json!({ "spec": { "a": { "b": 3 } } })),
            ("x", json!({ "x": 3 })),
        ];
        for (path, expect) in cases {
            let made = Value::Object(nested(path, json!(3)));
            assert_eq!(made, expect);
            assert_eq!(at(&made, path), Some(&json!(3)));
        }
    }

    #[test]
    fn only_whole_numbers_from_zero_on_are_a_scale() {
        let name = ObjectName::new("p", "x");
        let of = |replicas: Value| Wanted::of(&json!({ "spec": { "replicas": replicas } }), &name);
        assert_eq!(of(json!(0)).expect("zero").replicas, 0);
        for bad in [json!(-1), json!(1.5), json!("3"), json!(null), json!(3_000_000_000_i64)] {
            let failure = of(bad.clone()).err().expect("refused");
            assert_eq!(failure.code.as_u16(), 422, "{bad}");
        }
    }

    #[test]
    fn a_scale_of_something_else_is_refused() {
        let name = ObjectName::new("p", "x");
        let cases = [
            (json!({}), true),
            (json!({ "metadata": { "name": "x", "namespace": "p" } }), true),
            (json!({ "metadata": { "name": "y" } }), false),
            (json!({ "metadata": { "namespace": "q" } }), false),
            (json!({ "kind": "Workload" }), false),
            (json!({ "apiVersion": "autoscaling/v2" }), false),
            (json!([]), false),
        ];
        for (mut given, fits) in cases {
            assert_eq!(check_identity(&mut given, &name).is_ok(), fits, "{given}");
        }
    }

    #[test]
    fn fields_that_no_scale_has_are_found() {
        let given =
            json!({ "spec": { "replicaz": 3 }, "status": { "selector": "a=b" }, "extra": 1 });
        assert_eq!(unknown(&given), ["unknown field \"extra\"", "unknown field \"spec.replicaz\""]);
        assert!(unknown(&json!({ "kind": "Scale", "spec": { "replicas": 3 } })).is_empty());
    }
}
