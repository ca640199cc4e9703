//! Projects as namespaces of the core group, and events in both of the shapes that tools expect.
use serde_json::{Value, json};

use super::Dialect;
use super::resource::ApiResource;
use crate::scheme::Scheme;

pub(super) const PROJECT: &str = "orrery.core.v1.Project";
const EVENT: &str = "orrery.core.v1.Event";
const NAMESPACE_SCHEMA: &str = "core.v1.Namespace";
const EVENT_SCHEMA: &str = "core.v1.Event";
const EVENTS_GROUP: &str = "events.k8s.io";
const GROUP_EVENT_SCHEMA: &str = "events.v1.Event";
const META: &str = "orrery.meta.v1.ObjectMeta";

/// Those whose own kind is served.
pub(super) fn resources(scheme: &Scheme) -> Vec<ApiResource> {
    let faces = [
        (PROJECT, "", "Namespace", "namespaces"),
        (EVENT, "", "Event", "events"),
        (EVENT, EVENTS_GROUP, "Event", "events"),
    ];
    let served = faces.into_iter().filter(|(message, ..)| scheme.by_full_name(message).is_some());
    served.map(|(_, group, kind, plural)| mk(group, kind, plural)).collect()
}

fn mk(group: &str, kind: &str, plural: &str) -> ApiResource {
    let is_namespace = kind == "Namespace";
    let schema =
        if group.is_empty() { format!("core.v1.{kind}") } else { format!("events.v1.{kind}") };
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        namespaced: !is_namespace,
        writable: true,
        delete_collection: !is_namespace,
        has_status: is_namespace,
        has_scale: false,
        has_artifacts: false,
        has_versions: false,
        has_log: false,
        list_schema: format!("{schema}List"),
        schema,
        definition: None,
    }
}

/// Schemas of all, and of the metadata that they share with every kind.
pub(super) fn schemas(scheme: &Scheme, dialect: Dialect) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let faces = [
        (PROJECT, NAMESPACE_SCHEMA, namespace(dialect)),
        (EVENT, EVENT_SCHEMA, event(dialect)),
        (EVENT, GROUP_EVENT_SCHEMA, group_event(dialect)),
    ];
    for (message, name, schema) in faces {
        let Some(kind) = scheme.by_full_name(message) else { continue };
        all.push((name.to_owned(), schema));
        let shared = super::schema::of_kind(kind, dialect).into_iter();
        all.extend(shared.filter(|(name, _)| name.starts_with("orrery.meta.")));
    }
    all
}

fn described(description: &str, group: &str, kind: &str, properties: Value) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": properties,
        "x-kubernetes-group-version-kind": [{ "group": group, "version": "v1", "kind": kind }],
    })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn time(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": description })
}

fn namespace(dialect: Dialect) -> Value {
    let properties = json!({
        "apiVersion": text("Version of this definition."),
        "kind": text("Kind of resource."),
        "metadata": dialect.reference(META),
        "spec": { "type": "object", "description": "What is asked for: nothing but to be there." },
        "status": {
            "type": "object",
            "description": "Where the namespace is in its life.",
            "properties": { "phase": {
                "type": "string", "enum": ["Active", "Terminating"],
                "description": "Active, or Terminating while its resources are being deleted.",
            } },
        },
    });
    let description = "Namespace is a project as clients of this dialect know it: it holds \
                       resources that belong together, and names are unique within it.";
    described(description, "", "Namespace", properties)
}

fn event(dialect: Dialect) -> Value {
    let properties = json!({
        "apiVersion": text("Version of this definition."),
        "kind": text("Kind of resource."),
        "metadata": dialect.reference(META),
        "involvedObject": regarding(),
        "reason": text("One word for the cause, in CamelCase."),
        "message": text("What happened, in words."),
        "type": text("Normal or Warning."),
        "count": count(),
        "firstTimestamp": time("When it happened first."),
        "lastTimestamp": time("When it happened last."),
        "eventTime": optional_time(dialect, "When it happened first, for those who say it here; never shown."),
        "series": series(dialect),
        "action": text("What was done, or what failed, in CamelCase."),
        "source": source(),
        "reportingComponent": text("The part of the system that tells of it."),
        "reportingInstance": text("Which instance of that part."),
    });
    let description = "Event tells of something that happened to an object and why.";
    required(described(description, "", "Event", properties), &["involvedObject", "reason"])
}

fn group_event(dialect: Dialect) -> Value {
    let properties = json!({
        "apiVersion": text("Version of this definition."),
        "kind": text("Kind of resource."),
        "metadata": dialect.reference(META),
        "regarding": regarding(),
        "reason": text("One word for the cause, in CamelCase."),
        "note": text("What happened, in words."),
        "type": text("Normal or Warning."),
        "action": text("What was done, or what failed, in CamelCase."),
        "eventTime": optional_time(dialect, "When it happened first."),
        "series": series(dialect),
        "reportingController": text("The part of the system that tells of it."),
        "reportingInstance": text("Which instance of that part."),
        "deprecatedCount": count(),
        "deprecatedFirstTimestamp": time("When it happened first."),
        "deprecatedLastTimestamp": time("When it happened last."),
        "deprecatedSource": source(),
    });
    let description = "Event tells of something that happened to an object and why.";
    let event = described(description, EVENTS_GROUP, "Event", properties);
    required(event, &["regarding", "reason"])
}

fn required(mut schema: Value, fields: &[&str]) -> Value {
    schema["required"] = json!(fields);
    schema
}

fn regarding() -> Value {
    let object = json!({
        "type": "object",
        "description": "The object it happened to.",
        "properties": {
            "apiVersion": text("API version of the object."),
            "kind": text("Kind of the object."),
            "namespace": text("Namespace of the object."),
            "name": text("Name of the object."),
            "uid": text("Identity of the object."),
        },
    });
    required(object, &["kind", "name"])
}

fn source() -> Value {
    json!({
        "type": "object",
        "description": "Who tells of it.",
        "properties": { "component": text("The part of the system that tells of it.") },
    })
}

fn count() -> Value {
    json!({ "type": "integer", "format": "int64", "description": "How often it happened." })
}

fn series(dialect: Dialect) -> Value {
    json!({
        "type": "object",
        "description": "What happened more than once.",
        "properties": {
            "count": count(),
            "lastObservedTime": optional_time(dialect, "When it happened last."),
        },
    })
}

/// A time that may be said to be none, which the older dialect has no word for.
fn optional_time(dialect: Dialect, description: &str) -> Value {
    let mut schema = time(description);
    if dialect == Dialect::V3 {
        schema["nullable"] = json!(true);
    }
    schema
}
