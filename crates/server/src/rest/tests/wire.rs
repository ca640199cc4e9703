use super::metadata::Time;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

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

#[track_caller]
fn check(api_version: &str, kind: &str, raw: Vec<u8>, expect: Value) {
    let value = Envelope::open(&mk_envelope(api_version, kind, raw)).expect("opens").to_value();
    let mut value = value.expect("it is read");
    value.as_object_mut().expect("an object").retain(|key, _| key != "apiVersion" && key != "kind");
    assert_eq!(value, expect);
}

/// A quarter of a second after the first second of 2026.
const TIME: Time = Time { seconds: 1_767_225_601, nanos: 250_000_000 };

#[test]
fn a_lease_reads_as_its_json() {
    let spec = lease::Spec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(15),
        renew_time: Some(TIME),
        lease_transitions: Some(0),
        ..<_>::default()
    };
    let metadata = Metadata {
        name: "ctl.example.com".into(),
        namespace: "demo".into(),
        resource_version: "7".into(),
        finalizers: vec!["example.com/a".into()],
        ..Metadata::default()
    };
    let raw = lease::Lease { metadata: Some(metadata), spec: Some(spec) }.encode_to_vec();
    let expect = json!({
        "metadata": {
            "name": "ctl.example.com", "namespace": "demo", "resourceVersion": "7",
            "finalizers": ["example.com/a"],
        },
        // Who lets go of it says so: nobody holds it.
        "spec": {
            "holderIdentity": "", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "renewTime": "2026-01-01T00:00:01.250000Z",
        },
    });
    check("coordination.k8s.io/v1", "Lease", raw, expect);
}

#[test]
fn events_read_as_their_json() {
    let about = || {
        let (kind, name) = ("Workload".into(), "web".into());
        Some(events::Reference { kind, name, ..<_>::default() })
    };
    let source = || Some(events::Source { component: "ctl".into() });
    let core = events::CoreEvent {
        involved_object: about(),
        reason: "R".into(),
        source: source(),
        first: Some(Time::default()),
        last: Some(TIME),
        count: 2,
        ..<_>::default()
    };
    let expect = json!({
        "metadata": {}, "involvedObject": { "kind": "Workload", "name": "web" }, "reason": "R",
        "source": { "component": "ctl" }, "firstTimestamp": null,
        "lastTimestamp": "2026-01-01T00:00:01.250000Z", "count": 2,
    });
    check("v1", "Event", core.encode_to_vec(), expect);
    let group = events::GroupEvent {
        regarding: about(),
        reason: "R".into(),
        note: "n".into(),
        controller: "ctl".into(),
        at: Some(TIME),
        series: Some(events::Series { count: 3, last: Some(TIME) }),
        ..<_>::default()
    };
    let time = "2026-01-01T00:00:01.250000Z";
    let expect = json!({
        "metadata": {}, "regarding": { "kind": "Workload", "name": "web" }, "reason": "R", "note": "n",
        "reportingController": "ctl", "eventTime": time, "deprecatedCount": 0,
        "series": { "count": 3, "lastObservedTime": time },
    });
    check("events.k8s.io/v1", "Event", group.encode_to_vec(), expect);
}

#[test]
fn reviews_read_as_their_json() {
    let asked = reviews::ResourceAttributes {
        verb: "get".into(),
        resource: "workloads".into(),
        ..<_>::default()
    };
    let own = reviews::AccessSpec { resource: Some(asked.clone()), ..<_>::default() };
    let others = reviews::AccessSpec {
        resource: Some(asked),
        user: "ann".into(),
        groups: vec!["ops".into()],
        ..<_>::default()
    };
    let path = reviews::NonResourceAttributes { path: "/metrics".into(), verb: "get".into() };
    let of_path = reviews::AccessSpec { other: Some(path), user: "ann".into(), ..<_>::default() };
    let what = json!({ "verb": "get", "resource": "workloads" });
    let group = "authorization.k8s.io/v1";
    for (kind, spec, expect) in [
        ("SelfSubjectAccessReview", own, json!({ "resourceAttributes": what })),
        (
            "LocalSubjectAccessReview",
            others,
            json!({ "user": "ann", "groups": ["ops"], "resourceAttributes": what }),
        ),
        (
            "SubjectAccessReview",
            of_path,
            json!({ "user": "ann", "nonResourceAttributes": { "path": "/metrics", "verb": "get" } }),
        ),
    ] {
        let raw = reviews::AccessReview { spec: Some(spec) }.encode_to_vec();
        check(group, kind, raw, json!({ "spec": expect }));
    }
    let spec = reviews::TokenSpec { token: "t".into(), audiences: vec!["a".into()] };
    let raw = reviews::TokenReview { spec: Some(spec) }.encode_to_vec();
    let expect = json!({ "spec": { "token": "t", "audiences": ["a"] } });
    check("authentication.k8s.io/v1", "TokenReview", raw, expect);
}

#[test]
fn options_of_deletions_read_as_their_json() {
    let options = DeleteOptions { orphan: Some(true), ..<_>::default() };
    let expect = json!({ "dryRun": [], "preconditions": {}, "orphanDependents": true });
    check("meta.k8s.io/v1", "DeleteOptions", options.encode_to_vec(), expect);
    let wanted = Preconditions { uid: Some("u".into()), resource_version: Some("7".into()) };
    let options = DeleteOptions {
        preconditions: Some(wanted),
        propagation: Some("Foreground".into()),
        dry_run: vec!["All".into()],
        ..<_>::default()
    };
    let expect = json!({
        "dryRun": ["All"], "propagationPolicy": "Foreground",
        "preconditions": { "uid": "u", "resourceVersion": "7" },
    });
    check("v1", "DeleteOptions", options.encode_to_vec(), expect);
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
