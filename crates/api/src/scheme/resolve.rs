//! Finds a kind by whatever name a person typed.
use std::sync::Arc;

use super::{ResolveError, Scheme};
use crate::{kind::Kind, suggest::did_you_mean};

impl Scheme {
    /// Finds a kind by kind, plural, singular or short name, in any case, or by `plural.group`
    /// and `plural.version.group`. With an empty API version the preferred version is meant.
    pub fn resolve(&self, api_version: &str, name: &str) -> Result<Arc<Kind>, ResolveError> {
        // Programs name kinds exactly and ask often.
        if let Some(known) = self.by_name.get(name) {
            let mut served = known
                .iter()
                .filter(|kind| api_version.is_empty() || kind.api_version() == api_version);
            if let Some(first) = served.next()
                && served.all(|kind| same_family(first, kind))
            {
                return Ok(Arc::clone(first));
            }
        }
        let wanted = name.to_lowercase();
        let (short, group) = match wanted.split_once('.') {
            Some((short, group)) => (short, group),
            None => (wanted.as_str(), ""),
        };
        let named = self.named(short);
        let in_group: Vec<&Arc<Kind>> =
            named.iter().copied().filter(|kind| self.is_in_group(kind, group)).collect();
        if in_group.is_empty() {
            return Err(self.unknown(api_version, name, name.starts_with(char::is_uppercase)));
        }
        let served: Vec<&Arc<Kind>> = in_group
            .iter()
            .copied()
            .filter(|kind| api_version.is_empty() || kind.api_version() == api_version)
            .collect();
        match served.split_first() {
            None => Err(wrong_version(&in_group, api_version)),
            // Versions of one kind stand together, the preferred one first.
            Some((first, rest)) if rest.iter().all(|kind| same_family(first, kind)) => {
                Ok(Arc::clone(first))
            }
            Some(_) => Err(ambiguous(name, &served)),
        }
    }

    /// Notes what each kind's own name leads to.
    pub(super) fn with_names(mut self) -> Self {
        let found = |kind: &Arc<Kind>| {
            let named = self.named(kind.singular()).into_iter().cloned().collect();
            (kind.kind().to_owned(), named)
        };
        self.by_name = self.kinds().map(found).collect();
        self
    }

    /// Finds a kind as a manifest names it: exactly, with its API version.
    pub(super) fn resolve_exact(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Arc<Kind>, ResolveError> {
        let mut exact = self.kinds().filter(|known| known.kind() == kind).peekable();
        if exact.peek().is_none() {
            return Err(self.unknown(api_version, kind, true));
        }
        let all: Vec<&Arc<Kind>> = exact.collect();
        let found = all.iter().find(|known| known.api_version() == api_version);
        found.map(|kind| Arc::clone(kind)).ok_or_else(|| wrong_version(&all, api_version))
    }

    /// Kinds with this full name, or, when there are none, with this short name.
    fn named(&self, name: &str) -> Vec<&Arc<Kind>> {
        let full = |kind: &&Arc<Kind>| kind.singular() == name || kind.plural() == name;
        let by_full_name: Vec<&Arc<Kind>> = self.kinds().filter(full).collect();
        if !by_full_name.is_empty() {
            return by_full_name;
        }
        self.kinds().filter(|kind| kind.short_names().iter().any(|short| short == name)).collect()
    }

    /// Whether `group` (empty, with or without suffix, with or without a version before it)
    /// means the group of `kind`.
    fn is_in_group(&self, kind: &Kind, group: &str) -> bool {
        let bare = kind.group().strip_suffix(&format!(".{}", self.suffix)).unwrap_or_default();
        let fits = |group: &str| group == kind.group() || group == bare;
        let versioned = group.split_once('.');
        group.is_empty()
            || fits(group)
            || versioned.is_some_and(|(version, group)| version == kind.version() && fits(group))
    }

    /// Manifests name kinds, and people at a prompt mostly plurals: `as_kinds` says what to
    /// suggest.
    fn unknown(&self, api_version: &str, name: &str, as_kinds: bool) -> ResolveError {
        let names = self.kinds().flat_map(|kind| match as_kinds {
            true => vec![kind.kind()],
            false => vec![kind.plural(), kind.singular()],
        });
        let hint = did_you_mean(name, names);
        ResolveError::Unknown { name: name.to_owned(), api_version: api_version.to_owned(), hint }
    }
}

fn same_family(a: &Kind, b: &Kind) -> bool {
    a.group() == b.group() && a.kind() == b.kind()
}

fn wrong_version(kinds: &[&Arc<Kind>], api_version: &str) -> ResolveError {
    ResolveError::WrongVersion {
        kind: kinds.first().map(|kind| kind.kind().to_owned()).unwrap_or_default(),
        api_version: api_version.to_owned(),
        served: kinds.iter().map(|kind| format!("{:?}", kind.api_version())).collect(),
    }
}

fn ambiguous(name: &str, kinds: &[&Arc<Kind>]) -> ResolveError {
    let mut candidates: Vec<String> = kinds.iter().map(|kind| kind.qualified_plural()).collect();
    candidates.dedup();
    ResolveError::Ambiguous { name: name.to_owned(), candidates }
}
