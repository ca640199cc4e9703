//! Schemas that belong to the dialect and not to any kind.
use serde_json::{Value, json};

use super::Dialect;
use super::resource::ApiResource;

pub(super) const STATUS: &str = "meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "meta.v1.Patch";
pub(super) const JSON_PATCH: &str = "meta.v1.JsonPatch";
pub(super) const SCALE: &str = "autoscaling.v1.Scale";
pub(super) const ARTIFACT: &str = "meta.v1.Artifact";
pub(super) const ARTIFACTS: &str = "meta.v1.ArtifactList";
pub(super) const OBJECT_VERSION: &str = "meta.v1.Version";
pub(super) const OBJECT_VERSIONS: &str = "meta.v1.VersionList";
pub(super) const FILE: &str = "meta.v1.File";
pub(super) const LOG: &str = "meta.v1.Log";
pub(super) const LIST_META: &str = "orrery.meta.v1.ListMeta";

/// All of them, by name.
pub(super) fn schemas(dialect: Dialect) -> Vec<(String, Value)> {
    let all = [
        (STATUS, status()),
        (DELETE_OPTIONS, delete_options()),
        (PATCH, json!({ "description": "A change to an object.", "type": "object" })),
        (JSON_PATCH, json_patch()),
        (LIST_META, list_meta()),
        (SCALE, scale()),
        (ARTIFACT, artifact()),
        (ARTIFACTS, artifacts(dialect)),
        (OBJECT_VERSION, object_version()),
        (OBJECT_VERSIONS, object_versions(dialect)),
        (LOG, json!({ "description": "What copies have written.", "type": "string" })),
        (FILE, json!({ "description": "A file, as it is.", "type": "string", "format": "binary" })),
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

fn json_patch() -> Value {
    let operations = ["add", "copy", "move", "remove", "replace", "test"];
    json!({
        "type": "array",
        "description": "Operations that are done one after the other, or none of them (RFC 6902).",
        "items": {
            "type": "object",
            "required": ["op", "path"],
            "properties": {
                "op": { "type": "string", "enum": operations, "description": "What is done." },
                "path": text("The place, as a JSON pointer."),
                "from": text("The place that is copied or moved, as a JSON pointer."),
                "value": { "description": "The value that is put there or expected there." },
            },
        },
    })
}

fn count(description: &str) -> Value {
    json!({ "type": "integer", "format": "int32", "minimum": 0, "description": description })
}

fn scale() -> Value {
    json!({
        "type": "object",
        "description": "Scale tells how many copies of something there should be and are.",
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "metadata": {
                "type": "object",
                "description": "Identity of what is scaled.",
                "properties": {
                    "name": text("Name of the object."),
                    "namespace": text("Namespace of the object."),
                    "uid": text("Identity of the object."),
                    "resourceVersion": text("Revision that the object is at."),
                    "creationTimestamp": { "type": "string", "format": "date-time" },
                },
            },
            "spec": {
                "type": "object",
                "description": "What is asked for.",
                "properties": { "replicas": count("Copies that there should be.") },
            },
            "status": {
                "type": "object",
                "description": "What is.",
                "required": ["replicas"],
                "properties": { "replicas": count("Copies that there are.") },
            },
        },
        "x-kubernetes-group-version-kind": [
            { "group": "autoscaling", "version": "v1", "kind": "Scale" },
        ],
    })
}

fn artifact() -> Value {
    json!({
        "type": "object",
        "description": "Artifact is a file that is kept with an object.",
        "required": ["path", "sizeBytes", "digest"],
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "path": text("Relative path, below the object."),
            "sizeBytes": { "type": "integer", "format": "int64", "minimum": 0 },
            "digest": text("SHA-256 of the content, in hexadecimal."),
        },
    })
}

fn artifacts(dialect: Dialect) -> Value {
    json!({
        "type": "object",
        "description": "ArtifactList names the files that are kept with an object.",
        "required": ["items"],
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "metadata": { "type": "object" },
            "items": { "type": "array", "items": dialect.reference(ARTIFACT) },
        },
    })
}

fn object_version() -> Value {
    json!({
        "type": "object",
        "description": "Version is one version of an object.",
        "required": ["name", "generation", "current"],
        "properties": {
            "name": text("As the spec named it."),
            "generation": { "type": "integer", "format": "int64" },
            "current": { "type": "boolean", "description": "Whether the object is at it." },
            "until": text("When the object left it."),
        },
    })
}

fn object_versions(dialect: Dialect) -> Value {
    json!({
        "type": "object",
        "description": "VersionList names the versions of an object, the latest first.",
        "required": ["items"],
        "properties": {
            "apiVersion": text("Version of this definition."),
            "kind": text("Kind of resource."),
            "metadata": { "type": "object" },
            "items": { "type": "array", "items": dialect.reference(OBJECT_VERSION) },
        },
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
            "propagationPolicy": { "type": "string", "enum": ["Background", "Foreground", "Orphan"] },
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
