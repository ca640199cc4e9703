//! Rules of metadata that depend on the kind or on several fields.
//!
//! What the server owns (uid, resource version, timestamps) needs not be right on input: the
//! server replaces it.
use super::{
    is_label_value, is_qualified_name,
    rules::{LABEL_VALUE_RULE, QUALIFIED_NAME_RULE},
};
use crate::{object::Object, scheme::SYSTEM_PROJECT, violation::Violation};

/// All annotations of one object, keys and values: they are for notes of tools, not for data.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

pub(super) fn validate(object: &Object) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(check_project(object));
    check_labels(object, &mut found);
    check_annotations(object, &mut found);
    for (index, finalizer) in object.finalizers().into_iter().enumerate() {
        if !is_qualified_name(finalizer) {
            let path = format!("metadata.finalizers[{index}]");
            let shown = format!("{finalizer:?}");
            found.push(Violation::invalid(path, shown, QUALIFIED_NAME_RULE));
        }
    }
    found
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

fn check_labels(object: &Object, found: &mut Vec<Violation>) {
    for (key, value) in object.labels() {
        let path = format!("metadata.labels[{key}]");
        if !is_qualified_name(key) {
            found.push(Violation::invalid(&path, format_args!("{key:?}"), QUALIFIED_NAME_RULE));
        }
        if !is_label_value(value) {
            found.push(Violation::invalid(&path, format_args!("{value:?}"), LABEL_VALUE_RULE));
        }
    }
}

fn check_annotations(object: &Object, found: &mut Vec<Violation>) {
    let annotations = object.annotations();
    for key in annotations.keys() {
        if !is_qualified_name(key) {
            let path = format!("metadata.annotations[{key}]");
            found.push(Violation::invalid(path, format_args!("{key:?}"), QUALIFIED_NAME_RULE));
        }
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if ANNOTATIONS_BYTES_MAX < size {
        found.push(Violation::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX));
    }
}
