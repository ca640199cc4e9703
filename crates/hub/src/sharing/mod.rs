//! What a project reads of what others share with it.
//!
//! ```text
//!   own object of that name ──> it, as it is
//!   otherwise: of all that are shared with the project under that name, the one that was there first,
//!              shown as if it were in the project, with a word about where it really is
//! ```
//! Everything here works on the stored view, in which projects are ids.
mod list;
mod watch;

use crate::error::Error;
use crate::index;
use crate::keys::Keys;
use crate::projects::Projects;
use orrery_api::{
    EVERY_PROJECT, Encoded, Kind, LINEAGE, Object, ObjectError, SHARED_FROM, seen_by, shared,
    shared_name_term, shared_term,
};
use orrery_store::{Entry, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use list::{Listed, list};
pub(crate) use watch::open;

/// How the annotations end in which tools keep what they applied: it names other projects too.
const LAST_APPLIED: &str = "last-applied-configuration";

/// How old an object is: when it was made, and its identity where that is the same.
pub type Age = (i64, i32, String);

/// What one object is to a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// It is in this very project.
    pub own: bool,
    /// It is another project's, and shared with this one.
    pub shared: bool,
    /// When it was made, where it is another's.
    pub age: Age,
}

impl Claim {
    /// Whether the project may read it.
    pub fn is_readable(&self) -> bool {
        self.own || self.shared
    }
}

/// Which of several objects of one name a project reads: its own, else the one that was made first. Somebody who
/// shares one under a name that is in use changes nothing for those who use it.
pub fn chosen<T>(claims: impl IntoIterator<Item = (Claim, T)>) -> Option<T> {
    let readable = claims.into_iter().filter(|(claim, _)| claim.is_readable());
    let first = readable.min_by(|(a, _), (b, _)| (!a.own, &a.age).cmp(&(!b.own, &b.age)));
    first.map(|(_, object)| object)
}

/// The objects of a kind, as one project sees them.
#[derive(Clone)]
pub(crate) struct Sight {
    pub kind: Arc<Kind>,
    pub keys: Keys,
    pub projects: Arc<Projects>,
    /// The id of the project.
    pub reader: String,
}

impl Sight {
    /// What an entry is to the project.
    fn claim(&self, entry: &Entry) -> Claim {
        let owner = self.keys.place(&entry.key).map(|(project, _)| project);
        let own = owner == Some(self.reader.as_str());
        let shared = !own && shared(&self.kind, &entry.value).with(&self.reader);
        let age = if shared { self.age(entry) } else { Age::default() };
        Claim { own, shared, age }
    }

    fn age(&self, entry: &Entry) -> Age {
        // What cannot be read is told when it is shown.
        let meta = Encoded::new(&self.kind, entry.value.clone()).meta().unwrap_or_default();
        let made = meta.creation_timestamp.unwrap_or_default();
        (made.seconds, made.nanos, meta.uid)
    }

    /// The entry that the project reads under a name.
    pub fn find(&self, snapshot: &Snapshot, name: &str) -> Option<Arc<Entry>> {
        if let Some(own) = snapshot.get(&self.keys.object(&self.reader, name)) {
            return Some(own.clone());
        }
        let terms = [self.reader.as_str(), EVERY_PROJECT].map(|it| shared_name_term(it, name));
        let named = |entry: &&Arc<Entry>| self.name_of(entry) == name;
        let found = self.candidates(snapshot, &terms).into_iter().filter(named);
        chosen(found.map(|entry| (self.claim(entry), entry))).cloned()
    }

    /// What others share with the project, by name: of several of one name the one that it reads.
    pub fn of_others<'a>(&self, snapshot: &'a Snapshot) -> BTreeMap<&'a str, &'a Arc<Entry>> {
        let mut by_name: BTreeMap<&str, (Claim, &Arc<Entry>)> = BTreeMap::new();
        for entry in self.candidates(snapshot, &self.terms()) {
            let claim = self.claim(entry);
            let Some((_, name)) = self.keys.place(&entry.key) else { continue };
            if !claim.shared {
                continue;
            }
            let both = by_name.remove(name).into_iter().chain([(claim, entry)]);
            let first = chosen(both.map(|(claim, entry)| (claim.clone(), (claim, entry))));
            by_name.extend(first.map(|first| (name, first)));
        }
        by_name.into_iter().map(|(name, (_, entry))| (name, entry)).collect()
    }

    /// Whether others share anything with the project.
    pub fn is_shared_with(&self, snapshot: &Snapshot) -> bool {
        // What is its own is not shared with it.
        let foreign = |entry: &Arc<Entry>| self.claim(entry).shared;
        self.candidates(snapshot, &self.terms()).into_iter().any(foreign)
    }

    fn terms(&self) -> [String; 2] {
        [self.reader.as_str(), EVERY_PROJECT].map(shared_term)
    }

    /// What may be shared, found by one of the terms; everything where there is no index.
    fn candidates<'a>(&self, snapshot: &'a Snapshot, terms: &[String]) -> Vec<&'a Arc<Entry>> {
        let all = self.keys.all();
        if !snapshot.has_index() {
            let keys: Vec<Arc<str>> = snapshot.range(all).map(|entry| entry.key.clone()).collect();
            return keys.iter().filter_map(|key| snapshot.get(key)).collect();
        }
        index::keys(snapshot, terms, all, "").filter_map(|key| snapshot.get(key)).collect()
    }

    fn name_of<'a>(&self, entry: &'a Entry) -> &'a str {
        self.keys.place(&entry.key).map(|(_, name)| name).unwrap_or_default()
    }

    /// An object of another project as this one sees it.
    pub fn view(&self, entry: &Entry, revision: Revision) -> Result<Encoded, Error> {
        let damaged =
            |error: ObjectError| Error::Internal(format!("cannot read {}: {error}", entry.key));
        let mut object = Object::decode(&self.kind, &entry.value).map_err(damaged)?;
        let owner = self.projects.name_of(object.project());
        object.set_resource_version(&revision.to_string());
        object.set_project(&self.reader);
        if let Some(sharing) = object.sharing() {
            object.set_sharing(&seen_by(&sharing, &self.reader));
        }
        object.update_meta(|meta| {
            // Who works on it where it is, is nothing to those who only read it.
            meta.finalizers.clear();
            meta.owner_references.clear();
            meta.managed_fields.clear();
            meta.annotations.retain(|key, _| !key.ends_with(LAST_APPLIED) && key != LINEAGE);
            meta.annotations.insert(SHARED_FROM.to_owned(), owner.to_string());
        });
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests;
