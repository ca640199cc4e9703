//! Objects: what they keep, what equals what, and what is hidden.
use orrery_api::{Encoded, Form, JsonOptions, Object, ObjectError};
use orrery_proto::apps::v1::Workload;
use orrery_testkit::v1::{Gadget, GadgetSpec};
use serde_json::json;

use crate::support::{gadget_kind, kind, mk, mk_gadget};

/// A field 100 with the text "new", as a newer server would write it.
pub const UNKNOWN: &[u8] = &[0xa2, 0x06, 0x03, b'n', b'e', b'w'];

fn unknown_in_root(object: &Object) -> usize {
    object.record().unknown().count()
}

/// proves: HUB-01
#[test]
fn fields_of_newer_servers_are_kept() {
    let mut bytes = mk_gadget(json!({"mode": "idle"})).encode();
    bytes.extend_from_slice(UNKNOWN);
    let mut object = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
    object.update_meta(|meta| meta.uid = "u".to_owned());
    object.default();
    object.clear_status();
    let again = Object::decode(&gadget_kind(), &object.encode()).expect("a gadget");
    assert_eq!(unknown_in_root(&again), 1);
    assert_eq!(again, object);
}

#[test]
fn metadata_keeps_what_this_server_does_not_know() {
    // Metadata {name: "g", field 100: "new"} as field 3 of the object.
    let mut metadata = vec![0x0a, 1, b'g'];
    metadata.extend_from_slice(UNKNOWN);
    let mut bytes = vec![0x1a, u8::try_from(metadata.len()).expect("short")];
    bytes.extend(metadata);
    let mut object = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
    object.update_meta(|meta| {
        meta.generation = 3;
        meta.labels.insert("a".to_owned(), "b".to_owned());
    });
    assert_eq!((object.name(), object.generation(), object.label("a")), ("g", 3, Some("b")));
    object.update_meta(|meta| meta.labels.clear());
    assert_eq!(object.labels().len(), 0);
    assert!(object.encode().windows(UNKNOWN.len()).any(|window| window == UNKNOWN));
}

#[test]
fn accessors_read_metadata() {
    let gadget = mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget",
        "metadata": {
            "name": "g", "project": "p", "uid": "u", "resourceVersion": "7", "generation": 2,
            "labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["f"],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    }));
    assert_eq!((gadget.name(), gadget.project(), gadget.uid()), ("g", "p", "u"));
    assert_eq!((gadget.resource_version(), gadget.generation()), ("7", 2));
    assert_eq!(
        (gadget.label("a"), gadget.annotation("b"), gadget.label("b")),
        (Some("1"), Some("2"), None)
    );
    let encoded = Encoded::from(gadget.clone());
    assert_eq!(
        (encoded.label("a"), encoded.annotation("b"), encoded.label("b")),
        (Some("1"), Some("2"), None)
    );
    assert_eq!(gadget.finalizers(), ["f"]);
    let created = gadget.creation_timestamp().expect("a time").to_string();
    assert_eq!(created, "2026-01-01T00:00:00Z");
    assert_eq!(gadget.deletion_timestamp(), None);
    assert_eq!(gadget.meta().resource_version, "7");
}

#[test]
fn typed_views_check_their_type() {
    let gadget = mk_gadget(json!({"mode": "idle"}));
    let typed: Gadget = gadget.typed().expect("a gadget");
    assert_eq!(typed.spec.as_ref().map(GadgetSpec::mode), Some("idle"));
    assert_eq!(Object::from_typed(&gadget_kind(), &typed), Ok(gadget.clone()));
    let wrong = gadget.typed::<Workload>().expect_err("not a workload");
    assert_eq!(wrong.to_string(), "a orrery.testkit.v1.Gadget is not a orrery.apps.v1.Workload");
    let wrong = Object::from_typed(&kind("Workload"), &typed).expect_err("not a workload");
    assert!(matches!(wrong, ObjectError::OtherType { .. } | ObjectError::Decode { .. }), "{wrong}");
}

#[test]
fn bad_bytes_are_refused() {
    let error = Object::decode(&gadget_kind(), b"\xff\xff").expect_err("not protobuf");
    assert!(error.to_string().starts_with("bytes are not a Gadget: "), "{error}");
}

#[test]
fn the_type_follows_the_kind_and_not_the_bytes() {
    let typed = Gadget { api_version: "other/v9".into(), kind: "Odd".into(), ..Default::default() };
    let object = Object::from_typed(&gadget_kind(), &typed).expect("a gadget");
    let json = object.to_json_value(&JsonOptions::default());
    assert_eq!(
        (&json["apiVersion"], &json["kind"]),
        (&json!("testkit.orrery.dev/v1"), &json!("Gadget"))
    );
}

#[test]
fn sets_compare_without_order() {
    let gadget = |zones: &[&str], samples: &[i64]| {
        mk_gadget(json!({ "zones": zones, "samples": samples, "exclusions": [{"verb": "a"}] }))
    };
    let one = gadget(&["a", "b"], &[1, 2]);
    let two = gadget(&["b", "a"], &[1, 2]);
    assert!(one.same_spec(&two) && one.same(&two));
    assert_ne!(one, two, "equality keeps the order");
    assert!(!one.same_spec(&gadget(&["a", "b"], &[2, 1])), "other lists have an order");
    assert!(!one.same_spec(&gadget(&["a", "a"], &[1, 2])));
    assert!(!one.same_spec(&gadget(&["a"], &[1, 2])));
}

#[test]
fn absent_and_zero_differ_in_a_spec_and_not_in_a_status() {
    let absent = mk_gadget(json!({}));
    let zero = mk_gadget(json!({"enabled": false}));
    assert!(!absent.same_spec(&zero));
    let typed = Gadget { status: Some(Default::default()), ..absent.typed().expect("a gadget") };
    let one = Object::from_typed(&gadget_kind(), &typed).expect("a gadget");
    let mut two = one.clone();
    two.set_at("status.ready", orrery_api::Value::Bool(false)).expect("a field");
    assert!(one.same_status(&two) && one == two);
}

#[test]
fn parts_are_replaced_and_copied() {
    let mut one = mk_gadget(json!({"mode": "idle"}));
    let two = mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget",
        "metadata": {"name": "h", "project": "p"},
        "spec": {"mode": "burst"}, "status": {"phase": "Working"},
    }));
    one.copy_status_from(&two).expect("the same kind");
    assert!(one.same_status(&two) && !one.same_spec(&two));
    one.copy_spec_from(&two).expect("the same kind");
    assert!(one.same_spec(&two));
    one.clear_status();
    assert_eq!(one.status(), None);
    one.share_status_of(&two).expect("the same definition");
    assert!(one.same_status(&two));
    let refused = one.share_status_of(&Object::instantiate(&kind("Node"))).expect_err("another");
    assert_eq!(
        refused.to_string(),
        "a orrery.infra.v1.NodeStatus is not a orrery.testkit.v1.GadgetStatus"
    );
    assert!(one.copy_status_from(&Object::instantiate(&kind("Node"))).is_err());
}

