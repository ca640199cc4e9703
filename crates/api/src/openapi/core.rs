//! The core group: projects as namespaces, and events in the shape that tools expect.
use serde_json::{Value, json};

use super::Dialect;
use super::resource::ApiResource;
use crate::scheme::Scheme;

pub(super) const PROJECT: &str = "orrery.core.v1.Project";
const EVENT: &str = "orrery.core.v1.Event";
const NAMESPACE_SCHEMA: &str = "core.v1.Namespace";
const EVENT_SCHEMA: &str = "core.v1.Event";
const META: &str = "orrery.meta.v1.ObjectMeta";

/// Those whose own kind is served.
pub(super) fn resources(scheme: &Scheme) -> Vec<ApiResource> {
    let namespace = scheme.by_full_name(PROJECT).map(|_| mk("Namespace", "namespaces", true));
    let event = scheme.by_full_name(EVENT).map(|_| mk("Event", "events", false));
    namespace.into_iter().chain(event).collect()
}

fn mk(kind: &str, plural: &str, is_namespace: bool) -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        namespaced: !is_namespace,
        writable: is_namespace,
        delete_collection: false,
        has_status: is_namespace,
        has_scale: false,
        has_artifacts: false,
        has_versions: false,
        schema: format!("core.v1.{kind}"),
        list_schema: format!("core.v1.{kind}List"),
        definition: None,
    }
}

/// Schemas of both, and of the metadata that they share with every kind.
pub(super) fn schemas(scheme: &Scheme, dialect: Dialect) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (message, name, schema) in
        [(PROJECT, NAMESPACE_SCHEMA, namespace(dialect)), (EVENT, EVENT_SCHEMA, event(dialect))]
    {
        let Some(kind) = scheme.by_full_name(message) else { continue };
        all.push((name.to_owned(), schema));
        let shared = super::schema::of_kind(kind, dialect).into_iter();
        all.extend(shared.filter(|(name, _)| name.starts_with("orrery.meta.")));
    }
    all
}

fn described(description: &str, kind: &str, properties: Value) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": properties,
        "x-kubernetes-group-version-kind": [{ "group": "", "version": "v1", "kind": kind }],
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
    described(description, "Namespace", properties)
}

fn event(dialect: Dialect) -> Value {
    let properties = json!({
        "apiVersion": text("Version of this definition."),
        "kind": text("Kind of resource."),
        "metadata": dialect.reference(META),
        "involvedObject": {
            "type": "object",
            "description": "The object it happened to.",
            "properties": {
                "apiVersion": text("API version of the object."),
                "kind": text("Kind of the object."),
                "namespace": text("Namespace of the object."),
                "name": text("Name of the object."),
                "uid": text("Identity of the object."),
            },
        },
        "reason": text("One word for the cause, in CamelCase."),
        "message": text("What happened, in words."),
        "type": text("Normal or Warning."),
        "count": { "type": "integer", "format": "int64", "description": "How often it happened." },
        "firstTimestamp": time("When it happened first."),
        "lastTimestamp": time("When it happened last."),
        "source": {
            "type": "object",
            "description": "Who tells of it.",
            "properties": { "component": text("The part of the system that tells of it.") },
        },
        "reportingComponent": text("The part of the system that tells of it."),
        "reportingInstance": text("Which instance of that part; empty here."),
    });
    let description = "Event tells of something that happened to an object and why.";
    described(description, "Event", properties)
}
