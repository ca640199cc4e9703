//! What is given and what is there become what is next: pure.
use crate::options::{Merge, Part, Propagation};
use orrery_api::{Object, ObjectError};
use prost_types::Timestamp;

/// A new object: what the server owns is the server's.
pub fn created(given: &Object, uid: &str, now: Timestamp) -> Object {
    let mut next = given.clone();
    next.begin(uid, now);
    next
}

/// An object that changes.
pub fn updated(
    old: &Object,
    given: &Object,
    part: Part,
    how: Merge,
) -> Result<Object, ObjectError> {
    match part {
        Part::Status => {
            let mut next = old.clone();
            next.copy_status_from(given)?;
            Ok(next)
        }
        Part::Main | Part::Scale => {
            let mut next = given.clone();
            next.default();
            next.copy_status_from(old)?;
            keep_server_owned(&mut next, old, how);
            Ok(counted(next, old))
        }
    }
}

/// A change of the spec is a new generation.
pub fn counted(mut next: Object, old: &Object) -> Object {
    if !next.asks_same(old) {
        next.set_generation(old.generation() + 1);
    }
    next
}

/// An object that waits for its finalizers. Asked again, it keeps the time of the first request.
pub fn marked_for_deletion(old: &Object, finalizers: Vec<String>, now: Timestamp) -> Object {
    let mut next = old.clone();
    next.update_meta(|meta| {
        if meta.deletion_timestamp.is_none() {
            meta.deletion_timestamp = Some(now);
            meta.generation += 1;
        }
        meta.finalizers = finalizers;
    });
    next
}

/// The finalizers of an object that is asked to go: the wish for what it owns is one of them, and
/// the latest wish counts.
pub fn finalizers_to_go(held: &[String], wish: Option<Propagation>) -> Vec<String> {
    let Some(wish) = wish else { return held.to_vec() };
    let others = held.iter().filter(|held| !is_wish(held)).cloned();
    others.chain(wish.finalizer().map(str::to_owned)).collect()
}

/// Whether a finalizer carries what a deletion asked for.
pub fn is_wish(finalizer: &str) -> bool {
    [Propagation::FOREGROUND_FINALIZER, Propagation::ORPHAN_FINALIZER].contains(&finalizer)
}

/// Changes as little as it can: this is done for every write.
fn keep_server_owned(next: &mut Object, old: &Object, how: Merge) {
    next.copy_server_owned_from(old);
    if how != Merge::Declared {
        return;
    }
    let named = next.finalizers();
    let silent = named.is_empty();
    // Whoever names its own finalizers does not take back what a deletion asked for.
    let kept = old.finalizers().into_iter().filter(|held| silent || is_wish(held));
    let missing: Vec<String> =
        kept.filter(|held| !named.contains(held)).map(str::to_owned).collect();
    let unowned = !next.has_owners() && old.has_owners();
    if missing.is_empty() && !unowned {
        return;
    }
    next.update_meta(|meta| {
        meta.finalizers.extend(missing);
        if unowned {
            meta.owner_references = old.meta().owner_references;
        }
    });
}
