//! Lists in parts: in the order of project names and object names, true at one revision.
//!
//! ```text
//!   one project:    its keys, in their order
//!   all in a page:  every key; whoever names the projects brings them in order
//!   all in parts:   project after project by name, then what is left of projects that are gone
//! ```
//! Keys hold the ids of projects, so their order is not that of the names. Projects themselves stand
//! by their names in the same snapshot: a list that goes on finds its place there, and a page costs
//! what it holds and what it walks past.
use crate::cursor::Cursor;
use crate::error::Error;
use crate::index;
use crate::keys::Keys;
use crate::options::{ListOptions, Page};
use crate::projects::Projects;
use crate::refusal::from_store;
use crate::store_accessor::fits;
use orrery_api::{Encoded, Kind, SYSTEM_PROJECT};
use orrery_store::{Entry, Snapshot, Store};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Where the objects of a kind are and how they are read.
pub struct Shelf<'a> {
    pub kind: &'a Kind,
    pub keys: &'a Keys,
    pub projects: &'a Projects,
    /// Whether the index of the store knows the objects.
    pub indexed: bool,
}

/// Which objects stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Group {
    /// Those of one project, by its id, which are all that is listed.
    Only(String),
    /// Those of the project of this name, among others.
    Named(String),
    /// What is left of a project that is gone, by its id.
    Stray(String),
    /// Those of all projects, in the order of their ids.
    Everything,
}

/// A stretch of keys.
#[derive(Debug)]
struct Stretch {
    group: Group,
    /// What the keys begin with before the names of objects.
    base: String,
    /// What the wanted keys begin with.
    prefix: String,
    after: String,
}

/// The last object that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    group: Group,
    name: String,
}

impl Place {
    fn write(&self, keys: &Keys) -> String {
        let (letter, project) = match &self.group {
            Group::Only(id) => ("o", id.as_str()),
            Group::Named(name) => ("n", name.as_str()),
            Group::Stray(id) => ("s", id.as_str()),
            Group::Everything => ("e", ""),
        };
        format!("{}{letter}/{project}/{}", keys.all(), self.name)
    }

    fn read(keys: &Keys, text: &str) -> Option<Self> {
        let (letter, rest) = text.strip_prefix(keys.all())?.split_once('/')?;
        let (project, name) = rest.split_once('/')?;
        let project = project.to_owned();
        let group = match letter {
            "o" => Group::Only(project),
            "n" => Group::Named(project),
            "s" => Group::Stray(project),
            _ => return None,
        };
        Some(Self { group, name: name.to_owned() })
    }
}

/// Where one part of a project's list begins: the state that it is of, and the name that it comes after.
pub(crate) struct Beginning {
    pub snapshot: Snapshot,
    /// Empty at the beginning.
    pub after: String,
}

/// Finds the beginning of a part of the list of one project, by its id.
pub(crate) async fn begin(
    keys: &Keys,
    store: &Store,
    options: &ListOptions,
    project: &str,
) -> Result<Beginning, Error> {
    let cursor = options.continue_from.as_deref().map(Cursor::decode).transpose()?;
    let after = match &cursor {
        None => String::new(),
        Some(cursor) => match Place::read(keys, &cursor.after) {
            Some(Place { group: Group::Only(of), name }) if of == project => name,
            Some(_) | None => return Err(foreign_token()),
        },
    };
    let snapshot = state(store, options, cursor.as_ref()).await?;
    Ok(Beginning { snapshot, after })
}

/// The place after an object in the list of its project.
pub(crate) fn only(keys: &Keys, project: &str, name: &str) -> String {
    Place { group: Group::Only(project.to_owned()), name: name.to_owned() }.write(keys)
}

