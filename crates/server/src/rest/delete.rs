//! Deleting: one object, or all that a selector selects.
use super::accept::Form;
use super::body;
use super::call::Call;
use super::failure::{Cause, Failure};
use super::patching::absent_project;
use super::query;
use super::read;
use super::render::{self, ListHead};
use super::selection::Selection;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use orrery_api::Object;
use orrery_hub::{DeleteOptions, Error, ObjectName, Propagation, Revision};
use serde_json::{Value, json};

/// What the body of a deletion asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    uid: Option<String>,
    revision: Option<Revision>,
    dry_run: bool,
    propagation: Option<Propagation>,
}

pub async fn one(call: &Call, name: &ObjectName, body: Body) -> Result<Response, Failure> {
    let wanted = wanted(call, body).await?;
    let options = DeleteOptions {
        name: name.clone(),
        uid: wanted.uid,
        revision: wanted.revision,
        dry_run: wanted.dry_run,
        propagation: wanted.propagation,
        ..DeleteOptions::default()
    };
    let deleted = call.resource.accessor.delete(options).await.map_err(|error| {
        Failure::of(absent_project(error, &call.resource, name), &call.resource, &name.name)
    })?;
    if deleted.gone {
        let value = success(call, &deleted.object);
        return Ok(render::answer(StatusCode::OK, Form::Json, &value, &[]));
    }
    let value = call.renderer().object(&deleted.object)?;
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

/// Deletes what a list with the same words holds, one by one; what someone else deleted meanwhile is as good.
pub async fn collection(
    call: &Call,
    project: Option<String>,
    body: Body,
) -> Result<Response, Failure> {
    let wanted = wanted(call, body).await?;
    if wanted.uid.is_some() || wanted.revision.is_some() {
        return Err(Failure::bad_request("preconditions are for one object, not for a collection"));
    }
    let selection = Selection::of(&call.resource, &call.query, project)?;
    call.check_version(call.query.version).await?;
    let page = read::page(call, selection, read::Wanted::of(&call.query)).await?;
    let head = ListHead {
        version: page.revision.to_string(),
        continue_from: page.continue_from,
        remaining: page.remaining,
    };
    let mut deleted = Vec::new();
    for object in page.items {
        let object = object.into_object().map_err(Failure::internal)?;
        let name = ObjectName::of(&object);
        let options = DeleteOptions {
            dry_run: wanted.dry_run,
            uid: Some(object.uid().to_owned()),
            propagation: wanted.propagation,
            ..DeleteOptions::from(name.clone())
        };
        match call.resource.accessor.delete(options).await {
            Ok(gone) => deleted.push(gone.object),
            Err(Error::NotFound { .. } | Error::Conflict { .. }) => {}
            Err(error) => return Err(Failure::of(error, &call.resource, &name.name)),
        }
    }
    call.renderer().list(deleted.into_iter().map(Ok), &head)
}

/// The `Status` of a deletion that is done.
fn success(call: &Call, object: &Object) -> Value {
    let mut details = json!({ "name": object.name() });
    if !call.resource.group().is_empty() {
        details["group"] = json!(call.resource.group());
    }
    details["kind"] = json!(call.resource.plural());
    details["uid"] = json!(object.uid());
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}

/// Options stand in the query, in the body, or in both.
async fn wanted(call: &Call, body: Body) -> Result<Wanted, Failure> {
    let bytes = body::read(body).await?;
    let mut wanted = Wanted { dry_run: call.query.dry_run, ..Wanted::default() };
    let query = &call.query;
    wanted.propagation = settled(propagation(query.propagation.as_deref())?, query.orphan)?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(wanted);
    }
    let options = body::value(body::language(&call.headers)?, &bytes)?;
    read_options(&options, &mut wanted)?;
    Ok(wanted)
}

/// Whether options can be read at all, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub fn check_options(options: &Value) -> Result<(), Failure> {
    read_options(options, &mut Wanted::default())
}

