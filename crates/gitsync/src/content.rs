//! What an object says, in the one form by which git and the system are compared.
use orrery_api::{JsonOptions, Object, ProjectKey, value_to_yaml};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Annotations in which tools keep notes of their own; they are no part of what an object says.
const NOTES: &[&str] =
    &["kubectl.kubernetes.io/last-applied-configuration", "orrery.dev/applied-by"];

/// Hexadecimal digits of a digest: 128 bits, which nobody meets by chance.
const DIGEST_DIGITS: usize = 32;

/// Files beside an object: the path, and the SHA-256 of the content.
pub type Files = BTreeMap<String, String>;

/// An object without what only the system writes: status, identity, finalizers, owners, lineage, and the
/// project, which is that of the sync.
pub fn canonical(object: &Object) -> Value {
    let mut said = object.clone();
    said.clear_server_owned();
    said.take_lineage();
    said.clear_status();
    said.set_project("");
    said.update_meta(|meta| {
        meta.finalizers.clear();
        meta.owner_references.clear();
        meta.generate_name.clear();
        meta.annotations.retain(|key, _| !NOTES.contains(&key.as_str()));
    });
    let mut value = said.to_json_value(&JsonOptions { project_key: ProjectKey::Project });
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    }
    value
}

/// One number for what an object and the files beside it say.
pub fn digest(value: &Value, files: &Files) -> String {
    let mut hash = Sha256::new();
    hash.update(sorted(value).to_string());
    for (path, content) in files {
        hash.update(format!("\n{path}\n{content}"));
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..DIGEST_DIGITS].to_owned()
}

/// SHA-256 of a file, as artifacts have it.
pub fn file_digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The order of members has no meaning.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let ordered: BTreeMap<&String, &Value> = members.iter().collect();
            Value::Object(ordered.into_iter().map(|(k, v)| (k.clone(), sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        leaf => leaf.clone(),
    }
}

/// As a document of YAML, with labels and other maps in order.
pub fn yaml(value: &Value) -> String {
    let mut text = value_to_yaml(&maps_sorted(value));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// As a file of JSON.
pub fn json(value: &Value) -> String {
    let text = serde_json::to_string_pretty(&maps_sorted(value));
    format!("{}\n", text.expect("a value is always JSON"))
}

/// Type, metadata and spec stand in the order of the definition; what is below follows the alphabet, so that
/// the same object is always the same text.
fn maps_sorted(value: &Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    Value::Object(members.iter().map(|(key, value)| (key.clone(), below(value))).collect())
}

fn below(value: &Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    Value::Object(members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_api::{DecodeOptions, Scheme};
    use serde_json::json;

    fn secret(value: Value) -> Object {
        let kind = Scheme::builtin().expect("our kinds").resolve("", "Secret").expect("it is one");
        Object::from_json_value(&kind, &value, &DecodeOptions::default()).expect("it fits").object
    }

    #[test]
    fn what_only_the_system_writes_is_left_out() {
        let object = secret(json!({
            "metadata": {
                "name": "a", "project": "p", "uid": "u", "resourceVersion": "7",
                "finalizers": ["a.dev/x"], "labels": {"z": "1", "a": "2"},
                "annotations": {"orrery.dev/lineage": "x", "orrery.dev/applied-by": "apply"},
            },
            "spec": {"type": "opaque"},
        }));
        let said = canonical(&object);
        assert_eq!(said["metadata"], json!({"name": "a", "labels": {"z": "1", "a": "2"}}));
        let text = yaml(&said);
        assert!(text.starts_with("apiVersion: core.orrery.dev/v1\nkind: Secret\n"), "{text}");
        assert!(text.find("a: ").unwrap() < text.find("z: ").unwrap(), "{text}");
    }

    #[test]
    fn order_has_no_meaning_and_files_have() {
        let (one, two) =
            (json!({"a": 1, "b": {"c": 2, "d": 3}}), json!({"b": {"d": 3, "c": 2}, "a": 1}));
        let none = Files::new();
        assert_eq!(digest(&one, &none), digest(&two, &none));
        assert_ne!(digest(&one, &none), digest(&json!({"a": 2}), &none));
        let file = Files::from([("f".to_owned(), file_digest(b"x"))]);
        assert_ne!(digest(&one, &none), digest(&one, &file));
    }
}
