//! What every definition must hold, checked over all kinds that are registered.
use orrery_api::{Element, Kind, MessageSchema, Schema, Shape};

use crate::support::scheme;

/// All messages of a kind with the place they are reached from: its spec and all in it.
fn spec_messages(kind: &Kind) -> Vec<&MessageSchema> {
    let schema = kind.schema();
    let Some(spec) = schema.root().field_by_json_name("spec") else { return Vec::new() };
    let mut found: Vec<&MessageSchema> = Vec::new();
    let mut next = vec![spec.shape.element()];
    while let Some(element) = next.pop() {
        let Element::Message(id) = element else { continue };
        let message = schema.message(id);
        if found.iter().any(|known| known.descriptor == message.descriptor) {
            continue;
        }
        next.extend(message.fields.iter().map(|field| field.shape.element()));
        found.push(message);
    }
    found
}

/// proves: HUB-01
#[test]
fn absent_and_zero_differ_in_every_spec() {
    for kind in scheme().all_kinds() {
        for field in spec_messages(kind).iter().flat_map(|message| &message.fields) {
            let scalar = matches!(field.shape, Shape::Single(Element::Scalar(_)));
            assert!(
                !scalar || field.descriptor.supports_presence(),
                "{} must be optional",
                field.descriptor.full_name()
            );
        }
    }
}

/// proves: HUB-01
#[test]
fn kinds_have_the_common_shape() {
    let names: Vec<&str> = scheme().kinds().map(|kind| kind.kind()).collect();
    for expected in ["Project", "Event", "Node", "Workload", "WorkloadInstance", "Gadget"] {
        assert!(names.contains(&expected), "{expected} is registered");
    }
    for kind in scheme().all_kinds() {
        let fields: Vec<&str> =
            kind.schema().root().fields.iter().map(|field| field.json_name.as_str()).collect();
        assert_eq!(fields[..4], ["apiVersion", "kind", "metadata", "spec"], "{kind:?}");
        assert_eq!(fields.get(4), kind.has_status().then_some(&"status"), "{kind:?}");
    }
}

#[test]
fn every_kind_and_every_field_has_a_comment() {
    for message in scheme().all_kinds().flat_map(|kind| kind.schema().messages()) {
        assert!(!message.doc.is_empty(), "{} has no comment", message.descriptor.full_name());
        for field in &message.fields {
            assert!(!field.doc.is_empty(), "{} has no comment", field.descriptor.full_name());
        }
    }
}

#[test]
fn lists_of_messages_say_what_they_are() {
    for message in scheme().all_kinds().flat_map(|kind| kind.schema().messages()) {
        for field in &message.fields {
            let list = matches!(field.shape, Shape::List(Element::Message(_)));
            let said = field.rules.set || field.rules.atomic || field.key().is_some();
            assert!(!list || said, "{}: set, key or atomic?", field.descriptor.full_name());
        }
    }
}

#[test]
fn comments_and_patterns_are_compiled() {
    let workload = scheme().resolve("", "workload").expect("known");
    let folder = workload.schema().field("spec.process.workingDirectory").expect("a field");
    assert!(folder.doc.starts_with("Folder to start in"), "{}", folder.doc);
    let pattern = folder.pattern.as_ref().expect("a pattern");
    assert!(pattern.is_match("/tmp") && !pattern.is_match("tmp"));
    assert_eq!(
        orrery_api::message_doc(workload.descriptor()),
        "Workload is a program that should run on some of the nodes."
    );
    let root: &MessageSchema = workload.schema().message(Schema::ROOT);
    assert_eq!(orrery_api::field_doc(&root.fields[3].descriptor), "What is asked for.");
}

/// proves: HUB-01
#[test]
fn what_is_referred_to_exists_and_is_named() {
    for message in scheme().all_kinds().flat_map(|kind| kind.schema().messages()) {
        for field in message.fields.iter().filter(|field| !field.rules.refers_to.is_empty()) {
            let named = scheme().resolve("", &field.rules.refers_to);
            assert!(named.is_ok(), "{}: {named:?}", field.descriptor.full_name());
            let text = Element::Scalar(orrery_api::Scalar::String);
            assert_eq!(field.shape.element(), text, "{}", field.descriptor.full_name());
        }
    }
}

#[test]
fn a_scheme_is_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<orrery_api::Scheme>();
    check::<orrery_api::Object>();
}