fn read_options(options: &Value, wanted: &mut Wanted) -> Result<(), Failure> {
    if !options.is_object() {
        return Err(Failure::bad_request("the body of a deletion holds DeleteOptions"));
    }
    of_type(options, "apiVersion", "a text", Value::is_string)?;
    match text(options, "kind")?.as_deref() {
        None | Some("DeleteOptions") => {}
        Some(other) => {
            return Err(Failure::bad_request(format!("{other} is not DeleteOptions")));
        }
    }
    for value in options.get("dryRun").and_then(Value::as_array).into_iter().flatten() {
        wanted.dry_run |= query::dry_run(query::DELETE_OPTIONS, value.as_str().unwrap_or("?"))?;
    }
    of_type(options, "dryRun", "a list", Value::is_array)?;
    of_type(options, "gracePeriodSeconds", "a whole number", Value::is_i64)?;
    of_type(options, "preconditions", "an object", Value::is_object)?;
    of_type(options, "orphanDependents", "true or false", Value::is_boolean)?;
    let older = options.get("orphanDependents").and_then(Value::as_bool);
    let policy = propagation(text(options, "propagationPolicy")?.as_deref())?;
    wanted.propagation = settled(policy, older)?.or(wanted.propagation);
    let conditions = options.get("preconditions").unwrap_or(&Value::Null);
    wanted.uid = text(conditions, "uid")?;
    let revision = text(conditions, "resourceVersion")?;
    let parse = |text: String| {
        text.parse().map_err(|_| Failure::bad_request(format!("{text:?} is no resourceVersion")))
    };
    wanted.revision = revision.map(parse).transpose()?;
    Ok(())
}

/// The policy by its name, or as it was written before it had one; not both.
fn settled(
    policy: Option<Propagation>,
    orphan: Option<bool>,
) -> Result<Option<Propagation>, Failure> {
    match (policy, orphan) {
        (Some(_), Some(_)) => {
            let message =
                "Invalid value: orphanDependents and propagationPolicy cannot be both set";
            let cause = Cause::new("FieldValueInvalid", "propagationPolicy", message);
            Err(Failure::invalid_options(query::DELETE_OPTIONS, cause))
        }
        (policy, None) => Ok(policy),
        (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (None, Some(false)) => Ok(Some(Propagation::Background)),
    }
}

/// What is there must be of its type; `null` is as good as absent.
fn of_type(
    options: &Value,
    key: &str,
    what: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<(), Failure> {
    match options.get(key) {
        Some(found) if !found.is_null() && !fits(found) => {
            Err(Failure::bad_request(format!("DeleteOptions: {key} must be {what}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// A text that is there and not empty.
fn text(options: &Value, key: &str) -> Result<Option<String>, Failure> {
    of_type(options, key, "a text", Value::is_string)?;
    let found = options.get(key).and_then(Value::as_str);
    Ok(found.filter(|text| !text.is_empty()).map(str::to_owned))
}

/// What becomes of the objects that belong to this one. A grace period has no meaning for kinds that
/// are not processes, here as in the reference.
fn propagation(policy: Option<&str>) -> Result<Option<Propagation>, Failure> {
    match policy {
        None => Ok(None),
        Some("Background") => Ok(Some(Propagation::Background)),
        Some("Foreground") => Ok(Some(Propagation::Foreground)),
        Some("Orphan") => Ok(Some(Propagation::Orphan)),
        Some(other) => {
            let message = format!(
                "Unsupported value: {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
            );
            let cause = Cause::new("FieldValueNotSupported", "propagationPolicy", message);
            Err(Failure::invalid_options("DeleteOptions", cause))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_a_body() {
        let mut wanted = Wanted::default();
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "gracePeriodSeconds": 0, "dryRun": ["All"],
            "preconditions": { "uid": "u", "resourceVersion": "7" },
        });
        read_options(&options, &mut wanted).expect("good options");
        let expect = Wanted {
            uid: Some("u".into()),
            revision: Some(Revision(7)),
            dry_run: true,
            propagation: Some(Propagation::Background),
        };
        assert_eq!(wanted, expect);
    }

    #[test]
    fn wrong_options_are_refused() {
        let cases = [
            (json!([]), 400),
            (json!({ "kind": "Workload" }), 400),
            (json!({ "preconditions": { "resourceVersion": "x" } }), 400),
            (json!({ "preconditions": { "resourceVersion": {} } }), 400),
            (json!({ "preconditions": [] }), 400),
            (json!({ "dryRun": "All" }), 400),
            (json!({ "gracePeriodSeconds": "now" }), 400),
            (json!({ "kind": 1 }), 400),
            (json!({ "apiVersion": 1 }), 400),
            (json!({ "dryRun": ["Some"] }), 422),
            (json!({ "propagationPolicy": "Sideways" }), 422),
            (json!({ "propagationPolicy": "Orphan", "orphanDependents": true }), 422),
        ];
        for (options, code) in cases {
            let failure = read_options(&options, &mut Wanted::default()).expect_err("refused");
            assert_eq!(failure.code.as_u16(), code, "{options}");
        }
    }
}
