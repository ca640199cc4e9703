//! The operations of a resource, independent of how they are written down.
use super::meta::{
    ARTIFACT, ARTIFACTS, DELETE_OPTIONS, FILE, JSON_PATCH, LOG, OBJECT_VERSIONS, PATCH, SCALE,
    STATUS,
};
use super::resource::ApiResource;
use serde_json::{Value, json};

pub(super) const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml"];
const JSON_PATCH_TYPES: &[&str] = &["application/json-patch+json"];
const PATCH_TYPES: &[&str] = &["application/apply-patch+yaml", "application/merge-patch+json"];
const FILE_TYPES: &[&str] = &["application/octet-stream"];
const LOG_TYPES: &[&str] = &["text/plain"];

/// One parameter of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub r#type: &'static str,
    pub description: &'static str,
    /// The values that there are; none means that any will do.
    pub values: &'static [&'static str],
    /// How texts are written, where only some will do.
    pub format: Option<&'static str>,
}

/// One path and what can be done there.
pub(super) struct PathItem {
    pub path: String,
    /// The variable parts of the path.
    pub variables: Vec<&'static str>,
    pub operations: Vec<Operation>,
}

pub(super) struct Operation {
    pub method: &'static str,
    /// The verb of the dialect, as tools look for it.
    pub action: &'static str,
    pub id: String,
    pub description: String,
    pub parameters: Vec<Parameter>,
    /// Schemas and media types of the body; the first is the one where there can be only one.
    pub body: Vec<Content>,
    /// Codes of good answers, with a word for each.
    pub answers: Vec<(&'static str, &'static str, Content)>,
    /// Group, version and kind of what is there, where it is not the resource itself.
    pub other_kind: Option<[&'static str; 3]>,
}

impl Operation {
    pub fn group_version_kind(&self, resource: &ApiResource) -> Value {
        match self.other_kind {
            Some([group, version, kind]) => {
                json!({ "group": group, "version": version, "kind": kind })
            }
            None => resource.group_version_kind(),
        }
    }
}

/// A schema, and the media types in which it is written.
#[derive(Clone)]
pub(super) struct Content {
    pub schema: String,
    /// What it can be as well, where a dialect can say so.
    pub or: Option<String>,
    pub types: &'static [&'static str],
}

impl Content {
    fn object(schema: &str) -> Self {
        Self::new(schema, OBJECT_TYPES)
    }

    fn new(schema: &str, types: &'static [&'static str]) -> Self {
        Self { schema: schema.to_owned(), or: None, types }
    }
}

const fn parameter(
    name: &'static str,
    r#type: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, r#type, description, values: &[], format: None }
}

const fn choice(
    name: &'static str,
    description: &'static str,
    values: &'static [&'static str],
) -> Parameter {
    Parameter { values, ..parameter(name, "string", description) }
}

const DRY_RUN: Parameter = choice("dryRun", "\"All\": check everything, store nothing.", &["All"]);
const MANAGER: Parameter = parameter("fieldManager", "string", "Who makes this change.");
const VALIDATION: Parameter =
    choice("fieldValidation", "What happens to unknown fields.", &["Ignore", "Strict", "Warn"]);
const FORCE: Parameter =
    parameter("force", "boolean", "Take fields over from others; only for apply patches.");
const LABELS: Parameter = parameter("labelSelector", "string", "Only objects with these labels.");
const FIELDS: Parameter = parameter("fieldSelector", "string", "Only objects with these values.");
const PROPAGATION: Parameter = choice(
    "propagationPolicy",
    "What becomes of the objects that belong to it.",
    &["Background", "Foreground", "Orphan"],
);
const VERSION: Parameter =
    parameter("resourceVersion", "string", "Which state is meant: none, \"0\" or a revision.");
