//! What of a cluster that goes is taken away next: pure.
//!
//! Addons first, the last one of the blueprint before the others, while the machines are there that run them; then
//! the machines; then what they were made from. Addons that do not stop in time go with their machines.
use std::time::Duration;

/// How long addons may take to stop before the machines go. Their own grace is part of it, and an agent that is lost
/// stops nothing: it must not keep a cluster for ever.
pub const ADDONS_GRACE: Duration = Duration::from_secs(120);

/// What is left of a cluster, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Workloads, in the order in which they were put in place.
    pub workloads: Vec<String>,
    pub deployments: Vec<String>,
    pub classes: Vec<String>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take these workloads away, and wait for them.
    Workloads(Vec<String>),
    /// Take these workloads and all machines away, and wait for them.
    Machines { workloads: Vec<String>, deployments: Vec<String> },
    /// Take the classes away, and wait for them.
    Classes(Vec<String>),
    /// Nothing is left.
    Done,
}

/// Decides; `since` is how long the deletion has been asked for.
pub fn next(left: &Left, since: Duration) -> Step {
    match left.workloads.last() {
        Some(last) if since < ADDONS_GRACE => return Step::Workloads(vec![last.clone()]),
        Some(_) | None => {}
    }
    if !left.workloads.is_empty() || !left.deployments.is_empty() {
        let (workloads, deployments) = (left.workloads.clone(), left.deployments.clone());
        return Step::Machines { workloads, deployments };
    }
    match left.classes.is_empty() {
        false => Step::Classes(left.classes.clone()),
        true => Step::Done,
    }
}

impl Step {
    /// What is waited for, in words.
    pub fn said(&self) -> String {
        match self {
            Self::Workloads(names) => format!("waiting for addons to stop: {}", names.join(", ")),
            Self::Machines { workloads, deployments } => {
                let all: Vec<&str> =
                    workloads.iter().chain(deployments).map(String::as_str).collect();
                format!("waiting for machines to go: {}", all.join(", "))
            }
            Self::Classes(names) => format!("waiting for classes to go: {}", names.join(", ")),
            Self::Done => "nothing is left".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mk(workloads: &str, deployments: &str, classes: &str) -> Left {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Left { workloads: list(workloads), deployments: list(deployments), classes: list(classes) }
    }

    #[track_caller]
    fn check(left: &Left, seconds: u64, expect: &str) {
        assert_eq!(next(left, Duration::from_secs(seconds)).said(), expect);
    }

    #[test]
    fn addons_then_machines_then_classes() {
        check(&mk("a b", "d", "c"), 0, "waiting for addons to stop: b");
        check(&mk("a", "d", "c"), 0, "waiting for addons to stop: a");
        check(&mk("a", "d", "c"), 120, "waiting for machines to go: a, d");
        check(&mk("", "d", "c"), 0, "waiting for machines to go: d");
        check(&mk("", "", "c"), 0, "waiting for classes to go: c");
        check(&mk("", "", ""), 0, "nothing is left");
    }

    proptest! {
        /// Whatever is left, doing what is said until nothing is left comes to an end, and takes everything.
        #[test]
        fn it_comes_to_an_end(
            workloads in prop::collection::vec("[a-d]", 0..5),
            deployments in prop::collection::vec("[a-d]", 0..5),
            classes in prop::collection::vec("[a-d]", 0..5),
            seconds in 0u64..200,
        ) {
            let mut left = Left { workloads, deployments, classes };
            let all = left.workloads.len() + left.deployments.len() + left.classes.len();
            for _ in 0..=all {
                let gone = |of: &mut Vec<String>, names: &[String]| of.retain(|it| !names.contains(it));
                match next(&left, Duration::from_secs(seconds)) {
                    Step::Workloads(names) => gone(&mut left.workloads, &names),
                    Step::Machines { workloads, deployments } => {
                        gone(&mut left.workloads, &workloads);
                        gone(&mut left.deployments, &deployments);
                    }
                    Step::Classes(names) => gone(&mut left.classes, &names),
                    Step::Done => break,
                }
            }
            prop_assert_eq!(left, Left::default());
        }
    }
}
