//! Rules of metadata that depend on the kind or on several fields.
//!
//! What the server owns (uid, resource version, timestamps) needs not be right on input: the
//! server replaces it.
use super::{
    is_label_value, is_qualified_name,
    rules::{LABEL_VALUE_RULE, QUALIFIED_NAME_RULE},
};
use crate::{
    object::Object,
    path::Path,
    scheme::SYSTEM_PROJECT,
    violation::{Findings, Violation},
};

/// All annotations of one object, keys and values: they are for notes of tools, not for data.
pub(crate) const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

pub(super) fn validate(object: &Object, found: &mut Findings) {
    if let Some(violation) = check_project(object) {
        found.report(|| violation);
    }
    check_labels(object, found);
    check_annotations(object, found);
    for (index, finalizer) in object.finalizers().into_iter().enumerate() {
        if !is_qualified_name(finalizer) {
            let path = format!("metadata.finalizers[{index}]");
            found.report(|| quoted(path, finalizer, QUALIFIED_NAME_RULE));
        }
    }
    if object.has_owners() && !has_one_controller(object) {
        let why = "only one of the owners can have controller: true";
        let path = "metadata.ownerReferences";
        found.report(|| Violation::invalid(path, "several controllers", why));
    }
}

/// As many may own an object as like; one of them at most controls it.
pub(crate) fn has_one_controller(object: &Object) -> bool {
    let owners = object.meta().owner_references;
    owners.iter().filter(|owner| owner.controller()).count() <= 1
}

fn quoted(path: String, found: &str, why: &str) -> Violation {
    Violation::invalid(path, format_args!("{found:?}"), why)
}

fn path_of(map: &str, key: &str) -> String {
    let mut path = Path::default();
    path.enter_field("metadata");
    path.enter_field(map);
    path.enter_key(key);
    path.to_string()
}

fn check_project(object: &Object) -> Option<Violation> {
    let (kind, project) = (object.kind(), object.project());
    let path = "metadata.project";
    match (kind.cluster_scoped(), project) {
        (false, "") => Some(Violation::required(path, "say which project the resource belongs to")),
        (true, project) if !project.is_empty() && project != SYSTEM_PROJECT => {
            let why = format!("a {} belongs to no project: remove it", kind.kind());
            Some(Violation::forbidden(path, &why))
        }
        (true | false, _) => None,
    }
}

fn check_labels(object: &Object, found: &mut Findings) {
    for (key, value) in object.labels() {
        if !is_qualified_name(key) {
            found.report(|| quoted(path_of("labels", key), key, QUALIFIED_NAME_RULE));
        }
        if !is_label_value(value) {
            found.report(|| quoted(path_of("labels", key), value, LABEL_VALUE_RULE));
        }
    }
}

fn check_annotations(object: &Object, found: &mut Findings) {
    let annotations = object.annotations();
    for key in annotations.keys().filter(|key| !is_qualified_name(key)) {
        found.report(|| quoted(path_of("annotations", key), key, QUALIFIED_NAME_RULE));
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if ANNOTATIONS_BYTES_MAX < size {
        found.report(|| Violation::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX));
    }
}
