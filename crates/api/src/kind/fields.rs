//! The fields that are found by their role.
use prost_reflect::{FieldDescriptor, Kind as ProtoKind, MessageDescriptor};

use crate::schema::{Element, MessageId, Schema};

/// The fields that every kind has, by their role.
pub(super) struct Fields {
    api_version: FieldDescriptor,
    kind: FieldDescriptor,
    metadata: FieldDescriptor,
    pub(super) spec: Option<FieldDescriptor>,
    status: Option<FieldDescriptor>,
}

/// The numbers of the fields that are found by their role, and of those of the metadata.
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
    pub generation: u32,
    pub creation_timestamp: u32,
    pub deletion_timestamp: u32,
    pub finalizers: u32,
    pub managed_fields: u32,
    pub owner_references: u32,
}

/// The numbers of the fields of a list.
pub(crate) struct ListNumbers {
    pub api_version: u32,
    pub kind: u32,
    pub metadata: u32,
    pub items: u32,
}

/// What the schema calls the messages of these fields.
pub(crate) struct Parts {
    pub metadata: MessageId,
    pub spec: Option<MessageId>,
    pub status: Option<MessageId>,
}

impl ListNumbers {
    pub(super) fn of(list: &MessageDescriptor) -> Result<Self, String> {
        let get = |name: &str| {
            let field = list.get_field_by_name(name).map(|field| field.number());
            field.ok_or_else(|| format!("{} must have {name}", list.full_name()))
        };
        Ok(Self {
            api_version: get("api_version")?,
            kind: get("kind")?,
            metadata: get("metadata")?,
            items: get("items")?,
        })
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

    pub(super) fn numbers(&self) -> Result<Numbers, String> {
        let ProtoKind::Message(meta) = self.metadata.kind() else {
            return Err("metadata must be an orrery.meta.v1.ObjectMeta".to_owned());
        };
        let get = |name: &str| {
            let field = meta.get_field_by_name(name).map(|field| field.number());
            field
                .ok_or_else(|| format!("metadata must be an orrery.meta.v1.ObjectMeta with {name}"))
        };
        Ok(Numbers {
            api_version: self.api_version.number(),
            kind: self.kind.number(),
            metadata: self.metadata.number(),
            spec: self.spec.as_ref().map(FieldDescriptor::number),
            status: self.status.as_ref().map(FieldDescriptor::number),
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

    pub(super) fn parts(&self, schema: &Schema) -> Result<Parts, String> {
        let of = |field: &FieldDescriptor| {
            let found = schema.root().fields.iter().find(|it| it.number == field.number());
            match found.map(|field| field.shape.element()) {
                Some(Element::Message(id)) => Ok(id),
                _ => Err(format!("{} must be a message of ours", field.name())),
            }
        };
        Ok(Parts {
            metadata: of(&self.metadata)?,
            spec: self.spec.as_ref().map(of).transpose()?,
            status: self.status.as_ref().map(of).transpose()?,
        })
    }
}

pub(super) fn has_type_fields(descriptor: &MessageDescriptor) -> bool {
    ["api_version", "kind"].iter().all(|name| {
        let field = descriptor.get_field_by_name(name);
        field.is_some_and(|field| matches!(field.kind(), ProtoKind::String) && !field.is_list())
    })
}
