//! A kind as clients of the dialect see it.
//!
//! Most kinds show themselves as they are. Two also have other faces, because every tool of this field looks for them
//! there: a project is a `v1 Namespace`, and an event is a `v1 Event` and an `events.k8s.io/v1 Event`. A face changes
//! names and shape at the border and nothing else.
use super::catalog::{EVENT, LEASE, PROJECT};
use super::faces;
use super::faces::events::Shape;
use super::failure::{Cause, Failure};
use orrery_api::{JsonOptions, Kind, Object, ScaleFields, Scheme, Violation};
use orrery_hub::{Accessor, Error, Hub};
use serde_json::Value;
use std::sync::Arc;

/// The group of the newer shape of events.
const EVENTS_GROUP: &str = "events.k8s.io";

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// A project is worth a request of its own; they are not deleted by the dozen.
const NAMESPACE: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// As the kind defines itself.
    Own,
    /// A project as `v1 Namespace`.
    Namespace,
    /// An event as `v1 Event`.
    CoreEvent,
    /// An event as `events.k8s.io/v1 Event`.
    GroupEvent,
}

/// A part of an object that has a path of its own.
pub struct Subresource<'a> {
    pub name: &'static str,
    /// Group, version and kind of what is there.
    pub kind: (&'a str, &'a str, &'a str),
    pub verbs: &'static [&'static str],
}

/// A kind in one version and with one face, and the way to its objects.
pub struct Resource {
    pub kind: Arc<Kind>,
    pub face: Face,
    pub accessor: Arc<dyn Accessor>,
    scheme: Arc<Scheme>,
}

impl Resource {
    pub fn new(hub: &Hub, kind: &Arc<Kind>, face: Face) -> Result<Self, Error> {
        let scheme = hub.scheme().clone();
        let accessor = hub.accessor(&scheme.hub_kind(kind))?.clone();
        Ok(Self { kind: kind.clone(), face, accessor, scheme })
    }

    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Empty for the core group.
    pub fn group(&self) -> &str {
        match self.face {
            Face::Own => self.kind.group(),
            Face::Namespace | Face::CoreEvent => "",
            Face::GroupEvent => EVENTS_GROUP,
        }
    }

    pub fn version(&self) -> &str {
        match self.face {
            Face::Own => self.kind.version(),
            Face::Namespace | Face::CoreEvent | Face::GroupEvent => "v1",
        }
    }

    pub fn api_version(&self) -> &str {
        match self.face {
            Face::Own => self.kind.api_version(),
            Face::Namespace | Face::CoreEvent => "v1",
            Face::GroupEvent => "events.k8s.io/v1",
        }
    }

    pub fn kind_name(&self) -> &str {
        match self.face {
            Face::Own | Face::CoreEvent | Face::GroupEvent => self.kind.kind(),
            Face::Namespace => "Namespace",
        }
    }

    pub fn list_kind(&self) -> &str {
        match self.face {
            Face::Own | Face::CoreEvent | Face::GroupEvent => self.kind.list_kind(),
            Face::Namespace => "NamespaceList",
        }
    }

    pub fn plural(&self) -> &str {
        match self.face {
            Face::Own | Face::CoreEvent | Face::GroupEvent => self.kind.plural(),
            Face::Namespace => "namespaces",
        }
    }

    pub fn singular(&self) -> &str {
        match self.face {
            Face::Own | Face::CoreEvent | Face::GroupEvent => self.kind.singular(),
            Face::Namespace => "namespace",
        }
    }

    pub fn short_names(&self) -> Vec<&str> {
        match self.face {
            // Its face in the core group has them: one name for two resources makes tools warn.
            Face::Own if self.kind.full_name() == EVENT => Vec::new(),
            Face::Own | Face::CoreEvent => {
                self.kind.short_names().iter().map(String::as_str).collect()
            }
            Face::GroupEvent => Vec::new(),
            Face::Namespace => vec!["ns"],
        }
    }

    pub fn namespaced(&self) -> bool {
        !self.kind.cluster_scoped()
    }

    /// Whether others write it, and not only the server.
    pub fn writable(&self) -> bool {
        self.kind.writable()
    }

