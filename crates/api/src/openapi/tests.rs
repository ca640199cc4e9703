use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Document, documents, swagger};
use crate::scheme::Scheme;

fn mk_scheme() -> Scheme {
    Scheme::builtin().expect("our own kinds")
}

fn mk_document(path: &str) -> Value {
    let found = documents(&mk_scheme()).into_iter().find(|document| document.path == path);
    found.expect("the document").value
}

/// All references in a description.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                found.insert(target.clone());
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[track_caller]
fn check_references(document: &Value) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let pointer = target.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
    }
}

/// proves: HUB-18
#[test]
fn every_kind_is_described_and_every_reference_leads_somewhere() {
    let scheme = mk_scheme();
    let all: Vec<Document> = documents(&scheme);
    for document in &all {
        check_references(&document.value);
    }
    let swagger = swagger(&scheme);
    check_references(&swagger);
    for kind in scheme.kinds() {
        let path = format!("apis/{}", kind.api_version());
        let document = all.iter().find(|document| document.path == path).expect("its document");
        let schema = &document.value["components"]["schemas"][kind.full_name()];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], kind.kind());
        assert_eq!(swagger["definitions"][kind.full_name()]["type"], "object", "{kind:?}");
    }
}

#[test]
fn rules_and_comments_are_in_the_schema() {
    let document = mk_document("apis/apps.orrery.dev/v1");
    let schemas = &document["components"]["schemas"];
    let spec = &schemas["orrery.apps.v1.WorkloadSpec"];
    assert_eq!(spec["required"], json!(["placement"]));
    let policy = &spec["properties"]["restartPolicy"];
    assert_eq!(policy["enum"], json!(["always", "onFailure", "never"]));
    assert_eq!(policy["default"], "always");
    assert!(policy["description"].as_str().expect("words").starts_with("When it is started again"));
    let grace = &spec["properties"]["stopGraceSeconds"];
    assert_eq!((&grace["minimum"], &grace["maximum"]), (&json!(0), &json!(3600)));
    let nodes = &schemas["orrery.apps.v1.Placement"]["properties"]["nodes"];
    assert_eq!(nodes["x-kubernetes-list-type"], "set");
    assert_eq!(nodes["maxItems"], 1024);
    assert_eq!(nodes["items"]["maxLength"], 63);
    let conditions = &schemas["orrery.apps.v1.WorkloadStatus"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    let metadata = &schemas["orrery.meta.v1.ObjectMeta"]["properties"];
    assert!(metadata.get("namespace").is_some() && metadata.get("project").is_none());
}

#[test]
fn the_operation_that_kubectl_looks_for_is_there() {
    let cases = [
        (
            "apis/apps.orrery.dev/v1",
            "/apis/apps.orrery.dev/v1/namespaces/{namespace}/workloads/{name}",
            "Workload",
        ),
        ("apis/core.orrery.dev/v1", "/apis/core.orrery.dev/v1/projects/{name}", "Project"),
        ("api/v1", "/api/v1/namespaces/{name}", "Namespace"),
    ];
    for (document, path, kind) in cases {
        let patch = &mk_document(document)["paths"][path]["patch"];
        assert_eq!(patch["x-kubernetes-action"], "patch", "{path}");
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], kind);
        let names = patch["parameters"].as_array().expect("a list").iter();
        let names = names.filter_map(|parameter| parameter["name"].as_str()).collect::<Vec<_>>();
        let all = ["dryRun", "fieldManager", "fieldValidation", "force", "includeLineage"];
        assert_eq!(names, all);
    }
}

#[test]
fn operation_ids_are_unique() {
    let swagger = swagger(&mk_scheme());
    let mut seen = BTreeSet::new();
    for item in swagger["paths"].as_object().expect("paths").values() {
        for operation in item.as_object().expect("a path").values() {
            if let Some(id) = operation["operationId"].as_str() {
                assert!(seen.insert(id.to_owned()), "{id} stands twice");
            }
        }
    }
    assert!(10 < seen.len());
}

#[test]
fn what_the_server_owns_cannot_be_written() {
    let document = mk_document("apis/apps.orrery.dev/v1");
    let path = "/apis/apps.orrery.dev/v1/namespaces/{namespace}/workloadinstances/{name}";
    let item = document["paths"][path].as_object().expect("a path");
    let methods: Vec<&str> = item.keys().map(String::as_str).collect();
    assert_eq!(methods, ["parameters", "get"]);
}

/// The protobuf form holds what the JSON form holds: its texts are all in there.
#[test]
fn the_protobuf_form_says_the_same() {
    let document = swagger(&mk_scheme());
    let bytes = super::protobuf::encode(&document);
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for name in document["definitions"].as_object().expect("definitions").keys() {
        assert!(holds(name), "{name}");
    }
    for path in document["paths"].as_object().expect("paths").keys() {
        assert!(holds(path), "{path}");
    }
    assert!(holds("x-kubernetes-group-version-kind"));
    let fields = wire_fields(&bytes);
    assert_eq!(fields, [1, 2, 8, 9], "swagger, info, paths and definitions, once each");
}

/// The numbers of the fields of a message, all of which are texts or messages.
fn wire_fields(mut bytes: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (tag, kind) = prost::encoding::decode_key(&mut bytes).expect("a key");
        assert_eq!(kind, prost::encoding::WireType::LengthDelimited);
        let length = prost::encoding::decode_varint(&mut bytes).expect("a length");
        bytes = &bytes[usize::try_from(length).expect("small")..];
        found.push(tag);
    }
    found
}
