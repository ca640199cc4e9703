//! The scheme: every kind that this process knows, found by any of its names.
//!
//! It is made once, from descriptors, and never changes; share it in an `Arc`.
mod builder;
mod error;
mod read;
mod resolve;

use std::{collections::HashMap, sync::Arc};

use prost::Name;

pub use builder::SchemeBuilder;
pub use error::{ReadError, RegistrationError, ResolveError, SchemeError};

use crate::{
    convert::{ConvertError, Spoke},
    kind::{Kind, same_kind},
    object::Object,
};

/// The group suffix of an installation that did not choose its own.
pub const DEFAULT_GROUP_SUFFIX: &str = "orrery.dev";

/// The reserved project in which kinds without a project of their own are kept.
pub const SYSTEM_PROJECT: &str = "system";

/// Every kind that this process knows.
#[derive(Debug)]
pub struct Scheme {
    suffix: String,
    /// Sorted by group, kind and version, the preferred version of a kind first.
    kinds: Vec<Arc<Kind>>,
    /// Spokes by the full name of their hub kind.
    spokes: HashMap<String, Vec<Arc<Spoke>>>,
    /// Kinds that are served by their name as programs write it, as [`Scheme::resolve`] finds them.
    by_name: foldhash::HashMap<String, Vec<Arc<Kind>>>,
}

impl Scheme {
    /// The kinds of `orrery-proto` under the default suffix.
    pub fn builtin() -> Result<Self, SchemeError> {
        Self::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET).build()
    }

    /// A scheme without kinds, to be filled.
    pub fn builder() -> SchemeBuilder {
        SchemeBuilder::default()
    }

    /// What follows the group of a kind: `orrery.dev`.
    pub fn group_suffix(&self) -> &str {
        &self.suffix
    }

    /// The kinds that are served, sorted by group and kind, the preferred version first.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter().filter(|kind| !kind.internal())
    }

    /// All kinds, those included that are only stored.
    pub fn all_kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// The served kind with exactly this group (with suffix), version and kind.
    pub fn lookup(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.kinds().find(|k| k.group() == group && k.version() == version && k.kind() == kind)
    }

    /// The served kind at exactly this path of the REST dialect.
    pub fn lookup_plural(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds().find(|k| k.group() == group && k.version() == version && k.plural() == plural)
    }

    /// The kind of a generated type: `scheme.kind_of::<Workload>()`.
    pub fn kind_of<T: Name>(&self) -> Result<Arc<Kind>, ResolveError> {
        self.by_full_name(&T::full_name()).cloned().ok_or_else(|| ResolveError::Unknown {
            name: T::full_name(),
            api_version: String::new(),
            hint: String::new(),
        })
    }

    /// The kind that was registered from this message.
    pub fn by_full_name(&self, full_name: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.full_name() == full_name)
    }

    /// The version of a kind that is stored: itself, unless it is a spoke.
    pub fn hub_kind(&self, kind: &Arc<Kind>) -> Arc<Kind> {
        let hub = kind.spoke_of().and_then(|hub| self.by_full_name(hub));
        hub.unwrap_or(kind).clone()
    }

    /// The other views of a hub kind: its other versions and its stored forms.
    pub fn spokes(&self, hub: &Kind) -> &[Arc<Spoke>] {
        self.spokes.get(hub.full_name()).map(Vec::as_slice).unwrap_or_default()
    }

    /// The view of a hub kind with this name: a version, or the name of a stored form.
    pub fn spoke(&self, hub: &Kind, name: &str) -> Option<&Arc<Spoke>> {
        self.spokes(hub).iter().find(|spoke| spoke.name == name)
    }

    /// Converts an object of a served version to the hub version; a hub object stays as it is.
    pub fn to_hub(&self, object: &Object) -> Result<Object, ConvertError> {
        match self.version_spoke(object.kind())? {
            None => Ok(object.clone()),
            Some(spoke) => spoke.to_hub(std::slice::from_ref(object)),
        }
    }

    /// Converts an object of the hub version to a served version.
    pub fn from_hub(&self, hub: &Object, kind: &Arc<Kind>) -> Result<Object, ConvertError> {
        if same_kind(hub.kind(), kind) {
            return Ok(hub.clone());
        }
        match self.version_spoke(kind)? {
            Some(spoke) if same_kind(&spoke.hub, hub.kind()) => spoke.single_from_hub(hub),
            Some(_) | None => Err(ConvertError::NoPath {
                from: format!("{} {}", hub.kind().api_version(), hub.kind().kind()),
                to: format!("{} {}", kind.api_version(), kind.kind()),
            }),
        }
    }

    fn version_spoke(&self, kind: &Arc<Kind>) -> Result<Option<&Arc<Spoke>>, ConvertError> {
        let Some(hub_name) = kind.spoke_of() else { return Ok(None) };
        let spokes = self.spokes.get(hub_name).map(Vec::as_slice).unwrap_or_default();
        let found = spokes.iter().find(|spoke| spoke.is_version_of(kind));
        found.map(Some).ok_or_else(|| ConvertError::NoPath {
            from: format!("{} {}", kind.api_version(), kind.kind()),
            to: hub_name.to_owned(),
        })
    }
}
