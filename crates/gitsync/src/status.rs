//! What a sync publishes of itself: pure.
use crate::round::{Failure, Outcome};
use crate::source::Problem;
use orrery_proto::core::v1::{GitSyncProblem, GitSyncStatus};
use orrery_proto::meta::v1::Condition;
use orrery_runtime::conditions;
use prost_types::Timestamp;

/// Problems that are told one by one.
const PROBLEMS_MAX: usize = 20;
/// Bytes of one of them.
const MESSAGE_BYTES_MAX: usize = 1000;
/// Digits of a commit that people read.
const SHORT: usize = 10;

/// What happened to a sync.
pub enum Event<'a> {
    Suspended,
    /// So much of a commit is done.
    Progress {
        commit: &'a str,
        done: usize,
        all: usize,
    },
    Done(&'a Outcome),
    Failed(&'a Failure),
    /// The spec cannot be followed.
    Unfit(&'a str),
}

/// The status after an event.
pub fn next(
    old: &GitSyncStatus,
    event: &Event<'_>,
    generation: i64,
    now: Timestamp,
) -> GitSyncStatus {
    let mut next = old.clone();
    next.observed_generation = generation;
    let mut set = |r#type: &str, holds: bool, reason: &str, message: String| {
        let status = if holds { "True" } else { "False" }.to_owned();
        let condition = Condition {
            r#type: r#type.to_owned(),
            status,
            reason: reason.to_owned(),
            message: short(message),
            observed_generation: generation,
            ..Condition::default()
        };
        conditions::set(&mut next.conditions, condition, now);
    };
    match event {
        Event::Suspended => {
            set("Ready", false, "Suspended", "the sync is suspended".to_owned());
            set("Syncing", false, "Suspended", String::new());
            next.state = "Suspended".to_owned();
        }
        Event::Progress { commit, done, all } => {
            let message = format!("{done} of {all} changes of {} are done", cut(commit));
            set("Syncing", true, "Applying", message);
        }
        Event::Failed(failure) => {
            let is_git = !matches!(failure, Failure::Hub(_));
            if is_git {
                set("Fetched", false, failure.reason(), failure.to_string());
            }
            set("Ready", false, failure.reason(), failure.to_string());
            set("Syncing", false, "Failed", String::new());
            next.state = "Failing".to_owned();
        }
        Event::Unfit(why) => {
            set("Ready", false, "Unfit", (*why).to_owned());
            set("Syncing", false, "Failed", String::new());
            next.state = "Failing".to_owned();
        }
        Event::Done(outcome) => {
            set("Fetched", true, "Fetched", format!("commit {}", outcome.commit));
            set("Syncing", false, "Done", String::new());
            let problems = outcome.problems.len();
            match outcome.problems.first() {
                None => set("Ready", true, "Synced", String::new()),
                Some(first) => set("Ready", false, "Problems", told(first, problems)),
            }
            done(&mut next, outcome, now);
        }
    }
    next
}

fn done(next: &mut GitSyncStatus, outcome: &Outcome, now: Timestamp) {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    if 0 < outcome.changes || next.commit != outcome.commit {
        next.last_change_time = Some(now);
    }
    next.commit.clone_from(&outcome.commit);
    next.short_commit = cut(&outcome.commit).to_owned();
    next.resources = number(outcome.resources);
    next.failures = number(outcome.problems.len());
    let told = outcome.problems.iter().take(PROBLEMS_MAX).map(|problem| GitSyncProblem {
        file: problem.file.clone(),
        resource: problem.resource.clone(),
        message: short(problem.message.clone()),
    });
    next.problems = told.collect();
    if outcome.problems.is_empty() {
        next.synced_commit.clone_from(&outcome.commit);
        next.state = "Synced".to_owned();
    } else {
        next.state = "Failing".to_owned();
    }
}

fn told(first: &Problem, all: usize) -> String {
    let more = if 1 < all { format!(" (and {} more)", all - 1) } else { String::new() };
    // Most messages say the place themselves.
    let file = Some(first.file.as_str()).filter(|file| !first.message.starts_with(file));
    let said = [file.unwrap_or_default(), first.resource.as_str(), first.message.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    format!("{}{more}", said.join(": "))
}

pub fn cut(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}

pub fn short(mut text: String) -> String {
    if MESSAGE_BYTES_MAX < text.len() {
        let cut = (0..=MESSAGE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn ready(status: &GitSyncStatus) -> (&str, &str) {
        let ready = status.conditions.iter().find(|it| it.r#type == "Ready").expect("it is told");
        (ready.status.as_str(), ready.reason.as_str())
    }

    #[test]
    fn a_commit_counts_as_synced_only_without_problems() {
        let commit = "a".repeat(40);
        let problem = Problem::of_file("f.yaml", "is wrong");
        let bad = Outcome { commit: commit.clone(), problems: vec![problem], ..Outcome::default() };
        let status = next(&GitSyncStatus::default(), &Event::Done(&bad), 3, at(1));
        assert_eq!((status.synced_commit.as_str(), status.failures), ("", 1));
        assert_eq!(ready(&status), ("False", "Problems"));
        let good = Outcome { commit: commit.clone(), ..Outcome::default() };
        let status = next(&status, &Event::Done(&good), 3, at(2));
        assert_eq!((&status.synced_commit, status.failures), (&commit, 0));
        assert_eq!((ready(&status), status.observed_generation), (("True", "Synced"), 3));
    }

    #[test]
    fn looking_again_changes_nothing() {
        let outcome = Outcome { commit: "a".repeat(40), changes: 1, ..Outcome::default() };
        let first = next(&GitSyncStatus::default(), &Event::Done(&outcome), 1, at(1));
        let outcome = Outcome { changes: 0, ..outcome };
        assert_eq!(next(&first, &Event::Done(&outcome), 1, at(9)), first);
        let suspended = next(&first, &Event::Suspended, 1, at(10));
        assert_eq!(next(&suspended, &Event::Suspended, 1, at(11)), suspended);
    }
}
