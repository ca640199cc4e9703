//! How copies that run are replaced when their definition changes: pure.
//!
//! *Rolling* changes as many at once as may be missing, and waits until what it changed is available.
//! What is not available anyway is changed at once: it cannot become worse, and a broken definition
//! can always be mended by the next.
//!
//! *Recreate* stops all old copies first. A copy that is changed is held: its agent stops the old
//! program and starts nothing. When the last one has stopped, all are let go.
use orrery_proto::apps::v1::{UpdateStrategy, WorkloadInstance, WorkloadInstanceSpec};

/// A copy that is there, and what it should be.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub there: &'a WorkloadInstance,
    pub wanted: &'a WorkloadInstance,
    /// Whether its agent is connected. One that is not neither counts nor holds up the others: it is
    /// told when it is back.
    pub reachable: bool,
}

/// The copies to write now. `absent` copies are missing beside these: on their way out, or not made yet.
pub fn updates(
    strategy: Option<&UpdateStrategy>,
    copies: &[Candidate<'_>],
    absent: usize,
) -> Vec<WorkloadInstance> {
    let recreate = strategy.is_some_and(|strategy| strategy.r#type() == "recreate");
    if recreate {
        return recreated(copies);
    }
    rolled(max_unavailable(strategy).saturating_sub(absent), copies)
}

/// How many copies may be missing at once.
pub fn max_unavailable(strategy: Option<&UpdateStrategy>) -> usize {
    let most = strategy.and_then(|strategy| strategy.max_unavailable).unwrap_or(1);
    usize::try_from(most).unwrap_or(1).max(1)
}

/// Whether a copy is not yet what it should be.
pub fn is_outdated(copy: &Candidate<'_>) -> bool {
    copy.there.spec != copy.wanted.spec
}

fn rolled(may_be_missing: usize, copies: &[Candidate<'_>]) -> Vec<WorkloadInstance> {
    let reachable = copies.iter().filter(|copy| copy.reachable);
    let missing = reachable.filter(|copy| !is_available(copy.there)).count();
    let mut budget = may_be_missing.saturating_sub(missing);
    let mut updates = Vec::new();
    for copy in copies.iter().filter(|copy| is_outdated(copy)) {
        if copy.reachable && is_available(copy.there) {
            if budget == 0 {
                continue;
            }
            budget -= 1;
        }
        updates.push(copy.wanted.clone());
    }
    updates
}

fn recreated(copies: &[Candidate<'_>]) -> Vec<WorkloadInstance> {
    let (old, new): (Vec<_>, Vec<_>) = copies.iter().partition(|copy| !is_same_but_held(copy));
    if !old.is_empty() {
        // A copy that does not run anything has nothing to stop, but must not start early either.
        return old.into_iter().map(|copy| held(copy.wanted)).collect();
    }
    let held = |copy: &&Candidate<'_>| copy.there.spec.as_ref().is_some_and(|spec| spec.held());
    let waiting: Vec<_> = new.into_iter().filter(held).collect();
    let stopped = waiting.iter().all(|copy| !copy.reachable || has_stopped(copy.there));
    if stopped { waiting.into_iter().map(|copy| copy.wanted.clone()).collect() } else { Vec::new() }
}

/// Whether it is what it should be, except that it may be held.
fn is_same_but_held(copy: &Candidate<'_>) -> bool {
    let free = |copy: &WorkloadInstance| {
        let spec = copy.spec.clone().unwrap_or_default();
        WorkloadInstanceSpec { held: None, ..spec }
    };
    free(copy.there) == free(copy.wanted)
}

fn held(wanted: &WorkloadInstance) -> WorkloadInstance {
    let mut copy = wanted.clone();
    if let Some(spec) = &mut copy.spec {
        spec.held = Some(true);
    }
    copy
}

/// Whether a copy runs what its spec says and can do its work.
pub fn is_available(copy: &WorkloadInstance) -> bool {
    let generation = copy.metadata.as_ref().map_or(0, |meta| meta.generation);
    copy.status.as_ref().is_some_and(|status| {
        status.observed_generation == generation
            && matches!(status.state.as_str(), "Running" | "Succeeded")
            && status.ready != Some(false)
    })
}

fn has_stopped(copy: &WorkloadInstance) -> bool {
    let generation = copy.metadata.as_ref().map_or(0, |meta| meta.generation);
    copy.status.as_ref().is_some_and(|status| {
        let runs = matches!(status.state.as_str(), "Running" | "Stopping");
        status.observed_generation == generation && !runs
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::WorkloadInstanceStatus;
    use orrery_proto::meta::v1::ObjectMeta;
    use proptest::prelude::*;

    fn mk_copy(name: usize, version: i32, state: &str) -> WorkloadInstance {
        let metadata =
            ObjectMeta { name: format!("c{name}"), generation: 1, ..ObjectMeta::default() };
        let spec = WorkloadInstanceSpec {
            stop_grace_seconds: Some(version),
            ..WorkloadInstanceSpec::default()
        };
        let status = WorkloadInstanceStatus {
            state: state.into(),
            observed_generation: 1,
            ..WorkloadInstanceStatus::default()
        };
        WorkloadInstance {
            metadata: Some(metadata),
            spec: Some(spec),
            status: Some(status),
            ..WorkloadInstance::default()
        }
    }

    /// A world of copies that agents bring to what is written, one after the other.
    struct World {
        copies: Vec<WorkloadInstance>,
        reachable: Vec<bool>,
    }

    impl World {
        fn updates(&self, strategy: &UpdateStrategy) -> Vec<WorkloadInstance> {
            let wanted: Vec<WorkloadInstance> =
                (0..self.copies.len()).map(|at| mk_copy(at, 2, "")).collect();
            let candidates = self.copies.iter().zip(&wanted).zip(&self.reachable);
            let candidates: Vec<Candidate<'_>> = candidates
                .map(|((there, wanted), reachable)| Candidate {
                    there,
                    wanted,
                    reachable: *reachable,
                })
                .collect();
            updates(Some(strategy), &candidates, 0)
        }

        /// Writes what the plan says.
        fn write(&mut self, updates: Vec<WorkloadInstance>) {
            for update in updates {
                let at = self.position(&update);
                let copy = &mut self.copies[at];
                copy.spec = update.spec;
                copy.metadata.as_mut().unwrap().generation += 1;
            }
        }

        fn position(&self, update: &WorkloadInstance) -> usize {
            let name = |copy: &WorkloadInstance| copy.metadata.as_ref().unwrap().name.clone();
            self.copies.iter().position(|copy| name(copy) == name(update)).unwrap()
        }

        /// The agent of one copy does what is written, if it is there.
        fn act(&mut self, at: usize) {
            if !self.reachable[at] {
                return;
            }
            let copy = &mut self.copies[at];
            let held = copy.spec.as_ref().unwrap().held();
            let status = copy.status.as_mut().unwrap();
            status.state = if held { "Pending" } else { "Running" }.into();
            status.observed_generation = copy.metadata.as_ref().unwrap().generation;
        }

        fn version(&self, at: usize) -> i32 {
            self.copies[at].spec.as_ref().unwrap().stop_grace_seconds()
        }

        fn runs(&self, at: usize) -> bool {
            self.copies[at].status.as_ref().unwrap().state == "Running"
        }
    }

    fn strategy(kind: &str, max_unavailable: i32) -> UpdateStrategy {
        UpdateStrategy { r#type: Some(kind.into()), max_unavailable: Some(max_unavailable) }
    }

    #[track_caller]
    fn check(kind: &str, most: i32, states: &[&str], expect: usize) {
        let copies: Vec<_> = states.iter().enumerate().map(|(at, s)| mk_copy(at, 1, s)).collect();
        let world = World { reachable: vec![true; copies.len()], copies };
        assert_eq!(world.updates(&strategy(kind, most)).len(), expect, "{states:?}");
    }

    #[test]
    fn as_many_as_may_be_missing_and_all_that_are_missing_anyway() {
        check("rolling", 1, &["Running", "Running", "Running"], 1);
        check("rolling", 2, &["Running", "Running", "Running"], 2);
        check("rolling", 1, &["Running", "Failed", "Running"], 1);
        check("rolling", 2, &["Running", "Failed", "Running"], 2);
        check("rolling", 1, &["Failed", "Pending"], 2);
        check("recreate", 1, &["Running", "Running"], 2);
    }

    #[test]
    fn a_copy_out_of_reach_holds_up_nobody() {
        let copies = vec![mk_copy(0, 1, "Failed"), mk_copy(1, 1, "Running")];
        let world = World { copies, reachable: vec![false, true] };
        assert_eq!(world.updates(&strategy("rolling", 1)).len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Whatever the order in which agents act, never more are missing than may be, and in the end
        /// all run the new version.
        #[test]
        fn rolling_keeps_enough_and_ends(
            count in 1_usize..8, most in 1_i32..4, order in proptest::collection::vec(any::<usize>(), 400),
        ) {
            let copies: Vec<_> = (0..count).map(|at| mk_copy(at, 1, "Running")).collect();
            let mut world = World { reachable: vec![true; count], copies };
            let strategy = strategy("rolling", most);
            for step in order {
                let updates = world.updates(&strategy);
                world.write(updates);
                let missing = world.copies.iter().filter(|copy| !is_available(copy)).count();
                prop_assert!(missing <= usize::try_from(most).unwrap());
                world.act(step % count);
            }
            for at in 0..count {
                prop_assert_eq!((world.version(at), world.runs(at)), (2, true));
            }
            prop_assert!(world.updates(&strategy).is_empty());
        }

        /// Old and new never run at the same time, and in the end all run the new version; those out
        /// of reach have it written and hold up nobody.
        #[test]
        fn recreate_never_mixes_and_ends(
            reachable in proptest::collection::vec(any::<bool>(), 1..7),
            order in proptest::collection::vec(any::<usize>(), 400),
        ) {
            let count = reachable.len();
            let copies: Vec<_> = (0..count).map(|at| mk_copy(at, 1, "Running")).collect();
            let mut running_version = vec![1; count];
            let mut world = World { copies, reachable: reachable.clone() };
            let strategy = strategy("recreate", 1);
            for step in order {
                let updates = world.updates(&strategy);
                world.write(updates);
                world.act(step % count);
                if world.reachable[step % count] {
                    running_version[step % count] = world.version(step % count);
                }
                let versions: std::collections::BTreeSet<i32> = (0..count)
                    .filter(|at| world.reachable[*at] && world.runs(*at))
                    .map(|at| running_version[at])
                    .collect();
                prop_assert!(versions.len() <= 1, "{:?} run at once", versions);
            }
            for at in 0..count {
                prop_assert_eq!(world.version(at), 2);
                prop_assert!(!world.copies[at].spec.as_ref().unwrap().held());
            }
        }
    }
}
