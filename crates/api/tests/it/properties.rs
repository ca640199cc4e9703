//! Laws that hold for every object and every text.
pub mod strategies;

use orrery_api::{
    DecodeOptions, Encoded, JsonOptions, Object, ObjectList, parse_json, parse_manifests,
    value_to_yaml,
};
use orrery_testkit::v1;
use proptest::prelude::*;
use prost::Message as _;

use crate::{
    objects::UNKNOWN,
    support::{gadget_kind, kind, scheme},
};
use strategies::{any_json, bundle, gadget, noise, text_like};

const STRICT: DecodeOptions = DecodeOptions { unknown_fields: orrery_api::UnknownFields::Refuse };

proptest! {
    #[test]
    fn json_gives_back_what_was_written(gadget in gadget()) {
        for options in [JsonOptions::default(), JsonOptions::rest()] {
            let text = gadget.to_json(&options);
            let read = Object::from_json(&gadget_kind(), text.as_bytes(), &STRICT);
            prop_assert_eq!(&read.expect("our own JSON").object, &gadget);
        }
    }

    #[test]
    fn yaml_gives_back_what_was_written(gadget in gadget()) {
        let text = gadget.to_yaml(&JsonOptions::default());
        let read = Object::from_yaml(&gadget_kind(), text.as_bytes(), &STRICT);
        prop_assert_eq!(&read.expect("our own YAML").object, &gadget);
    }

    #[test]
    fn protobuf_gives_back_what_was_written(gadget in gadget()) {
        let read = Object::decode(&gadget_kind(), &gadget.encode());
        prop_assert_eq!(read.expect("our own bytes"), gadget);
    }

    /// Our own bytes are read, and say the same, as those of the library that knows all definitions.
    #[test]
    fn bytes_say_what_the_library_writes(gadget in gadget()) {
        let theirs = gadget.to_message().encode_to_vec();
        let ours = gadget.encode();
        prop_assert_eq!(ours.len(), theirs.len());
        let (ours, theirs) = (v1::Gadget::decode(&*ours), v1::Gadget::decode(&*theirs));
        prop_assert_eq!(ours.expect("our own bytes"), theirs.expect("bytes"));
    }

    /// What is changed in bytes is what would have been changed in the object, whatever nobody knows.
    #[test]
    fn bytes_are_shown_as_the_object_would_be(
        gadget in gadget(), project in "[a-z]{0,6}", version in "[1-9]{0,4}", parts: bool,
    ) {
        let mut bytes = gadget.encode();
        bytes.extend_from_slice(UNKNOWN);
        if parts {
            // More metadata behind, which decoders put together: name "late".
            bytes.extend_from_slice(&[0x1a, 6, 0x0a, 4, b'l', b'a', b't', b'e']);
        }
        let mut object = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
        let shown = Encoded::at(&gadget_kind(), &bytes.into(), &version).expect("a gadget");
        object.set_resource_version(&version);
        prop_assert_eq!(&shown.clone().into_object().expect("a gadget"), &object);
        let shown = shown.in_project(&project).expect("a gadget");
        object.set_project(&project);
        prop_assert_eq!(shown.object().expect("a gadget"), &object);
        prop_assert_eq!(shown.meta().expect("metadata"), object.meta());
        prop_assert_eq!(shown.project().expect("metadata"), object.project());
        prop_assert_eq!(shown.resource_version().expect("metadata"), object.resource_version());
        prop_assert_eq!(shown.uid().expect("metadata"), object.uid());
        prop_assert_eq!(shown.is_going().expect("metadata"), object.deletion_timestamp().is_some());
        let stored = shown.stored_in("id").expect("a gadget");
        object.set_project("id");
        object.set_resource_version("");
        prop_assert_eq!(stored.resource_version().expect("metadata"), "");
        let read = Encoded::new(&gadget_kind(), stored.bytes().clone());
        prop_assert_eq!(read.object().expect("a gadget"), &object);
        prop_assert_eq!(stored.into_object().expect("a gadget"), object);
    }

    /// proves: HUB-10
    #[test]
    fn lists_give_back_what_was_written(items in prop::collection::vec(gadget(), 0..4)) {
        let mut list = ObjectList::new(&gadget_kind());
        list.items = items;
        let options = JsonOptions::rest();
        let bytes = ObjectList::decode(&gadget_kind(), &list.encode());
        prop_assert_eq!(bytes.as_ref(), Ok(&list));
        let json = ObjectList::from_json(&gadget_kind(), list.to_json(&options).as_bytes(), &STRICT);
        prop_assert_eq!(json.as_ref(), Ok(&list));
        let yaml = ObjectList::from_yaml(&gadget_kind(), list.to_yaml(&options).as_bytes(), &STRICT);
        prop_assert_eq!(yaml.as_ref(), Ok(&list));
    }

    #[test]
    fn fields_that_nobody_knows_survive_every_change(gadget in gadget(), name in "[a-z]{1,8}") {
        let mut bytes = gadget.encode();
        bytes.extend_from_slice(UNKNOWN);
        let mut object = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
        object.set_name(&name);
        object.default();
        object.copy_status_from(&gadget).expect("the same kind");
        let again = Object::decode(&gadget_kind(), &object.encode()).expect("a gadget");
        prop_assert_eq!(again.record().unknown().count(), 1);
        prop_assert_eq!(again.name(), name);
    }

    /// proves: HUB-03
    #[test]
    fn defaulting_twice_is_defaulting_once(mut gadget in gadget()) {
        gadget.default();
        let once = gadget.clone();
        gadget.default();
        prop_assert_eq!(gadget, once);
    }

    #[test]
    fn an_object_equals_itself_and_validation_never_panics(gadget in gadget()) {
        prop_assert!(gadget.same(&gadget.clone()));
        let found = gadget.validate(Some(&gadget));
        prop_assert!(found.iter().all(|violation| !violation.message.contains("immutable")));
    }

    /// proves: HUB-05
    #[test]
    fn nothing_is_lost_between_versions(gadget in gadget()) {
        for version in ["v1beta1", "v2alpha1"] {
            let other = kind(&format!("gadgets.{version}.testkit"));
            let shown = scheme().from_hub(&gadget, &other).expect("convertible");
            // The way through JSON is the way through a client.
            let text = shown.to_json(&JsonOptions::rest());
            let shown = Object::from_json(&other, text.as_bytes(), &STRICT).expect("our own JSON");
            let back = scheme().to_hub(&shown.object).expect("convertible");
            prop_assert_eq!(&back, &gadget);
        }
    }

    /// proves: HUB-05
    #[test]
    fn spokes_come_back_as_they_were_written(
        mode in proptest::option::of("[a-z]{0,4}"),
        size in proptest::option::of(0..1_000_000_i64),
        zones in proptest::option::of("[a-c, ]{0,8}"),
        note in proptest::option::of("[ -~]{0,8}"),
    ) {
        let other = kind("gadgets.v1beta1.testkit");
        let mut spoke = Object::from_typed(&other, &orrery_testkit::v1beta1::Gadget {
            spec: Some(orrery_testkit::v1beta1::GadgetSpec { mode, size_gib: size, zones, url: None, note }),
            ..Default::default()
        }).expect("a gadget");
        spoke.set_name("g");
        let hub = scheme().to_hub(&spoke).expect("convertible");
        prop_assert_eq!(scheme().from_hub(&hub, &other).expect("convertible"), spoke);
    }

    /// proves: HUB-05
    #[test]
    fn nothing_is_lost_between_one_resource_and_several(bundle in bundle()) {
        let storage = scheme().spoke(bundle.kind(), "storage").expect("registered");
        let parts = storage.from_hub(&bundle).expect("convertible");
        prop_assert_eq!(storage.to_hub(&parts).expect("convertible"), bundle);
    }

    #[test]
    fn any_json_is_read_or_refused(spec in any_json(), metadata in any_json()) {
        let value = serde_json::json!({"metadata": metadata, "spec": spec});
        let strict = Object::from_json_value(&gadget_kind(), &value, &STRICT);
        let lenient = Object::from_json_value(&gadget_kind(), &value, &DecodeOptions::lenient());
        if let Ok(read) = strict {
            prop_assert_eq!(lenient.expect("lenient reads more"), read.clone());
            read.object.validate(None);
            let again = Object::decode(&gadget_kind(), &read.object.encode());
            prop_assert_eq!(again.expect("what was read can be stored"), read.object);
        }
    }

    #[test]
    fn any_json_is_the_same_as_yaml(value in any_json()) {
        let text = value_to_yaml(&serde_json::json!({ "value": value }));
        let read = parse_manifests("f.yaml", text.as_bytes()).expect("our own YAML");
        prop_assert_eq!(&read[0].value["value"], &value, "{}", text);
    }

    #[test]
    fn no_bytes_are_too_much(bytes in noise()) {
        let _ = parse_json(&bytes);
        let _ = parse_manifests("f.yaml", &bytes);
        let _ = scheme().read_manifests("f.json", &bytes);
        if let Ok(object) = Object::decode(&gadget_kind(), &bytes) {
            object.validate(None);
            let _ = object.to_yaml(&JsonOptions::default());
        }
    }

    #[test]
    fn no_text_is_too_much(text in text_like()) {
        if let Ok(manifests) = parse_manifests("f.yaml", text.as_bytes()) {
            for manifest in manifests {
                manifest.locate("spec.zones[0]");
                let _ = scheme().read_value(&manifest.value, &DecodeOptions::lenient());
            }
        }
        let _ = orrery_api::LabelSelector::parse(&text);
        let _ = orrery_api::FieldSelector::parse(&text, &gadget_kind());
        let _ = scheme().resolve(&text, &text);
    }
}