/// The state that a part of a list is of.
async fn state(
    store: &Store,
    options: &ListOptions,
    cursor: Option<&Cursor>,
) -> Result<Snapshot, Error> {
    let at = cursor.map_or(options.at, |cursor| cursor.revision);
    let snapshot = match at {
        Some(revision) => store.snapshot_at(revision).await,
        None => store.snapshot().await,
    };
    snapshot.map_err(|error| resumable(from_store(error), cursor))
}

/// One part of a list. `read` makes an object of the entry that stands for it.
pub async fn list(
    shelf: &Shelf<'_>,
    store: &Store,
    options: &ListOptions,
    read: impl Fn(&Snapshot, &Entry) -> Result<Encoded, Error>,
) -> Result<Page<Encoded>, Error> {
    let cursor = options.continue_from.as_deref().map(Cursor::decode).transpose()?;
    let from = match &cursor {
        None => None,
        Some(cursor) => Some(Place::read(shelf.keys, &cursor.after).ok_or_else(foreign_token)?),
    };
    let snapshot = state(store, options, cursor.as_ref()).await?;
    let mut walk = Walk::new(shelf, &snapshot, options, from)?;
    let revision = snapshot.revision();
    let page = Page { items: Vec::new(), revision, continue_from: None, remaining: None };
    let mut filling = Filling { options, page, last: None, more: false };
    while let Some(stretch) = walk.next()? {
        let read = |entry: &Entry| read(&snapshot, entry);
        if filling.take(shelf, &snapshot, &stretch, read)?.is_break() {
            break;
        }
    }
    let Filling { mut page, last, more, .. } = filling;
    if let Some(last) = last.filter(|_| more) {
        // Only the first page counts: the others know what the one before has left.
        let all = match &cursor {
            None => Some(snapshot.count(&walk.whole()) as u64),
            Some(cursor) => cursor.remaining,
        };
        let selects = !options.labels.is_empty() || !options.fields.is_empty();
        let left = all.map(|all| all.saturating_sub(page.items.len() as u64));
        page.remaining = left.filter(|_| !selects);
        let (revision, after) = (Some(revision), last.write(shelf.keys));
        page.continue_from = Some(Cursor { revision, after, remaining: page.remaining }.encode());
        store.keep(&snapshot);
    }
    Ok(page)
}

/// A list whose moment is forgotten may go on with what is there now.
fn resumable(error: Error, cursor: Option<&Cursor>) -> Error {
    match (error, cursor) {
        (Error::Expired { requested, oldest, .. }, Some(cursor)) => {
            let fresh = Cursor { revision: None, remaining: None, after: cursor.after.clone() };
            Error::Expired { requested, oldest, resume: Some(fresh.encode()) }
        }
        (error, _) => error,
    }
}

fn foreign_token() -> Error {
    Error::BadRequest("the continue token belongs to another list; start this one again".into())
}

/// A page that is being filled.
struct Filling<'a> {
    options: &'a ListOptions,
    page: Page<Encoded>,
    last: Option<Place>,
    more: bool,
}

impl Filling<'_> {
    fn take(
        &mut self,
        shelf: &Shelf<'_>,
        snapshot: &Snapshot,
        stretch: &Stretch,
        read: impl Fn(&Entry) -> Result<Encoded, Error>,
    ) -> Result<ControlFlow<()>, Error> {
        let (prefix, after) = (stretch.prefix.as_str(), stretch.after.as_str());
        let ListOptions { labels, fields, .. } = self.options;
        let terms = match shelf.indexed {
            true => index::fewest(snapshot, shelf.kind, prefix, labels, fields),
            false => None,
        };
        let mut entries: Box<dyn Iterator<Item = &Arc<Entry>>> = match &terms {
            Some(terms) => {
                let keys = index::keys(snapshot, terms, prefix, after);
                Box::new(keys.filter_map(|key| snapshot.get(key)))
            }
            None => Box::new(snapshot.range_after(prefix, after)),
        };
        let full =
            |items: &Vec<Encoded>| 0 < self.options.limit && items.len() == self.options.limit;
        let mut last = None;
        let outcome = entries.try_for_each(|entry| {
            let found = match read(entry) {
                Ok(found) => found,
                Err(error) => return ControlFlow::Break(Err(error)),
            };
            match fits(&found, labels, fields) {
                Ok(false) => return ControlFlow::Continue(()),
                Ok(true) if full(&self.page.items) => return ControlFlow::Break(Ok(())),
                Ok(true) => {}
                Err(error) => return ControlFlow::Break(Err(error)),
            }
            self.page.items.push(found);
            last = Some(entry);
            ControlFlow::Continue(())
        });
        if let Some(last) = last {
            let name = last.key.strip_prefix(&stretch.base).unwrap_or_default().to_owned();
            self.last = Some(Place { group: stretch.group.clone(), name });
        }
        match outcome {
            ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
            ControlFlow::Break(Ok(())) => {
                self.more = true;
                Ok(ControlFlow::Break(()))
            }
            ControlFlow::Break(Err(error)) => Err(error),
        }
    }
}

