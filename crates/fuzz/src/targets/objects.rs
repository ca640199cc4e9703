//! Objects in every language in which they are written.
use orrery_api::{
    DecodeOptions, JSON_BYTES_MAX, JsonOptions, Kind, Object, Scheme, parse_json, parse_manifests,
    value_to_yaml,
};
use orrery_hub::ownership::{Managers, from_bytes, to_bytes};
use orrery_hub::patch::Patch;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Our own kinds, with everything that a server knows of them.
pub fn scheme() -> &'static Scheme {
    static SCHEME: OnceLock<Scheme> = OnceLock::new();
    SCHEME.get_or_init(|| {
        let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
        orrery_server::rules(builder).build().expect("our own kinds")
    })
}

/// A kind that the first byte chooses, and the rest.
fn kind_and_rest(bytes: &[u8]) -> Option<(&'static Arc<Kind>, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let kinds = scheme().kinds().count();
    Some((scheme().kinds().nth(usize::from(*first) % kinds)?, rest))
}

/// What is read as JSON is the same when it is written and read again.
pub fn json(bytes: &[u8]) {
    let Ok(value) = parse_json(bytes) else { return };
    assert!(bytes.len() <= JSON_BYTES_MAX);
    let text = value.to_string();
    let again = parse_json(text.as_bytes()).expect("what we wrote ourselves");
    assert_eq!(again, value);
}

/// Manifests are read or refused with places that are in them; as YAML they stay the same.
pub fn manifest(bytes: &[u8]) {
    let Ok(manifests) = parse_manifests("fuzz", bytes) else { return };
    for manifest in manifests {
        let text = value_to_yaml(&manifest.value);
        let again = parse_manifests("again", text.as_bytes()).expect("our own YAML");
        let [again] = again.as_slice() else { panic!("one document became several: {text}") };
        assert_eq!(again.value, manifest.value, "{text}");
        assert!(!manifest.at("metadata.name").is_empty());
        // Whatever it says it is, it is read or refused.
        let _ = scheme().read_value(&manifest.value, &DecodeOptions::default());
    }
}

/// What is read as an object survives JSON and protobuf, defaults and checks.
pub fn object(bytes: &[u8]) {
    let Ok(value) = parse_json(bytes) else { return };
    for kind in scheme().kinds() {
        let options = DecodeOptions::lenient();
        let Ok(decoded) = Object::from_json_value(kind, &value, &options) else { continue };
        let mut object = decoded.object;
        let shown = object.to_json_value(&JsonOptions::rest());
        let again = Object::from_json_value(kind, &shown, &DecodeOptions::default());
        let again = again.expect("what we wrote ourselves").object;
        assert_eq!(again.to_json_value(&JsonOptions::rest()), shown);
        let stored = Object::decode(kind, &object.encode()).expect("our own bytes");
        assert_eq!(stored.to_json_value(&JsonOptions::rest()), shown);
        object.default();
        let once = object.to_json_value(&JsonOptions::rest());
        object.default();
        assert_eq!(object.to_json_value(&JsonOptions::rest()), once, "defaults are idempotent");
        let _ = object.validate(None);
    }
}

/// Bytes of any kind are decoded or refused, and what was decoded can be shown.
pub fn protobuf(bytes: &[u8]) {
    let Some((kind, rest)) = kind_and_rest(bytes) else { return };
    let Ok(object) = Object::decode(kind, rest) else { return };
    let again = Object::decode(kind, &object.encode()).expect("our own bytes");
    assert_eq!(again.encode(), object.encode());
    let _ = object.to_json(&JsonOptions::rest());
    let _ = object.validate(None);
}

/// What was converted stays the same however often it goes there and back.
pub fn version(bytes: &[u8]) {
    let Ok(value) = parse_json(bytes) else { return };
    for kind in scheme().kinds().filter(|kind| kind.spoke_of().is_some()) {
        let read = Object::from_json_value(kind, &value, &DecodeOptions::lenient());
        let Ok(Ok(hub)) = read.map(|decoded| scheme().to_hub(&decoded.object)) else { continue };
        let spoke = scheme().from_hub(&hub, kind).expect("every version shows every object");
        let again = scheme().to_hub(&spoke).expect("what we wrote ourselves");
        let shown = |object: &Object| object.to_json_value(&JsonOptions::rest());
        assert_eq!(shown(&again), shown(&hub), "{}", kind.api_version());
    }
}

/// Sets of fields are read as far as they can be, and what was read is written and read again.
pub fn managed_fields(bytes: &[u8]) {
    let Ok(value) = parse_json(bytes) else { return };
    let Some(kind) = scheme().by_full_name("orrery.apps.v1.Workload") else { return };
    let entry = serde_json::json!({
        "manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": value,
    });
    let object = serde_json::json!({"metadata": {"name": "a", "managedFields": [entry]}});
    let options = DecodeOptions::lenient();
    let Ok(decoded) = Object::from_json_value(kind, &object, &options) else { return };
    for entry in Managers::of(&decoded.object).entries {
        assert_eq!(from_bytes(&to_bytes(&entry.fields)), Some(entry.fields.clone()));
        assert!(entry.fields.paths().iter().all(|path| path.starts_with(['.', '['])));
    }
}

/// A patch applies or is refused; it never brings down what it is applied to.
pub fn patch(bytes: &[u8]) {
    let Ok(value) = parse_json(bytes) else { return };
    let Some(kind) = scheme().by_full_name("orrery.apps.v1.Workload") else { return };
    let object = Object::new(kind);
    let document: Value = serde_json::from_str(super::WORKLOAD).expect("a document");
    for patch in [Patch::merge(value.clone()), Patch::json(value.clone())].into_iter().flatten() {
        if let Ok(patched) = patch.apply_to(document.clone(), &object) {
            let _ = Object::from_json_value(kind, &patched, &DecodeOptions::lenient());
        }
    }
}
