//! Which part of an object a manager writes.
use super::set::{Element, FieldSet, Node};
use crate::options::Part;
use orrery_api::Object;

/// Fields of metadata that identify the object or belong to the server: nobody else owns them.
pub(super) const SERVER_OWNED: [&str; 8] = [
    "name",
    "project",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Metadata and spec.
    Main,
    Status,
    /// The number of copies, in the spec. Whoever declares it here still declares the rest elsewhere.
    Scale,
}

impl From<Part> for Scope {
    fn from(part: Part) -> Self {
        match part {
            Part::Main => Self::Main,
            Part::Status => Self::Status,
            Part::Scale => Self::Scale,
        }
    }
}

impl Scope {
    /// The name of the part in the record of managers.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }

    /// The part of this name. One of a version that knows more parts is taken for the main one.
    pub fn named(subresource: &str) -> Self {
        let known = [Self::Status, Self::Scale];
        known.into_iter().find(|scope| scope.subresource() == subresource).unwrap_or(Self::Main)
    }

    /// The part of a set that can be owned through this scope.
    pub fn filter(self, mut set: FieldSet) -> FieldSet {
        let field = |name: &str| Element::Field(name.to_owned());
        let status = set.remove(&field("status"));
        if self == Self::Status {
            let mut only = FieldSet::default();
            only.put(field("status"), status.unwrap_or_default());
            return only;
        }
        set.remove(&field("apiVersion"));
        set.remove(&field("kind"));
        if let Some(Node { mut children, .. }) = set.remove(&field("metadata")) {
            for name in SERVER_OWNED {
                children.remove(&field(name));
            }
            set.put(field("metadata"), Node { owned: false, children });
        }
        set
    }

    /// What of a declared object is declared through this scope.
    pub(super) fn declared(self, given: &Object) -> Object {
        match self {
            Self::Main | Self::Scale => {
                let mut declared = given.clone();
                declared.clear_status();
                declared.clear_server_owned();
                declared
            }
            Self::Status => {
                let mut declared = Object::new(given.kind());
                // Both are of one kind, so the status is of the right type.
                let _ = declared.copy_status_from(given);
                declared
            }
        }
    }
}
