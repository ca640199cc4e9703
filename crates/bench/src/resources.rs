//! What is written to the hub.
use orrery_proto::apps::v1::{
    NodeSelector, Placement, Process, ResourceAmounts, Resources, Workload, WorkloadSpec,
    workload_spec::Runtime,
};
use orrery_proto::core::v1::Project;
use orrery_proto::hub::v1::{ApplyRequest, Encoding, Resource, resource::Body};
use orrery_proto::meta::v1::ObjectMeta;
use prost::Message;
use std::collections::HashMap;

/// The project that workloads are written in.
pub const PROJECT: &str = "bench";
/// Who declares the fields of an object where somebody does.
const MANAGER: &str = "bench";

/// A resource with a payload of about this size.
pub fn resource(name: &str, payload: usize, version: usize) -> ApplyRequest {
    let filler = "x".repeat(payload);
    json(format!(
        r#"{{"apiVersion":"core.orrery.dev/v1","kind":"Project","metadata":{{"name":"{name}","annotations":{{"payload":"{filler}","version":"{version}"}}}}}}"#
    ))
}

/// The same as [`resource`], as a program with its own types sends it.
pub fn typed_resource(name: &str, payload: usize, version: usize) -> ApplyRequest {
    let annotations = texts([("payload", &"x".repeat(payload)), ("version", &version.to_string())]);
    let metadata = ObjectMeta { name: name.to_owned(), annotations, ..ObjectMeta::default() };
    typed("Project", &Project { metadata: Some(metadata), ..Project::default() })
}

/// What people declare most: a program with arguments, environment, placement and limits, of about this size. No
/// node is there to run it.
pub fn typed_workload(name: &str, payload: usize, version: usize) -> ApplyRequest {
    typed("Workload", &workload(name, payload, version))
}

pub fn workload(name: &str, payload: usize, version: usize) -> Workload {
    let process = Process {
        command: Some("/usr/local/bin/serve".into()),
        args: ["--listen", "0.0.0.0:8080", "--workers", "4"].map(Into::into).into(),
        env: texts([
            ("LOG_LEVEL", "info"),
            ("RELEASE", "0"),
            ("DATABASE", "db.internal:5432"),
            ("PADDING", &"x".repeat(payload / 2)),
        ]),
        ..Process::default()
    };
    let selector = NodeSelector { match_labels: texts([("zone", "nowhere")]) };
    let limits = ResourceAmounts { memory_mib: Some(256), ..ResourceAmounts::default() };
    let spec = WorkloadSpec {
        runtime: Some(Runtime::Process(process)),
        placement: Some(Placement {
            selector: Some(selector),
            replicas: Some(2),
            ..Placement::default()
        }),
        restart_policy: Some("onFailure".into()),
        resources: Some(Resources { limits: Some(limits), ..Resources::default() }),
        ..WorkloadSpec::default()
    };
    let metadata = ObjectMeta {
        name: name.to_owned(),
        project: PROJECT.into(),
        labels: texts([("app", "bench"), ("tier", "front")]),
        annotations: texts([("version", &version.to_string())]),
        ..ObjectMeta::default()
    };
    Workload { metadata: Some(metadata), spec: Some(spec), ..Workload::default() }
}

/// The same as [`typed_workload`], as JSON and declared by a manager, as command lines and pipelines do it.
pub fn declared_workload(name: &str, payload: usize, version: usize) -> ApplyRequest {
    declared(name, payload, version, 0)
}

/// The same, where each version asks for something else: generations, plans and states follow from it.
pub fn other_workload(name: &str, payload: usize, version: usize) -> ApplyRequest {
    declared(name, payload, version, version)
}

fn declared(name: &str, payload: usize, version: usize, release: usize) -> ApplyRequest {
    let filler = "x".repeat(payload / 2);
    let request = json(format!(
        r#"{{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{{"name":"{name}","project":"{PROJECT}","labels":{{"app":"bench","tier":"front"}},"annotations":{{"version":"{version}"}}}},"spec":{{"process":{{"command":"/usr/local/bin/serve","args":["--listen","0.0.0.0:8080","--workers","4"],"env":{{"LOG_LEVEL":"info","RELEASE":"{release}","DATABASE":"db.internal:5432","PADDING":"{filler}"}}}},"placement":{{"selector":{{"matchLabels":{{"zone":"nowhere"}}}},"replicas":2}},"restartPolicy":"onFailure","resources":{{"limits":{{"memoryMib":256}}}}}}}}"#
    ));
    ApplyRequest { field_manager: MANAGER.into(), ..request }
}

fn json(json: String) -> ApplyRequest {
    let resource = Resource { body: Some(Body::Json(json)), ..Resource::default() };
    ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Protobuf.into(),
        ..ApplyRequest::default()
    }
}

fn typed(kind: &str, message: &impl Message) -> ApplyRequest {
    let resource = Resource {
        kind: kind.into(),
        body: Some(Body::Protobuf(message.encode_to_vec().into())),
        ..Resource::default()
    };
    ApplyRequest { resource: Some(resource), ..ApplyRequest::default() }
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
