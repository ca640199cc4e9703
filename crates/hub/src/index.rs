//! Finding the objects that a selector may fit without looking at all of them.
use crate::keys::Keys;
use orrery_api::{FieldSelector, Kind, LabelSelector, Scheme};
use orrery_store::{Snapshot, Terms};
use std::collections::{BTreeSet, HashMap};
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
}

impl Terms for ObjectTerms {
    fn terms(&self, key: &str, value: &[u8]) -> Vec<String> {
        let end = key.match_indices('/').nth(2).map(|(at, _)| at + 1);
        let kind = end.and_then(|end| self.kinds.get(&key[..end]));
        kind.map(|kind| orrery_api::terms(kind, value)).unwrap_or_default()
    }
}

/// The keys under `prefix` after `after` of all objects that the selectors may fit, in order; `None`
/// where every object must be looked at.
pub fn candidates(
    snapshot: &Snapshot,
    kind: &Kind,
    prefix: &str,
    after: &str,
    labels: &LabelSelector,
    fields: &FieldSelector,
) -> Option<Vec<String>> {
    let count = |terms: &Vec<String>| -> Option<usize> {
        let keys = |term: &String| {
            let keys = snapshot.keys_with(term, prefix, after)?;
            Some(keys.take(COUNTED_MAX).count())
        };
        terms.iter().map(keys).sum()
    };
    let requirements = labels.terms().into_iter().chain(fields.terms(kind));
    let counted = requirements.filter_map(|terms| Some((count(&terms)?, terms)));
    let (_, fewest) = counted.min_by_key(|(count, _)| *count)?;
    let mut keys = BTreeSet::new();
    for term in &fewest {
        keys.extend(snapshot.keys_with(term, prefix, after)?.map(str::to_owned));
    }
    Some(keys.into_iter().collect())
}
