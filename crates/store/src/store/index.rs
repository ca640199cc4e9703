//! Which entries have which terms, kept with the entries and shared with every snapshot of them.
//!
//! What terms are is up to whoever reads the values: see [`Terms`]. A place of the index is a term, a
//! NUL and a key, so that the keys of one term stand together, in order.

use std::{fmt, ops::Bound, sync::Arc};

use imbl::OrdSet;

use crate::model::Entry;

/// Says by which terms an entry can be found. Pure: the same entry always has the same terms.
pub trait Terms: fmt::Debug + Send + Sync {
    fn terms(&self, key: &str, value: &[u8]) -> Vec<String>;

    /// Whether an entry has the same terms with either value. Most changes leave them as they are, so it is worth not
    /// making them to know.
    fn same(&self, key: &str, old: &[u8], new: &[u8]) -> bool {
        self.terms(key, old) == self.terms(key, new)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Index {
    terms: Arc<dyn Terms>,
    places: OrdSet<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(Box<str>);

impl std::borrow::Borrow<str> for Place {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn place(term: &str, key: &str) -> Place {
    Place(format!("{term}\0{key}").into())
}

impl Index {
    /// An index of these places, which [`Index::places`] told for the same terms.
    pub fn of(terms: Arc<dyn Terms>, places: Vec<Place>) -> Self {
        Self { terms, places: places.into_iter().collect() }
    }

    /// Where an entry stands in the index.
    pub fn places(terms: &dyn Terms, entry: &Entry) -> impl Iterator<Item = Place> {
        let found = terms.terms(&entry.key, &entry.value);
        found.into_iter().map(move |term| place(&term, &entry.key))
    }

    /// Takes in that an entry took the place of another, or of none, or went.
    pub fn change(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        if let (Some(old), Some(new)) = (old, new)
            && self.terms.same(&new.key, &old.value, &new.value)
        {
            return;
        }
        let terms = |entry: Option<&Entry>| {
            entry.map(|entry| self.terms.terms(&entry.key, &entry.value)).unwrap_or_default()
        };
        let (before, after) = (terms(old), terms(new));
        for term in before {
            if let Some(old) = old {
                self.places.remove::<str>(&place(&term, &old.key).0);
            }
        }
        for term in after {
            if let Some(new) = new {
                self.places.insert(place(&term, &new.key));
            }
        }
    }

    /// The keys under `prefix` that have a term, after the key `after`, in order.
    pub fn keys<'a>(
        &'a self,
        term: &'a str,
        prefix: &'a str,
        after: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        let from = match prefix <= after {
            true => Bound::Excluded(place(term, after)),
            false => Bound::Included(place(term, prefix)),
        };
        let begin = format!("{term}\0");
        let range = self.places.range::<_, Place>((from, Bound::Unbounded));
        range
            .map_while(move |place| place.0.strip_prefix(begin.as_str()))
            .take_while(move |key| key.starts_with(prefix))
    }
}
