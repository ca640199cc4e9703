use super::*;
use proptest::prelude::*;

fn mk_envelope(api_version: &str, kind: &str, raw: Vec<u8>) -> Vec<u8> {
    let type_meta = TypeMeta { api_version: api_version.into(), kind: kind.into() };
    let unknown = Unknown { type_meta: Some(type_meta), raw };
    [MAGIC, &unknown.encode_to_vec()].concat()
}

#[test]
fn a_namespace_reads_as_its_json() {
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let metadata = Metadata { name: "demo".into(), labels, ..Metadata::default() };
    let raw = Namespace { metadata: Some(metadata) }.encode_to_vec();
    let value = Envelope::open(&mk_envelope("v1", "Namespace", raw)).expect("opens").to_value();
    assert_eq!(
        value.expect("a namespace"),
        json!({
            "metadata": { "name": "demo", "labels": { "team": "a" } },
            "apiVersion": "v1", "kind": "Namespace",
        })
    );
}

#[test]
fn an_access_review_reads_as_its_json() {
    let asked = ResourceAttributes {
        verb: "get".into(),
        resource: "workloads".into(),
        ..ResourceAttributes::default()
    };
    let spec = AccessSpec { resource: Some(asked), other: None };
    let raw = AccessReview { spec: Some(spec) }.encode_to_vec();
    let bytes = mk_envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", raw);
    let value = Envelope::open(&bytes).expect("opens").to_value().expect("a review");
    assert_eq!(
        value["spec"],
        json!({ "resourceAttributes": { "verb": "get", "resource": "workloads" } })
    );
}

#[test]
fn other_kinds_are_refused_with_a_way_out() {
    let failure = Envelope::open(&mk_envelope("v1", "Pod", Vec::new())).expect("opens").to_value();
    let failure = failure.expect_err("a pod is no kind of ours");
    assert_eq!(failure.code.as_u16(), 415);
    assert!(failure.message.contains("application/json"), "{}", failure.message);
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..256), magic: bool) {
        let bytes = if magic { [MAGIC, &bytes].concat() } else { bytes };
        if let Err(failure) = Envelope::open(&bytes).and_then(|envelope| envelope.to_value()) {
            prop_assert!(matches!(failure.code.as_u16(), 400 | 415));
        }
    }
}
