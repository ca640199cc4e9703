//! Where objects live in the store.
//!
//! `objects/<group>/<Kind>/<project id>/<name>`: the group stands without its suffix, so that an
//! installation can change the suffix; the version is not part of the key, because one stored form
//! serves all of them; projects stand as ids, so that a name can be given again. Where an object is
//! stored as several resources, the others stand beside the first, all of one object together:
//! `objects/<group>/<Kind>.parts/<project id>/<name>/<Part>/<part's name>`. What an object was under the earlier names
//! of its version stands beside it too: `objects/<group>/<Kind>.versions/<project id>/<name>/<version>`.
use orrery_api::{Kind, SYSTEM_PROJECT, Scheme};
use std::sync::Arc;

const ROOT: &str = "objects";

/// What every key of an object begins with; other things are kept beside it.
pub const OBJECTS: &str = "objects/";

/// The keys of one kind.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    pub fn of(kind: &Kind, group_suffix: &str) -> Self {
        let group = kind.group();
        let base = group.strip_suffix(group_suffix).and_then(|base| base.strip_suffix('.'));
        Self { prefix: format!("{ROOT}/{}/{}/", base.unwrap_or(group), kind.kind()) }
    }

    /// Of every object of the kind.
    pub fn all(&self) -> &str {
        &self.prefix
    }

    /// Of every object of the kind in one project.
    pub fn project(&self, project_id: &str) -> String {
        format!("{}{}/", self.prefix, or_system(project_id))
    }

    /// What the keys of all objects and of all their parts begin with, and perhaps others.
    pub fn all_with_parts(&self) -> &str {
        self.prefix.trim_end_matches('/')
    }

    /// Of the parts of one object, beside the first.
    pub fn parts(&self, project_id: &str, name: &str) -> String {
        let kind = self.all_with_parts();
        format!("{kind}.parts/{}/{name}/", or_system(project_id))
    }

    /// Of what is kept of the versions of one object.
    pub fn versions(&self, project_id: &str, name: &str) -> String {
        let kind = self.all_with_parts();
        format!("{kind}.versions/{}/{name}/", or_system(project_id))
    }

    pub fn version(&self, project_id: &str, name: &str, version: &str) -> String {
        self.versions(project_id, name) + version
    }

    /// The project's id and the name in the key of an object.
    pub fn place<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str)> {
        key.strip_prefix(&self.prefix)?.split_once('/')
    }

    pub fn object(&self, project_id: &str, name: &str) -> String {
        [&self.prefix, or_system(project_id), "/", name].concat()
    }
}

/// Where the objects are kept that have secrets among their fields, whole: what was applied stands in
/// their annotations too.
pub fn secret_prefixes(scheme: &Scheme) -> Vec<String> {
    let kept = scheme.all_kinds().filter(|kind| kind.spoke_of().is_none() && kind.has_secrets());
    let prefixes = |kind: &Arc<Kind>| {
        let keys = Keys::of(kind, scheme.group_suffix());
        let versions = kind.versioned().then(|| format!("{}.versions/", keys.all_with_parts()));
        std::iter::once(keys.prefix).chain(versions)
    };
    kept.flat_map(prefixes).collect()
}

fn or_system(project_id: &str) -> &str {
    if project_id.is_empty() { SYSTEM_PROJECT } else { project_id }
}