const LINEAGE: Parameter = parameter(
    "includeLineage",
    "boolean",
    "Where it came from is part of it: the annotation that git sync writes.",
);
const PATCHING: [Parameter; 5] = [DRY_RUN, MANAGER, VALIDATION, FORCE, LINEAGE];
const LIST: [Parameter; 11] = [
    LABELS,
    FIELDS,
    parameter("limit", "integer", "At most so many in one answer."),
    parameter("continue", "string", "From the answer before, to get the next part."),
    VERSION,
    choice("resourceVersionMatch", "How the version is meant.", &["Exact", "NotOlderThan"]),
    parameter("watch", "boolean", "Send every change instead of a list."),
    parameter("allowWatchBookmarks", "boolean", "Say from time to time how far the watch is."),
    parameter("sendInitialEvents", "boolean", "Begin the watch with what is there."),
    parameter("timeoutSeconds", "integer", "End the watch after this time."),
    LINEAGE,
];
const LOG_PARAMETERS: [Parameter; 7] = [
    parameter(
        "container",
        "string",
        "Name of the one copy that is meant; all of them when absent.",
    ),
    parameter("follow", "boolean", "Go on with what is written later."),
    parameter("timestamps", "boolean", "Put the time before each line, in RFC 3339."),
    parameter(
        "sinceSeconds",
        "integer",
        "Begin with what was written within so many seconds before now.",
    ),
    Parameter {
        format: Some("date-time"),
        ..parameter("sinceTime", "string", "Begin with what was written at this time or later.")
    },
    parameter("tailLines", "integer", "Begin so many lines before the end."),
    parameter("limitBytes", "integer", "End the answer after so many bytes."),
];

/// Every path of a resource.
pub(super) fn paths(resource: &ApiResource) -> Vec<PathItem> {
    let mut items = Vec::new();
    if resource.namespaced {
        let list = list(resource, "ForAllNamespaces");
        items.push(PathItem {
            path: resource.everywhere(),
            variables: Vec::new(),
            operations: vec![list],
        });
    }
    let scope: Vec<&'static str> = if resource.namespaced { vec!["namespace"] } else { Vec::new() };
    let named: Vec<&'static str> = scope.iter().copied().chain(["name"]).collect();
    let one = format!("{}/{{name}}", resource.collection());
    items.push(PathItem {
        path: resource.collection(),
        variables: scope,
        operations: collection(resource),
    });
    items.push(PathItem {
        path: one.clone(),
        variables: named.clone(),
        operations: object(resource, ""),
    });
    let mut part = |path: &str, variables: Vec<&'static str>, operations| {
        items.push(PathItem { path: format!("{one}/{path}"), variables, operations });
    };
    if resource.has_status {
        part("status", named.clone(), object(resource, "Status"));
    }
    if resource.has_scale {
        part("scale", named.clone(), scale(resource));
    }
    if resource.has_artifacts {
        part("artifacts", named.clone(), artifacts(resource));
        let file = named.iter().copied().chain(["path"]).collect();
        part("artifacts/{path}", file, artifact(resource));
    }
    if resource.has_versions {
        part("versions", named.clone(), versions(resource));
        let one = named.iter().copied().chain(["version"]).collect();
        part("versions/{version}", one, version(resource));
    }
    if resource.has_log {
        part("log", named, log(resource));
    }
    items
}

fn log(resource: &ApiResource) -> Vec<Operation> {
    vec![Operation {
        answers: vec![("200", "OK", Content::new(LOG, LOG_TYPES))],
        ..operation(resource, "get", "get", "Log", LOG_PARAMETERS.to_vec())
    }]
}

fn scale(resource: &ApiResource) -> Vec<Operation> {
    let scaled = |method, action, parameters| Operation {
        answers: vec![("200", "OK", Content::object(SCALE))],
        other_kind: Some(["autoscaling", "v1", "Scale"]),
        ..operation(resource, method, action, "Scale", parameters)
    };
    let mut operations = vec![scaled("get", "get", vec![VERSION])];
    if resource.writable {
        operations.push(Operation {
            body: vec![Content::object(SCALE)],
            ..scaled("put", "put", vec![DRY_RUN, MANAGER, VALIDATION])
        });
        operations.push(Operation {
            body: vec![
                Content::new(PATCH, PATCH_TYPES),
                Content::new(JSON_PATCH, JSON_PATCH_TYPES),
            ],
            ..scaled("patch", "patch", vec![DRY_RUN, MANAGER, VALIDATION, FORCE])
        });
    }
    operations
}

fn artifacts(resource: &ApiResource) -> Vec<Operation> {
    vec![Operation {
        answers: vec![("200", "OK", Content::object(ARTIFACTS))],
        ..operation(resource, "get", "get", "Artifacts", Vec::new())
    }]
}

fn versions(resource: &ApiResource) -> Vec<Operation> {
    vec![Operation {
        answers: vec![("200", "OK", Content::object(OBJECT_VERSIONS))],
        ..operation(resource, "get", "get", "Versions", Vec::new())
    }]
}

fn version(resource: &ApiResource) -> Vec<Operation> {
    vec![Operation {
        answers: vec![("200", "OK", Content::object(&resource.schema))],
        ..operation(resource, "get", "get", "Version", Vec::new())
    }]
}

