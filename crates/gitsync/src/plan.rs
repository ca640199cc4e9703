//! What has to be done so that git and the system are the same: pure.
//!
//! ```text
//!   in git      in the system        whoever changed it since both were the same
//!   yes         no                   applied; or its file goes, if it was deleted here since
//!   yes         yes                  git: applied   the system: written   both: git counts
//!   no          yes, from there      deleted
//!   no          yes, not from there  written, if its kind is; left alone otherwise
//! ```
//! What the other side said when both were the same is in the lineage of each object, as digests.
use crate::lineage::{Lineage, Origin};
use std::collections::{BTreeMap, BTreeSet};

/// Which object: the full name of its kind's message, and its name in the project of the sync.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub kind: String,
    pub name: String,
}

/// What git says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub file: String,
    pub digest: String,
}

/// What the system says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    pub digest: String,
    pub lineage: Option<Lineage>,
    /// It waits for its finalizers.
    pub going: bool,
    /// Another object made it, which is the one to be written.
    pub owned: bool,
    /// Another sync, which is there, keeps it.
    pub kept_by: Option<String>,
}

/// What does not change from one object to the next.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub origin: Origin,
    /// The folder that is looked at, "" for all of it.
    pub folder: String,
    pub prune: bool,
    /// Kinds that are written back.
    pub written: BTreeSet<String>,
    /// Whether every file could be read: what is missing may be in one that could not.
    pub readable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// What git says becomes what is.
    Apply,
    /// It left git.
    Delete,
    /// What is becomes what git says: in this file, or in a new one.
    Write(Option<String>),
    /// It was deleted here.
    Remove(String),
    /// Another sync keeps it.
    Refuse(String),
}

pub type Steps = BTreeMap<Key, Step>;

/// What has to be done. `before` is what git said, by digests, when both were last the same; `None` if that
/// cannot be known any more.
pub fn plan(
    settings: &Settings,
    git: &BTreeMap<Key, Declared>,
    system: &BTreeMap<Key, Present>,
    before: Option<&BTreeMap<Key, String>>,
) -> Steps {
    let keys: BTreeSet<&Key> = git.keys().chain(system.keys()).collect();
    let one = |key: &Key| {
        let before = before.and_then(|before| before.get(key)).map(String::as_str);
        match (git.get(key), system.get(key)) {
            (Some(declared), None) => Some(absent(settings, key, declared, before)),
            (Some(declared), Some(present)) => both(settings, key, declared, present),
            (None, Some(present)) => undeclared(settings, key, present),
            (None, None) => None,
        }
    };
    keys.into_iter().filter_map(|key| Some((key.clone(), one(key)?))).collect()
}

fn absent(settings: &Settings, key: &Key, declared: &Declared, before: Option<&str>) -> Step {
    let deleted_here = before == Some(declared.digest.as_str());
    if deleted_here && settings.readable && settings.written.contains(&key.kind) {
        return Step::Remove(declared.file.clone());
    }
    Step::Apply
}

fn both(settings: &Settings, key: &Key, declared: &Declared, present: &Present) -> Option<Step> {
    if present.going {
        return None;
    }
    if let Some(other) = &present.kept_by {
        return Some(Step::Refuse(other.clone()));
    }
    let Some(known) = ours(settings, present) else { return Some(Step::Apply) };
    let changed_there = known.git != declared.digest || known.file != declared.file;
    let changed_here = known.system != present.digest;
    match (changed_there, changed_here) {
        (false, false) => None,
        (false, true) if settings.written.contains(&key.kind) => {
            Some(Step::Write(Some(declared.file.clone())))
        }
        (_, _) => Some(Step::Apply),
    }
}

fn undeclared(settings: &Settings, key: &Key, present: &Present) -> Option<Step> {
    if present.going || !settings.readable {
        return None;
    }
    if let Some(known) = ours(settings, present) {
        let came_from_here = within(&known.file, &settings.folder);
        return (settings.prune && came_from_here).then_some(Step::Delete);
    }
    let is_free = present.kept_by.is_none() && !present.owned;
    (is_free && settings.written.contains(&key.kind)).then_some(Step::Write(None))
}

/// The lineage of an object that came from the place that this sync looks at.
fn ours<'a>(settings: &Settings, present: &'a Present) -> Option<&'a Lineage> {
    present.lineage.as_ref().filter(|known| known.origin == settings.origin)
}

/// Whether a file is in a folder or below it.
pub fn within(file: &str, folder: &str) -> bool {
    folder.is_empty() || file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
