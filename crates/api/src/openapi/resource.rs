//! What of a kind matters to its paths.
use std::sync::Arc;

use super::core;
use crate::{kind::Kind, scheme::Scheme};

/// A kind at its place in the API.
#[derive(Clone, Debug)]
pub(super) struct ApiResource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub namespaced: bool,
    pub writable: bool,
    /// Whether many can be deleted at once.
    pub delete_collection: bool,
    pub has_status: bool,
    pub has_scale: bool,
    pub has_artifacts: bool,
    pub has_versions: bool,
    pub has_log: bool,
    /// The schema of one, and of a list of them.
    pub schema: String,
    pub list_schema: String,
    /// The definition, for kinds that show themselves as they are.
    pub definition: Option<Arc<Kind>>,
}

impl ApiResource {
    /// Everything that a scheme serves.
    pub fn all(scheme: &Scheme) -> Vec<Self> {
        core::resources(scheme).into_iter().chain(scheme.kinds().map(Self::own)).collect()
    }

    fn own(kind: &Arc<Kind>) -> Self {
        Self {
            group: kind.group().to_owned(),
            version: kind.version().to_owned(),
            kind: kind.kind().to_owned(),
            list_kind: kind.list_kind().to_owned(),
            plural: kind.plural().to_owned(),
            namespaced: !kind.cluster_scoped(),
            writable: kind.writable(),
            delete_collection: kind.writable() && kind.full_name() != core::PROJECT,
            has_status: kind.has_status(),
            has_scale: kind.scale().is_some(),
            has_artifacts: kind.has_artifacts(),
            has_versions: kind.versioned(),
            has_log: kind.runs(),
            schema: kind.full_name().to_owned(),
            list_schema: kind.list_descriptor().full_name().to_owned(),
            definition: Some(kind.clone()),
        }
    }

    /// Where its paths begin, without the first slash.
    pub fn base(&self) -> String {
        match self.group.as_str() {
            "" => format!("api/{}", self.version),
            group => format!("apis/{group}/{}", self.version),
        }
    }

    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of all, everywhere.
    pub fn everywhere(&self) -> String {
        format!("/{}/{}", self.base(), self.plural)
    }

    /// The path of those in one project; the same as [`Self::everywhere`] for kinds without one.
    pub fn collection(&self) -> String {
        match self.namespaced {
            true => format!("/{}/namespaces/{{namespace}}/{}", self.base(), self.plural),
            false => self.everywhere(),
        }
    }

    /// A name for its group that fits into an operation id: `AppsOrreryDevV1`.
    pub fn id_prefix(&self) -> String {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        group.split(['.', '-']).chain([self.version.as_str()]).map(capital).collect()
    }

    pub fn group_version_kind(&self) -> serde_json::Value {
        serde_json::json!({ "group": self.group, "version": self.version, "kind": self.kind })
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect::<String>())
}