fn artifact(resource: &ApiResource) -> Vec<Operation> {
    let mut operations = vec![Operation {
        answers: vec![("200", "OK", Content::new(FILE, FILE_TYPES))],
        ..operation(resource, "get", "get", "Artifact", Vec::new())
    }];
    if resource.writable {
        operations.push(Operation {
            body: vec![Content::new(FILE, FILE_TYPES)],
            answers: vec![("200", "OK", Content::object(ARTIFACT))],
            ..operation(resource, "put", "put", "Artifact", Vec::new())
        });
        operations.push(Operation {
            answers: vec![("200", "OK", Content::object(STATUS))],
            ..operation(resource, "delete", "delete", "Artifact", Vec::new())
        });
    }
    operations
}

fn collection(resource: &ApiResource) -> Vec<Operation> {
    let mut operations = vec![list(resource, "")];
    if resource.writable {
        operations.push(Operation {
            body: vec![Content::object(&resource.schema)],
            answers: vec![("201", "Created", Content::object(&resource.schema))],
            ..operation(resource, "post", "create", "", vec![DRY_RUN, MANAGER, VALIDATION, LINEAGE])
        });
    }
    if resource.delete_collection {
        let parameters = vec![LABELS, FIELDS, DRY_RUN, PROPAGATION];
        operations.push(Operation {
            body: vec![Content::object(DELETE_OPTIONS)],
            answers: vec![("200", "OK", Content::object(&resource.list_schema))],
            ..operation(resource, "delete", "deletecollection", "", parameters)
        });
    }
    operations
}

fn list(resource: &ApiResource, suffix: &str) -> Operation {
    Operation {
        answers: vec![("200", "OK", Content::object(&resource.list_schema))],
        ..operation(resource, "get", "list", suffix, LIST.to_vec())
    }
}

/// What can be done with one object, or with a part of it.
fn object(resource: &ApiResource, part: &str) -> Vec<Operation> {
    let schema = || Content::object(&resource.schema);
    let ok = || ("200", "OK", schema());
    let created = || ("201", "Created", schema());
    let mut operations = vec![Operation {
        answers: vec![ok()],
        ..operation(resource, "get", "get", part, vec![VERSION, LINEAGE])
    }];
    if !resource.writable {
        return operations;
    }
    operations.push(Operation {
        body: vec![schema()],
        answers: vec![ok()],
        ..operation(resource, "put", "put", part, vec![DRY_RUN, MANAGER, VALIDATION, LINEAGE])
    });
    operations.push(Operation {
        body: vec![Content::new(PATCH, PATCH_TYPES), Content::new(JSON_PATCH, JSON_PATCH_TYPES)],
        answers: vec![ok(), created()],
        ..operation(resource, "patch", "patch", part, PATCHING.to_vec())
    });
    if part.is_empty() {
        // What waits for its finalizers is shown as it is; what is gone is only told of.
        let deleted = Content { or: Some(resource.schema.clone()), ..Content::object(STATUS) };
        operations.push(Operation {
            body: vec![Content::object(DELETE_OPTIONS)],
            answers: vec![("200", "OK", deleted)],
            ..operation(resource, "delete", "delete", part, vec![DRY_RUN, PROPAGATION])
        });
    }
    operations
}

fn operation(
    resource: &ApiResource,
    method: &'static str,
    action: &'static str,
    suffix: &str,
    parameters: Vec<Parameter>,
) -> Operation {
    let (verb, words) = match action {
        "list" => ("list", "list or watch objects of kind"),
        "create" => ("create", "create a"),
        "deletecollection" => ("deleteCollection", "delete all selected objects of kind"),
        "put" => ("replace", "replace the"),
        "patch" => ("patch", "change parts of the"),
        "delete" => ("delete", "delete the"),
        _ => ("read", "read the"),
    };
    let scope = if resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
    let kind = &resource.kind;
    let what = match suffix {
        "Status" => format!("status of the {kind}"),
        "Scale" => format!("scale of the {kind}"),
        "Artifacts" => format!("list of the files of the {kind}"),
        "Artifact" => format!("file of the {kind}"),
        "Versions" => format!("list of the versions of the {kind}"),
        "Log" => format!("output of the copies of the {kind}"),
        "Version" => format!("{kind} as it was under the name of a version"),
        _ => kind.clone(),
    };
    let id = format!("{verb}{}{scope}{kind}{suffix}", resource.id_prefix());
    let description = format!("{words} {what}");
    let (body, answers, other_kind) = (Vec::new(), Vec::new(), None);
    Operation { method, action, id, description, parameters, body, answers, other_kind }
}
