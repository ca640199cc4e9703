//! The operations of a resource, independent of how they are written down.
use super::meta::{DELETE_OPTIONS, PATCH, STATUS};
use super::resource::ApiResource;

pub(super) const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml"];
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];

/// One parameter of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub r#type: &'static str,
    pub description: &'static str,
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
    /// Schema and media types of the body.
    pub body: Option<(String, &'static [&'static str])>,
    /// Codes and schemas of good answers.
    pub answers: Vec<(&'static str, &'static str, String)>,
}

const fn parameter(
    name: &'static str,
    r#type: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, r#type, description }
}

const DRY_RUN: Parameter =
    parameter("dryRun", "string", "\"All\": check everything, store nothing.");
const MANAGER: Parameter = parameter("fieldManager", "string", "Who makes this change.");
const VALIDATION: Parameter = parameter(
    "fieldValidation",
    "string",
    "What happens to unknown fields: \"Strict\", \"Warn\" or \"Ignore\".",
);
const FORCE: Parameter =
    parameter("force", "boolean", "Take fields over from others; only for apply patches.");
const LABELS: Parameter = parameter("labelSelector", "string", "Only objects with these labels.");
const FIELDS: Parameter = parameter("fieldSelector", "string", "Only objects with these values.");
const PROPAGATION: Parameter =
    parameter("propagationPolicy", "string", "\"Background\" or \"Foreground\".");
const VERSION: Parameter =
    parameter("resourceVersion", "string", "Which state is meant: none, \"0\" or a revision.");
const LIST: [Parameter; 10] = [
    LABELS,
    FIELDS,
    parameter("limit", "integer", "At most so many in one answer."),
    parameter("continue", "string", "From the answer before, to get the next part."),
    VERSION,
    parameter("resourceVersionMatch", "string", "\"NotOlderThan\" or \"Exact\"."),
    parameter("watch", "boolean", "Send every change instead of a list."),
    parameter("allowWatchBookmarks", "boolean", "Say from time to time how far the watch is."),
    parameter("sendInitialEvents", "boolean", "Begin the watch with what is there."),
    parameter("timeoutSeconds", "integer", "End the watch after this time."),
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
    if resource.has_status {
        items.push(PathItem {
            path: format!("{one}/status"),
            variables: named,
            operations: object(resource, "Status"),
        });
    }
    items
}

fn collection(resource: &ApiResource) -> Vec<Operation> {
    let mut operations = vec![list(resource, "")];
    if resource.writable {
        operations.push(Operation {
            body: Some((resource.schema.clone(), OBJECT_TYPES)),
            answers: vec![("201", "Created", resource.schema.clone())],
            ..operation(resource, "post", "create", "", vec![DRY_RUN, MANAGER, VALIDATION])
        });
    }
    if resource.delete_collection {
        let parameters = vec![LABELS, FIELDS, DRY_RUN, PROPAGATION];
        operations.push(Operation {
            body: Some((DELETE_OPTIONS.to_owned(), OBJECT_TYPES)),
            answers: vec![("200", "OK", resource.list_schema.clone())],
            ..operation(resource, "delete", "deletecollection", "", parameters)
        });
    }
    operations
}

fn list(resource: &ApiResource, suffix: &str) -> Operation {
    Operation {
        answers: vec![("200", "OK", resource.list_schema.clone())],
        ..operation(resource, "get", "list", suffix, LIST.to_vec())
    }
}

/// What can be done with one object, or with a part of it.
fn object(resource: &ApiResource, part: &str) -> Vec<Operation> {
    let schema = || resource.schema.clone();
    let ok = || ("200", "OK", schema());
    let created = || ("201", "Created", schema());
    let mut operations = vec![Operation {
        answers: vec![ok()],
        ..operation(resource, "get", "get", part, vec![VERSION])
    }];
    if !resource.writable {
        return operations;
    }
    operations.push(Operation {
        body: Some((schema(), OBJECT_TYPES)),
        answers: vec![ok()],
        ..operation(resource, "put", "put", part, vec![DRY_RUN, MANAGER, VALIDATION])
    });
    operations.push(Operation {
        body: Some((PATCH.to_owned(), PATCH_TYPES)),
        answers: vec![ok(), created()],
        ..operation(resource, "patch", "patch", part, vec![DRY_RUN, MANAGER, VALIDATION, FORCE])
    });
    if part.is_empty() {
        operations.push(Operation {
            body: Some((DELETE_OPTIONS.to_owned(), OBJECT_TYPES)),
            answers: vec![("200", "OK", STATUS.to_owned())],
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
        _ => kind.clone(),
    };
    let id = format!("{verb}{}{scope}{kind}{suffix}", resource.id_prefix());
    let description = format!("{words} {what}");
    let (body, answers) = (None, Vec::new());
    Operation { method, action, id, description, parameters, body, answers }
}
