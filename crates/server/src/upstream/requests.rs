//! The options of the hub as messages, and resources of messages. Pure.
use orrery_api::{Encoded, Kind, ObjectError};
use orrery_hub::{
    ApplyOptions, DeleteOptions, GetOptions, ListOptions, Merge, ObjectName, Part, Propagation,
    Revision, WatchOptions,
};
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::resource::Body;
use std::sync::Arc;

pub fn name(kind: &Kind, name: &ObjectName) -> wire::ResourceName {
    wire::ResourceName {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        project: name.project.clone(),
        name: name.name.clone(),
    }
}

pub fn get(kind: &Kind, options: &GetOptions) -> wire::GetRequest {
    wire::GetRequest {
        name: Some(name(kind, &options.name)),
        include_lineage: options.include_lineage,
        ..wire::GetRequest::default()
    }
}

pub fn list(kind: &Kind, options: &ListOptions) -> wire::ListRequest {
    wire::ListRequest {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        project: options.project.clone().unwrap_or_default(),
        label_selector: options.labels.to_string(),
        field_selector: options.fields.to_string(),
        limit: u32::try_from(options.limit).unwrap_or(u32::MAX),
        r#continue: options.continue_from.clone().unwrap_or_default(),
        encoding: wire::Encoding::Protobuf.into(),
        include_lineage: options.include_lineage,
    }
}

pub fn watch(kind: &Kind, options: &WatchOptions) -> wire::WatchRequest {
    wire::WatchRequest {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        project: options.project.clone().unwrap_or_default(),
        name: options.name.clone().unwrap_or_default(),
        label_selector: options.labels.to_string(),
        field_selector: options.fields.to_string(),
        resource_version: options.after.map(|after| after.to_string()).unwrap_or_default(),
        encoding: wire::Encoding::Protobuf.into(),
        include_lineage: options.include_lineage,
    }
}

pub fn apply(
    kind: &Kind,
    given: &Encoded,
    mode: Mode,
    options: &ApplyOptions,
) -> wire::ApplyRequest {
    // Who declares without owning fields says no name: with one it would own them.
    let owned = mode != Mode::Apply || options.merge == Merge::Apply;
    let field_manager = if owned { options.manager.clone() } else { String::new() };
    let part = match options.part {
        Part::Main | Part::Scale => "",
        Part::Status => "status",
    };
    wire::ApplyRequest {
        resource: Some(resource(kind, given)),
        encoding: wire::Encoding::Protobuf.into(),
        field_manager,
        dry_run: options.dry_run,
        subresource: part.to_owned(),
        mode: mode.into(),
        force: options.force,
        include_lineage: options.include_lineage,
    }
}

pub fn delete(kind: &Kind, options: &DeleteOptions) -> wire::DeleteRequest {
    use wire::delete_request::Propagation as Wish;
    let wish = match options.propagation {
        None => Wish::Unspecified,
        Some(Propagation::Background) => Wish::Background,
        Some(Propagation::Foreground) => Wish::Foreground,
        Some(Propagation::Orphan) => Wish::Orphan,
    };
    wire::DeleteRequest {
        name: Some(name(kind, &options.name)),
        uid: options.uid.clone().unwrap_or_default(),
        resource_version: options.revision.map(|at| at.to_string()).unwrap_or_default(),
        dry_run: options.dry_run,
        encoding: wire::Encoding::Protobuf.into(),
        propagation: wish.into(),
    }
}

pub fn resource(kind: &Kind, object: &Encoded) -> wire::Resource {
    wire::Resource {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        body: Some(Body::Protobuf(object.bytes().clone())),
    }
}

/// The object that an answer holds.
pub fn found(kind: &Arc<Kind>, resource: Option<wire::Resource>) -> Result<Encoded, &'static str> {
    let resource = resource.ok_or("it holds no resource")?;
    if resource.kind != kind.kind() || resource.api_version != kind.api_version() {
        return Err("it is of another kind or version");
    }
    match resource.body {
        Some(Body::Protobuf(bytes)) => Ok(Encoded::new(kind, bytes)),
        Some(Body::Json(_)) | None => Err("it is not written as was asked for"),
    }
}

/// The same object, good at this revision only.
pub fn pinned(given: &Encoded, at: Revision) -> Result<Encoded, ObjectError> {
    Encoded::at(given.kind(), given.bytes(), &at.to_string())
}