    pub fn verbs(&self) -> &'static [&'static str] {
        if !self.writable() {
            return READ;
        }
        match self.face {
            Face::Own if self.kind.full_name() == PROJECT => NAMESPACE,
            Face::Own | Face::CoreEvent | Face::GroupEvent => ALL,
            Face::Namespace => NAMESPACE,
        }
    }

    /// Whether there is a `status` subresource.
    pub fn has_status(&self) -> bool {
        self.kind.has_status()
    }

    /// The fields that say how many copies there should be and are, where it can be scaled.
    pub fn scale(&self) -> Option<&ScaleFields> {
        self.kind.scale().filter(|_| self.face == Face::Own)
    }

    /// Whether files are kept with its objects.
    pub fn has_artifacts(&self) -> bool {
        self.kind.has_artifacts() && self.face == Face::Own
    }

    /// Whether the versions of its objects are kept.
    pub fn has_versions(&self) -> bool {
        self.kind.versioned() && self.face == Face::Own
    }

    /// Whether copies of its objects run somewhere.
    pub fn runs(&self) -> bool {
        self.kind.runs() && self.face == Face::Own
    }

    /// The parts of an object that have a path of their own.
    pub fn subresources(&self) -> Vec<Subresource<'_>> {
        let own = (self.group(), self.version(), self.kind_name());
        let mut found = Vec::new();
        if self.has_status() {
            found.push(Subresource { name: "status", kind: own, verbs: self.status_verbs() });
        }
        if self.scale().is_some() {
            let kind = ("autoscaling", "v1", "Scale");
            found.push(Subresource { name: "scale", kind, verbs: self.status_verbs() });
        }
        if self.has_artifacts() {
            let kind = (self.group(), self.version(), "ArtifactList");
            let verbs: &[&str] =
                if self.writable() { &["delete", "get", "update"] } else { &["get"] };
            found.push(Subresource { name: "artifacts", kind, verbs });
        }
        if self.has_versions() {
            let kind = (self.group(), self.version(), "VersionList");
            found.push(Subresource { name: "versions", kind, verbs: &["get"] });
        }
        if self.runs() {
            found.push(Subresource { name: "log", kind: own, verbs: &["get"] });
            found.push(Subresource { name: "exec", kind: own, verbs: &["create"] });
        }
        found
    }

    /// What people do to the status; what only the server writes, they only read.
    pub fn status_verbs(&self) -> &'static [&'static str] {
        if self.writable() { &["get", "patch", "update"] } else { &["get"] }
    }

    /// `workloads.apps.orrery.dev`, or `namespaces`.
    pub fn qualified_plural(&self) -> String {
        match self.group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }

    /// Whether clients know it from elsewhere, as a kind that every server of the dialect has built in.
    pub fn is_built_in(&self) -> bool {
        match self.face {
            Face::Own => self.kind.full_name() == LEASE,
            Face::Namespace | Face::CoreEvent | Face::GroupEvent => true,
        }
    }

    /// An object of the hub in this version and face.
    pub fn encode(&self, hub: &Object) -> Result<Value, Failure> {
        Ok(self.faced(&self.spoken(hub)?))
    }

    /// An object of the hub in this version.
    pub fn spoken(&self, hub: &Object) -> Result<Object, Failure> {
        self.scheme.from_hub(hub, &self.kind).map_err(Failure::internal)
    }

    /// What was given with this face, as the kind defines itself.
    pub fn unfaced(&self, value: Value, name: &str) -> Result<Value, Failure> {
        let api_version = self.kind.api_version();
        match self.face {
            Face::Own => Ok(value),
            Face::Namespace => Ok(faces::project_of(value, api_version)),
            Face::CoreEvent | Face::GroupEvent => match faces::events::problems(&value) {
                none if none.is_empty() => Ok(faces::events::own_event_of(value, api_version)),
                causes => Err(Failure::invalid(self.group(), self.kind_name(), name, &causes)),
            },
        }
    }

    /// What is wrong with an object, in the words of this face.
    pub fn cause(&self, violation: &Violation) -> Cause {
        let cause = Cause::from(violation);
        let shape = match self.face {
            Face::Own | Face::Namespace => return cause,
            Face::CoreEvent => Shape::Core,
            Face::GroupEvent => Shape::Group,
        };
        Cause { field: faces::events::field_of(&cause.field, shape), ..cause }
    }

    /// An object of this version with this face.
    pub fn faced(&self, spoken: &Object) -> Value {
        let value = spoken.to_json_value(&JsonOptions::rest());
        match self.face {
            Face::Own => value,
            Face::Namespace => faces::namespace_of(value),
            Face::CoreEvent => faces::events::core_event_of(value),
            Face::GroupEvent => faces::events::group_event_of(value),
        }
    }
}
