//! The fields that are found by their role.
use prost_reflect::{FieldDescriptor, Kind as ProtoKind, MessageDescriptor};

/// The fields that every kind has, by their role.
pub(crate) struct Fields {
    pub api_version: FieldDescriptor,
    pub kind: FieldDescriptor,
    pub metadata: FieldDescriptor,
    pub spec: Option<FieldDescriptor>,
    pub status: Option<FieldDescriptor>,
}

/// The fields of metadata that are read without decoding the whole of it.
pub(crate) struct MetaFields {
    pub name: FieldDescriptor,
    pub project: FieldDescriptor,
    pub labels: FieldDescriptor,
    pub annotations: FieldDescriptor,
    pub uid: FieldDescriptor,
    pub resource_version: FieldDescriptor,
    pub generation: FieldDescriptor,
    pub creation_timestamp: FieldDescriptor,
    pub deletion_timestamp: FieldDescriptor,
    pub finalizers: FieldDescriptor,
    pub managed_fields: FieldDescriptor,
    pub owner_references: FieldDescriptor,
}

/// The numbers of these fields, for those who read bytes: a descriptor looks its own up each time.
pub(crate) struct Numbers {
    pub api_version: u32,
    pub kind: u32,
    pub metadata: u32,
    pub spec: Option<u32>,
    pub status: Option<u32>,
    pub name: u32,
    pub project: u32,
    pub labels: u32,
    pub annotations: u32,
    pub uid: u32,
    pub resource_version: u32,
    pub deletion_timestamp: u32,
    pub owner_references: u32,
}

impl Numbers {
    pub(super) fn of(fields: &Fields, meta: &MetaFields) -> Self {
        Self {
            api_version: fields.api_version.number(),
            kind: fields.kind.number(),
            metadata: fields.metadata.number(),
            spec: fields.spec.as_ref().map(FieldDescriptor::number),
            status: fields.status.as_ref().map(FieldDescriptor::number),
            name: meta.name.number(),
            project: meta.project.number(),
            labels: meta.labels.number(),
            annotations: meta.annotations.number(),
            uid: meta.uid.number(),
            resource_version: meta.resource_version.number(),
            deletion_timestamp: meta.deletion_timestamp.number(),
            owner_references: meta.owner_references.number(),
        }
    }
}

impl Fields {
    pub(super) fn find(descriptor: &MessageDescriptor) -> Result<Self, String> {
        let named = |name: &str| descriptor.get_field_by_name(name);
        let message = |name: &str| match named(name) {
            Some(field) if field.kind().as_message().is_none() || field.is_list() => {
                Err(format!("{name} must be a message"))
            }
            found => Ok(found),
        };
        let metadata = message("metadata")?;
        match (named("api_version"), named("kind"), metadata) {
            (Some(api_version), Some(kind), Some(metadata)) if has_type_fields(descriptor) => {
                Ok(Self {
                    api_version,
                    kind,
                    metadata,
                    spec: message("spec")?,
                    status: message("status")?,
                })
            }
            _ => Err("a kind must have apiVersion, kind (strings) and metadata".to_owned()),
        }
    }
}

impl MetaFields {
    pub(super) fn find(metadata: &FieldDescriptor) -> Result<Self, String> {
        let ProtoKind::Message(meta) = metadata.kind() else {
            return Err("metadata must be an orrery.meta.v1.ObjectMeta".to_owned());
        };
        let get = |name: &str| {
            meta.get_field_by_name(name)
                .ok_or_else(|| format!("metadata must be an orrery.meta.v1.ObjectMeta with {name}"))
        };
        Ok(Self {
            name: get("name")?,
            project: get("project")?,
            labels: get("labels")?,
            annotations: get("annotations")?,
            uid: get("uid")?,
            resource_version: get("resource_version")?,
            generation: get("generation")?,
            creation_timestamp: get("creation_timestamp")?,
            deletion_timestamp: get("deletion_timestamp")?,
            finalizers: get("finalizers")?,
            managed_fields: get("managed_fields")?,
            owner_references: get("owner_references")?,
        })
    }
}

pub(super) fn has_type_fields(descriptor: &MessageDescriptor) -> bool {
    ["api_version", "kind"].iter().all(|name| {
        let field = descriptor.get_field_by_name(name);
        field.is_some_and(|field| matches!(field.kind(), ProtoKind::String) && !field.is_list())
    })
}
