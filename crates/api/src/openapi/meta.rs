//! Schemas that belong to the dialect and not to any kind.
use serde_json::{Value, json};

use super::Dialect;
use super::resource::ApiResource;

pub(super) const STATUS: &str = "meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "meta.v1.Patch";
pub(super) const LIST_META: &str = "orrery.meta.v1.ListMeta";

/// All of them, by name.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let all = [
        (STATUS, status()),
        (DELETE_OPTIONS, delete_options()),
        (PATCH, json!({ "description": "A change to an object.", "type": "object" })),
        (LIST_META, list_meta()),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// A list of one kind.
pub(super) fn list(resource: &ApiResource, dialect: Dialect) -> Value {
    let group_version_kind = json!([{
        "group": resource.group, "version": resource.version, "kind": resource.list_kind,
    }]);
    json!({
        "type": "object",
        "description": format!("{} is a list of {}.", resource.list_kind, resource.plural),
        "required": ["items"],
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "metadata": dialect.reference(LIST_META),
            "items": { "type": "array", "items": dialect.reference(&resource.schema) },
        },
        "x-kubernetes-group-version-kind": group_version_kind,
    })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn list_meta() -> Value {
    json!({
        "type": "object",
        "description": "ListMeta is what a list knows about itself.",
        "properties": {
            "resourceVersion": text("Revision that the list is true at; a watch goes on from here."),
            "continue": text("Opaque; hand it back to get the next part of the list."),
            "remainingItemCount": { "type": "integer", "format": "int64" },
        },
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "description": "Status tells how a request ended.",
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "metadata": { "type": "object" },
            "status": text("Success or Failure."),
            "message": text("What happened, in words."),
            "reason": text("One word for the cause, in CamelCase."),
            "code": { "type": "integer", "format": "int32", "description": "HTTP status code." },
            "details": {
                "type": "object",
                "description": "What the request was about, and everything that is wrong with it.",
                "properties": {
                    "name": text("Name of the object."),
                    "group": text("Group of the object."),
                    "kind": text("Kind of the object."),
                    "uid": text("Identity of the object."),
                    "retryAfterSeconds": { "type": "integer", "format": "int32" },
                    "causes": { "type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "field": text("Path of the field that is wrong."),
                            "message": text("What is wrong with it."),
                            "reason": text("One word for the cause, in CamelCase."),
                        },
                    } },
                },
            },
        },
        "x-kubernetes-group-version-kind": [{ "group": "", "version": "v1", "kind": "Status" }],
    })
}

fn delete_options() -> Value {
    json!({
        "type": "object",
        "description": "DeleteOptions say how an object is deleted.",
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "dryRun": { "type": "array", "items": { "type": "string", "enum": ["All"] } },
            "gracePeriodSeconds": { "type": "integer", "format": "int64" },
            "propagationPolicy": { "type": "string", "enum": ["Background", "Foreground"] },
            "preconditions": {
                "type": "object",
                "description": "What must hold, else nothing is deleted.",
                "properties": {
                    "uid": text("Identity that the object must have."),
                    "resourceVersion": text("Revision that the object must be at."),
                },
            },
        },
    })
}
