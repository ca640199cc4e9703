//! What is written to the hub.
use orrery_proto::core::v1::Project;
use orrery_proto::hub::v1::{ApplyRequest, Encoding, Resource, resource::Body};
use orrery_proto::meta::v1::ObjectMeta;
use prost::Message as _;

/// A resource with a payload of about this size.
pub fn resource(name: &str, payload: usize, version: usize) -> ApplyRequest {
    let filler = "x".repeat(payload);
    let json = format!(
        r#"{{"apiVersion":"core.orrery.dev/v1","kind":"Project","metadata":{{"name":"{name}","annotations":{{"payload":"{filler}","version":"{version}"}}}}}}"#
    );
    let resource = Resource { body: Some(Body::Json(json)), ..Resource::default() };
    ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Protobuf.into(),
        ..ApplyRequest::default()
    }
}

/// The same as [`resource`], as a program with its own types sends it.
pub fn typed_resource(name: &str, payload: usize, version: usize) -> ApplyRequest {
    let annotations = [("payload", "x".repeat(payload)), ("version", version.to_string())];
    let metadata = ObjectMeta {
        name: name.to_owned(),
        annotations: annotations.map(|(key, value)| (key.to_owned(), value)).into(),
        ..ObjectMeta::default()
    };
    let project = Project { metadata: Some(metadata), ..Project::default() };
    let resource = Resource {
        kind: "Project".into(),
        body: Some(Body::Protobuf(project.encode_to_vec().into())),
        ..Resource::default()
    };
    ApplyRequest { resource: Some(resource), ..ApplyRequest::default() }
}