/// Goes from stretch to stretch.
struct Walk<'a> {
    shelf: &'a Shelf<'a>,
    snapshot: &'a Snapshot,
    /// The one name that is wanted, where it is known.
    name: Option<&'a str>,
    next: Next,
    /// The one project that is listed.
    only: Option<String>,
}

enum Next {
    This(Stretch),
    /// The project of this name, after the object of this name.
    Within(String, String),
    /// The project after this one.
    After(String),
    /// What is left of gone projects: after an id, or within it after an object.
    Strays(String, Option<String>),
    Over,
}

impl<'a> Walk<'a> {
    fn new(
        shelf: &'a Shelf<'a>,
        snapshot: &'a Snapshot,
        options: &'a ListOptions,
        from: Option<Place>,
    ) -> Result<Self, Error> {
        let named = options.project.as_deref().or(options.fields.exact("metadata.project"));
        let system = shelf.kind.cluster_scoped().then_some(SYSTEM_PROJECT);
        let only = named.or(system).map(str::to_owned);
        let name = options.fields.exact("metadata.name");
        let mut walk = Self { shelf, snapshot, name, next: Next::Over, only };
        let limit = options.limit;
        walk.next = match (&walk.only, from) {
            (Some(id), None) => Next::This(walk.stretch(Group::Only(id.clone()), id, None)),
            (Some(id), Some(Place { group: Group::Only(of), name })) if of == *id => {
                Next::This(walk.stretch(Group::Only(of), id, Some(&name)))
            }
            (None, None) if limit == 0 || snapshot.count(shelf.keys.all()) <= limit => {
                let all = shelf.keys.all().to_owned();
                let (base, prefix) = (all.clone(), all);
                Next::This(Stretch { group: Group::Everything, base, prefix, after: String::new() })
            }
            (None, None) => Next::After(String::new()),
            (None, Some(Place { group: Group::Named(project), name })) => {
                Next::Within(project, name)
            }
            (None, Some(Place { group: Group::Stray(id), name })) => Next::Strays(id, Some(name)),
            (_, Some(_)) => return Err(foreign_token()),
        };
        Ok(walk)
    }

    /// What everything that is listed begins with, selectors aside.
    fn whole(&self) -> String {
        let all = || self.shelf.keys.all().to_owned();
        self.only.as_ref().map_or_else(all, |id| self.shelf.keys.project(id))
    }

    /// The objects of a project, after one of them. A list of one name is a look-up, not a scan.
    fn stretch(&self, group: Group, id: &str, after: Option<&str>) -> Stretch {
        let keys = self.shelf.keys;
        let base = keys.project(id);
        let prefix = self.name.map_or_else(|| base.clone(), |name| keys.object(id, name));
        // No key is empty, so everything comes after the empty one.
        let after = after.map(|name| keys.object(id, name)).unwrap_or_default();
        Stretch { group, base, prefix, after }
    }

