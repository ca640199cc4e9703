//! Finding the objects that a selector may fit without looking at all of them.
use crate::keys::Keys;
use foldhash::HashMap;
use orrery_api::{FieldSelector, Kind, LabelSelector, Scheme};
use orrery_store::{Snapshot, Terms};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many keys of one term are counted to compare it with others; beyond it, many are many.
const COUNTED_MAX: usize = 10_000;

/// The terms of every kind's objects, for the store to keep an index of.
#[derive(Debug)]
pub struct ObjectTerms {
    /// By what the keys of a kind begin with.
    kinds: HashMap<String, Arc<Kind>>,
}

impl ObjectTerms {
    pub fn new(scheme: &Scheme) -> Self {
        let hubs = scheme.all_kinds().filter(|kind| kind.spoke_of().is_none() && !kind.internal());
        let keyed = |kind: &Arc<Kind>| {
            (Keys::of(kind, scheme.group_suffix()).all().to_owned(), kind.clone())
        };
        Self { kinds: hubs.map(keyed).collect() }
    }

    fn kind_of(&self, key: &str) -> Option<&Arc<Kind>> {
        let end = key.match_indices('/').nth(2).map(|(at, _)| at + 1);
        end.and_then(|end| self.kinds.get(&key[..end]))
    }
}

impl Terms for ObjectTerms {
    fn terms(&self, key: &str, value: &[u8]) -> Vec<String> {
        self.kind_of(key).map(|kind| orrery_api::terms(kind, value)).unwrap_or_default()
    }

    fn same(&self, key: &str, old: &[u8], new: &[u8]) -> bool {
        self.kind_of(key).is_none_or(|kind| orrery_api::same_terms(kind, old, new))
    }
}

/// The terms of which every object that the selectors fit has one: those that the fewest objects
/// have. `None` where every object must be looked at.
pub fn fewest(
    snapshot: &Snapshot,
    kind: &Kind,
    prefix: &str,
    labels: &LabelSelector,
    fields: &FieldSelector,
) -> Option<Vec<String>> {
    let mut requirements: Vec<_> = labels.terms().into_iter().chain(fields.terms(kind)).collect();
    if !snapshot.has_index() || requirements.len() < 2 {
        return requirements.pop().filter(|_| snapshot.has_index());
    }
    let count = |terms: &Vec<String>| -> Option<usize> {
        let keys = |term: &String| {
            let keys = snapshot.keys_with(term, prefix, "")?;
            Some(keys.take(COUNTED_MAX).count())
        };
        terms.iter().map(keys).sum()
    };
    requirements.into_iter().min_by_key(|terms| count(terms).unwrap_or(usize::MAX))
}

/// The keys under `prefix` after `after` of all objects that have one of the terms, in order. Keys
/// of one term are read as they are asked for.
pub fn keys<'a>(
    snapshot: &'a Snapshot,
    terms: &'a [String],
    prefix: &'a str,
    after: &'a str,
) -> Box<dyn Iterator<Item = &'a str> + 'a> {
    let of = move |term: &'a String| snapshot.keys_with(term, prefix, after).into_iter().flatten();
    match terms {
        [only] => Box::new(of(only)),
        several => {
            let all: BTreeSet<&str> = several.iter().flat_map(of).collect();
            Box::new(all.into_iter())
        }
    }
}
