//! Machines that the provider has and nobody here knows: found by listing, deleted after a while.
//!
//! A driver lists only what carries our tag. Even with the store lost, nothing runs up a bill for
//! ever.
use super::{Reason, Time, elapsed};
use crate::drivers::Found;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Orphans deleted in one pass at most: a mistake of ours should be slow enough to be stopped.
pub const PASS_MAX: usize = 10;

/// What is known of machines here.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub provider_ids: HashSet<String>,
    /// Of every machine resource, also of those whose provider id is not known yet.
    pub names: HashSet<String>,
    pub idempotency_keys: HashSet<String>,
}

impl Known {
    fn owns(&self, found: &Found) -> bool {
        let by = |set: &HashSet<String>, value: &String| !value.is_empty() && set.contains(value);
        by(&self.provider_ids, &found.provider_id)
            || by(&self.idempotency_keys, &found.idempotency_key)
            || by(&self.names, &found.name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanPlan {
    pub delete: Vec<(Found, Reason)>,
    /// Since when each orphan is seen; goes into the next pass.
    pub seen: HashMap<String, Time>,
    pub reasons: Vec<Reason>,
}

/// What to do with what was listed. `grace` is longer than any create takes, so that a machine whose
/// resource is about to say its id is never taken for an orphan.
pub fn plan(
    now: Time,
    listed: &[Found],
    known: &Known,
    seen: &HashMap<String, Time>,
    grace: Duration,
    frozen: bool,
) -> OrphanPlan {
    let mut plan = OrphanPlan::default();
    let is_orphan = |it: &&Found| !it.provider_id.is_empty() && !known.owns(it);
    for orphan in listed.iter().filter(is_orphan) {
        let since = seen.get(&orphan.provider_id).copied().unwrap_or(now);
        plan.seen.insert(orphan.provider_id.clone(), since);
        if elapsed(now, since) < grace || frozen {
            continue;
        }
        if plan.delete.len() < PASS_MAX {
            plan.delete.push((orphan.clone(), reason(orphan, elapsed(now, since))));
        }
    }
    if frozen && !plan.seen.is_empty() {
        let count = plan.seen.len();
        plan.reasons.push(Reason::new("Frozen", format!("{count} orphans stay while frozen")));
    }
    plan
}

fn reason(orphan: &Found, since: Duration) -> Reason {
    let (id, name, minutes) = (&orphan.provider_id, &orphan.name, since.as_secs() / 60);
    Reason::new(
        "Orphan",
        format!("{id} ({name}) is ours by its tag, and no machine has owned it for {minutes} min"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(600);

    fn mk_found(id: &str, name: &str, key: &str) -> Found {
        Found {
            provider_id: id.into(),
            name: name.into(),
            idempotency_key: key.into(),
            ..Found::default()
        }
    }

    fn at(second: i64) -> Time {
        Time::from_second(second).expect("in range")
    }

    fn known() -> Known {
        let one = |text: &str| HashSet::from([text.to_owned()]);
        Known { provider_ids: one("i-1"), names: one("m2"), idempotency_keys: one("uid-3") }
    }

    /// proves: MCH-07
    #[test]
    fn only_what_nobody_owns_goes_and_only_after_the_grace() {
        let listed = [
            mk_found("i-1", "m1", ""),
            mk_found("i-2", "m2", ""),
            mk_found("i-3", "renamed", "uid-3"),
            mk_found("i-9", "stray", "uid-9"),
            mk_found("", "", ""),
        ];
        let first = plan(at(0), &listed, &known(), &HashMap::new(), GRACE, false);
        assert!(first.delete.is_empty(), "seen for the first time");
        let early = plan(at(599), &listed, &known(), &first.seen, GRACE, false);
        assert!(early.delete.is_empty());
        let frozen = plan(at(9999), &listed, &known(), &early.seen, GRACE, true);
        assert!(frozen.delete.is_empty(), "never while frozen");
        assert_eq!(frozen.reasons.len(), 1);
        let due = plan(at(600), &listed, &known(), &frozen.seen, GRACE, false);
        let ids: Vec<&str> = due.delete.iter().map(|(it, _)| it.provider_id.as_str()).collect();
        assert_eq!(ids, ["i-9"]);
        let owned = plan(at(601), &listed[..3], &known(), &due.seen, GRACE, false);
        assert!(owned.seen.is_empty(), "what has gone is forgotten");
    }

    #[test]
    fn a_pass_is_bounded() {
        let listed: Vec<Found> = (0..50).map(|n| mk_found(&format!("i-{n}"), "", "")).collect();
        let seen = listed.iter().map(|it| (it.provider_id.clone(), at(0))).collect();
        let due = plan(at(9999), &listed, &Known::default(), &seen, GRACE, false);
        assert_eq!(due.delete.len(), PASS_MAX);
        assert_eq!(due.seen.len(), 50, "the rest comes next");
    }
}
