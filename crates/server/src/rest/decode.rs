//! From the value in a body to an object of the hub.
use super::body;
use super::failure::{Cause, Failure};
use super::query::Validation;
use super::resource::Resource;
use orrery_api::{DecodeError, DecodeOptions, Object};
use serde_json::{Map, Value, json};

/// Fields of metadata that clients of the dialect send along and that our objects do not have: they
/// are history.
const DIALECT_METADATA: [&str; 2] = ["selfLink", "deletionGracePeriodSeconds"];

/// An object as it was given, and what to warn of.
#[derive(Debug)]
pub struct Given {
    pub object: Object,
    pub warnings: Vec<String>,
}

impl Given {
    /// The same, with what else there is to warn of.
    #[must_use]
    pub fn warning(mut self, mut warnings: Vec<String>) -> Self {
        warnings.append(&mut self.warnings);
        Self { warnings, ..self }
    }
}

/// Makes a value say of itself what the path says of it, and refuses one that says otherwise.
pub fn settle(
    resource: &Resource,
    value: &mut Value,
    project: &str,
    name: Option<&str>,
) -> Result<(), Failure> {
    let Value::Object(fields) = value else {
        return Err(Failure::bad_request("the body of the request must be an object"));
    };
    check_type(fields, "apiVersion", "API version", resource.api_version())?;
    check_type(fields, "kind", "kind", resource.kind_name())?;
    let metadata = metadata_of(fields)?;
    if resource.namespaced() {
        settle_project(metadata, project)?;
    }
    if let Some(name) = name {
        settle_name(metadata, name)?;
    }
    Ok(())
}

/// What a value says of its type is what is expected; what it does not say is filled in.
pub fn check_type(
    fields: &mut Map<String, Value>,
    key: &str,
    what: &str,
    expected: &str,
) -> Result<(), Failure> {
    match fields.get(key) {
        Some(Value::String(found)) if found == expected => Ok(()),
        Some(Value::String(found)) if !found.is_empty() => Err(Failure::bad_request(format!(
            "the {what} in the data ({found}) does not match the expected {what} ({expected})"
        ))),
        Some(Value::String(_) | Value::Null) | None => {
            fields.insert(key.to_owned(), json!(expected));
            Ok(())
        }
        Some(_) => Err(Failure::bad_request(format!("the {what} in the data must be a string"))),
    }
}

fn metadata_of(fields: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, Failure> {
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata
        .as_object_mut()
        .ok_or_else(|| Failure::bad_request("metadata must be an object with a name"))
}

fn settle_project(metadata: &mut Map<String, Value>, project: &str) -> Result<(), Failure> {
    for key in ["namespace", "project"] {
        match metadata.get(key) {
            Some(Value::String(found)) if !found.is_empty() && found != project => {
                return Err(Failure::bad_request(format!(
                    "the namespace of the provided object does not match the namespace sent on the request ({found} and {project})"
                )));
            }
            Some(_) | None => {}
        }
    }
    if !metadata.contains_key("project") {
        metadata.insert("namespace".to_owned(), json!(project));
    }
    Ok(())
}

fn settle_name(metadata: &mut Map<String, Value>, name: &str) -> Result<(), Failure> {
    match metadata.get("name") {
        Some(Value::String(found)) if !found.is_empty() && found != name => {
            Err(Failure::bad_request(format!(
                "the name of the object ({found}) does not match the name on the URL ({name})"
            )))
        }
        Some(_) | None => {
            metadata.insert("name".to_owned(), json!(name));
            Ok(())
        }
    }
}

/// Reads an object. Values of the wrong type are always refused; what becomes of unknown fields,
/// the caller decides.
pub fn decode(resource: &Resource, value: Value, validation: Validation) -> Result<Given, Failure> {
    let Given { object, warnings } = spoken(resource, value, validation)?;
    Ok(Given { object: to_hub(resource, &object)?, warnings })
}

/// An object of the version that the client speaks, in the hub version.
pub fn to_hub(resource: &Resource, spoken: &Object) -> Result<Object, Failure> {
    let object = resource.scheme().to_hub(spoken);
    object.map_err(|error| Failure::bad_request(error.to_string()))
}

/// The same in the version that the client speaks.
pub fn spoken(
    resource: &Resource,
    mut value: Value,
    validation: Validation,
) -> Result<Given, Failure> {
    drop_dialect_metadata(resource, &mut value);
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let name = name.to_owned();
    value = resource.unfaced(value, &name)?;
    let read = Object::from_json_value(&resource.kind, &value, &DecodeOptions::lenient());
    let decoded = read.map_err(|error| unreadable(resource, &name, error))?;
    let unknown: Vec<String> =
        decoded.warnings.iter().map(|violation| violation.strict_text()).collect();
    let warnings = match validation {
        Validation::Strict if !unknown.is_empty() => return Err(strict(resource, &unknown)),
        Validation::Strict | Validation::Ignore => Vec::new(),
        Validation::Warn => unknown,
    };
    Ok(Given { object: decoded.object, warnings })
}

fn drop_dialect_metadata(resource: &Resource, value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for key in DIALECT_METADATA {
        if resource.kind.schema().field(&format!("metadata.{key}")).is_none() {
            metadata.remove(key);
        }
    }
}

fn unreadable(resource: &Resource, name: &str, error: DecodeError) -> Failure {
    match error {
        DecodeError::Invalid(violations) => {
            let causes = violations.iter().map(|violation| resource.cause(violation));
            let causes: Vec<Cause> = causes.collect();
            Failure::invalid(resource.group(), resource.kind_name(), name, &causes)
        }
        other => body::unreadable(other),
    }
}

fn strict(resource: &Resource, unknown: &[String]) -> Failure {
    let (kind, version) = (resource.kind_name(), resource.version());
    Failure::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
        unknown.join(", ")
    ))
}