    fn next(&mut self) -> Result<Option<Stretch>, Error> {
        loop {
            match std::mem::replace(&mut self.next, Next::Over) {
                Next::This(stretch) => return Ok(Some(stretch)),
                Next::Within(project, after) => {
                    let id = self.shelf.projects.id_in(self.snapshot, &project)?;
                    self.next = Next::After(project.clone());
                    if let Some(id) = id {
                        let group = Group::Named(project);
                        return Ok(Some(self.stretch(group, &id, Some(&after))));
                    }
                }
                Next::After(project) => {
                    let next = self.shelf.projects.next_in(self.snapshot, &project)?;
                    let Some((project, id)) = next else {
                        self.next = Next::Strays(String::new(), None);
                        continue;
                    };
                    self.next = Next::After(project.clone());
                    return Ok(Some(self.stretch(Group::Named(project), &id, None)));
                }
                Next::Strays(id, Some(after)) => {
                    self.next = Next::Strays(id.clone(), None);
                    let group = Group::Stray(id.clone());
                    return Ok(Some(self.stretch(group, &id, Some(&after))));
                }
                Next::Strays(after, None) => {
                    let Some(id) = self.stray_after(&after)? else { return Ok(None) };
                    self.next = Next::Strays(id.clone(), None);
                    return Ok(Some(self.stretch(Group::Stray(id.clone()), &id, None)));
                }
                Next::Over => return Ok(None),
            }
        }
    }

    /// The next id that no project has and objects still stand under.
    fn stray_after(&self, after: &str) -> Result<Option<String>, Error> {
        let mut known = HashSet::new();
        let mut project = String::new();
        while let Some((name, id)) = self.shelf.projects.next_in(self.snapshot, &project)? {
            known.insert(id);
            project = name;
        }
        let all = self.shelf.keys.all();
        let mut after = after.to_owned();
        loop {
            // No name of an object begins with the last letter that there is.
            let past = match after.as_str() {
                "" => String::new(),
                id => format!("{}{}", self.shelf.keys.project(id), char::MAX),
            };
            let Some(entry) = self.snapshot.range_after(all, &past).next() else {
                return Ok(None);
            };
            let rest = entry.key.strip_prefix(all).unwrap_or_default();
            let id = rest.split('/').next().unwrap_or_default();
            if !known.contains(id) {
                return Ok(Some(id.to_owned()));
            }
            after = id.to_owned();
        }
    }
}

/// Brings the objects of several projects in the order of the names of these. Within a project the
/// order stays as it is.
pub fn by_project(items: &mut [Encoded]) {
    let project = |item: &Encoded| item.project().map(str::to_owned).unwrap_or_default();
    if !items.is_sorted_by_key(&project) {
        items.sort_by_cached_key(project);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;

    fn keys() -> &'static Keys {
        static KEYS: OnceLock<Keys> = OnceLock::new();
        KEYS.get_or_init(|| {
            let scheme = orrery_testkit::scheme().expect("the kinds are well defined");
            let kind = scheme.resolve("", "Bundle").expect("it is registered");
            Keys::of(&kind, scheme.group_suffix())
        })
    }

    proptest! {
        /// A place is read as it was written, and nothing else is read.
        #[test]
        fn places_are_read_as_they_were_written(which in 0..3_u8, project in "[^/]*", name in ".*") {
            let group = match which {
                0 => Group::Only(project),
                1 => Group::Named(project),
                _ => Group::Stray(project),
            };
            let (keys, place) = (keys(), Place { group, name });
            prop_assert_eq!(Place::read(keys, &place.write(keys)), Some(place));
        }
    }

    #[test]
    fn places_of_other_lists_are_not_read() {
        let keys = keys();
        for text in ["", "objects/apps/Workload/n/p/a", "n/p/a"] {
            assert_eq!(Place::read(keys, text), None, "{text}");
        }
        assert_eq!(Place::read(keys, &format!("{}e//a", keys.all())), None);
    }
}