#[test]
fn sensitive_fields_are_hidden() {
    let gadget = mk_gadget(json!({"token": "secret-token", "mode": "idle"}));
    let shown = gadget.redacted().to_json(&JsonOptions::default());
    assert!(!shown.contains("secret-token") && shown.contains("idle"), "{shown}");
    assert!(gadget.to_json(&JsonOptions::default()).contains("secret-token"));
    let short = mk_gadget(json!({"token": "secret"}));
    let messages = format!("{:?}", short.validate(None));
    assert!(messages.contains("spec.token") && !messages.contains("\"secret\""), "{messages}");
}

/// What several holders of one object ask for is made once.
#[test]
fn a_form_is_written_once() {
    let encoded = Encoded::from(mk_gadget(json!({"mode": "idle"})));
    let form = |number| Form { name: "json".into(), number };
    let made = std::cell::Cell::new(0);
    let write = |encoded: &Encoded, number| {
        let make = || {
            made.set(made.get() + 1);
            Ok::<_, ObjectError>(format!("{number}").into())
        };
        encoded.form(&form(number), make).expect("it is written")
    };
    let first = write(&encoded, 1);
    let again = write(&encoded.clone(), 1);
    assert_eq!((first.as_ptr(), made.get()), (again.as_ptr(), 1), "the same bytes");
    assert_eq!((write(&encoded, 2).as_ref(), made.get()), (b"2".as_ref(), 2));
    // Beyond what is kept it is still written right.
    (0..40).for_each(|number| drop(write(&encoded, number)));
    assert_eq!(write(&encoded, 39).as_ref(), b"39");
}

/// So is the typed object; whoever wants another type is told that it is none.
#[test]
fn a_typed_object_is_decoded_once() {
    let encoded = Encoded::from(mk_gadget(json!({"mode": "idle"})));
    let first = encoded.typed_shared::<Gadget>().expect("a gadget");
    let again = encoded.clone().typed_shared::<Gadget>().expect("a gadget");
    assert!(std::sync::Arc::ptr_eq(&first, &again), "the same object");
    assert_eq!(*first, encoded.typed::<Gadget>().expect("a gadget"));
    assert!(encoded.typed_shared::<Workload>().is_err());
}
