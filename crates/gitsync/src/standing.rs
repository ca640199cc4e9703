//! What each resource says of its own sync: a condition of its status, where its kind has conditions.
use crate::plan::{Present, Settings, Step};
use crate::source::Problem;
use crate::status::{cut, short};
use crate::system::System;
use orrery_api::{Condition, Object};
use orrery_hub::{ApplyOptions, Error, GetOptions, ObjectName, Part, Precondition};
use orrery_runtime::conditions;
use prost_types::Timestamp;

/// The condition.
const SYNCED: &str = "Synced";
/// How often it is written again because somebody else changed the status at the same moment.
const ATTEMPTS_MAX: usize = 8;

/// How a resource stands to git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is what this file says.
    Applied { file: String, commit: String },
    /// This file says what it is.
    Written { file: String, commit: String },
    /// It is not what git says, and why.
    Refused(String),
    /// The file that it came from holds it no more, and nothing is deleted.
    Left { file: String },
}

impl Standing {
    fn condition(&self, generation: i64) -> Condition {
        let (holds, reason, message) = match self {
            Self::Applied { file, commit } => (true, "Applied", place(file, commit)),
            Self::Written { file, commit } => (true, "WrittenBack", place(file, commit)),
            Self::Refused(why) => (false, "Refused", why.clone()),
            Self::Left { file } => (false, "LeftGit", format!("{file} does not hold it any more")),
        };
        Condition {
            r#type: SYNCED.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: short(message),
            observed_generation: generation,
            ..Condition::default()
        }
    }

    /// The conditions with this one among them; `None` if it is there already.
    fn among(
        &self,
        now: Timestamp,
        generation: i64,
        old: Vec<Condition>,
    ) -> Option<Vec<Condition>> {
        let next = self.condition(generation);
        let said = |it: &Condition| (it.status.clone(), it.reason.clone(), it.message.clone());
        if synced(&old).is_some_and(|old| said(old) == said(&next)) {
            return None;
        }
        let mut all = old;
        conditions::set(&mut all, next, now);
        Some(all)
    }
}

fn place(file: &str, commit: &str) -> String {
    format!("{file} of commit {}", cut(commit))
}

fn synced(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.r#type == SYNCED)
}

/// What came of a step, as the resource says it; `None` if there is nothing to say, or nobody to say it.
pub fn after(
    step: &Step,
    result: Result<(), &Error>,
    file: Option<&str>,
    commit: &str,
) -> Option<Standing> {
    let (file, commit) = (file.unwrap_or_default().to_owned(), commit.to_owned());
    match (step, result) {
        (Step::Refuse(_) | Step::Remove(_), _) | (Step::Delete, Ok(())) => None,
        (Step::Apply | Step::Delete | Step::Write(_), Err(error)) => {
            Some(Standing::Refused(error.to_string()))
        }
        // What could not be written is among the problems of the sync.
        (Step::Apply | Step::Write(_), Ok(())) if file.is_empty() => None,
        (Step::Apply, Ok(())) => Some(Standing::Applied { file, commit }),
        (Step::Write(_), Ok(())) => Some(Standing::Written { file, commit }),
    }
}

/// What is to be said of a resource with which nothing had to be done. `unread` are the problems with files, not those
/// with what they hold: these belong to other resources.
pub fn at_rest(
    settings: &Settings,
    present: &Present,
    is_declared: bool,
    conditions: &[Condition],
    unread: &[Problem],
    commit: &str,
) -> Option<Standing> {
    let known = present.lineage.as_ref().filter(|known| known.origin == settings.origin)?;
    let file = known.file.clone();
    if present.going {
        return None;
    }
    if is_declared {
        // Since when it is so is known already.
        let told = synced(conditions).is_some_and(|it| it.status == "True");
        return (!told).then(|| Standing::Applied { file, commit: commit.to_owned() });
    }
    match unread.iter().find(|problem| problem.file == file) {
        Some(problem) => Some(Standing::Refused(problem.message.clone())),
        None => settings.readable.then_some(Standing::Left { file }),
    }
}

impl System {
    /// Writes down how a resource stands. Whoever changes its status meanwhile is not disturbed.
    pub async fn note(&self, seen: &Object, standing: &Standing) -> Result<(), Error> {
        if seen.conditions().is_none() {
            return Ok(());
        }
        let accessor = self.hub.accessor(seen.kind())?;
        for attempt in 1.. {
            let options = GetOptions { name: ObjectName::of(seen), ..GetOptions::default() };
            let mut object = match accessor.get(options).await {
                Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => return Ok(()),
                found => found?,
            };
            let (now, generation) = (self.hub.clock().now(), object.generation());
            let old = object.conditions().unwrap_or_default();
            let Some(next) = standing.among(now, generation, old) else { return Ok(()) };
            let unreadable = |error: orrery_api::ObjectError| Error::Internal(error.to_string());
            object.set_conditions(&next).map_err(unreadable)?;
            let revision = object.resource_version().parse();
            let revision = revision.map_err(|_| Error::Internal("it has no revision".into()))?;
            let options = ApplyOptions {
                precondition: Precondition::At(revision),
                part: Part::Status,
                ..ApplyOptions::default()
            };
            match accessor.apply(object, options).await {
                Err(Error::Conflict { .. }) if attempt < ATTEMPTS_MAX => {}
                Err(Error::NotFound { .. }) => return Ok(()),
                outcome => return outcome.map(drop),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::{Lineage, Origin};

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    #[test]
    fn a_resource_at_rest_says_where_it_stands() {
        let origin = Origin { sync: "s".into(), ..Origin::default() };
        let mut settings = Settings { origin: origin.clone(), readable: true, ..<_>::default() };
        let lineage = Some(Lineage { origin, file: "a.yaml".into(), ..Lineage::default() });
        let present =
            Present { digest: String::new(), lineage, going: false, owned: false, kept_by: None };
        let applied = Standing::Applied { file: "a.yaml".into(), commit: "c".into() };
        let told = at_rest(&settings, &present, true, &[], &[], "c");
        assert_eq!(told.as_ref(), Some(&applied), "it never said so");
        let before = [applied.condition(1)];
        assert_eq!(at_rest(&settings, &present, true, &before, &[], "d"), None);
        let left = Standing::Left { file: "a.yaml".into() };
        assert_eq!(at_rest(&settings, &present, false, &before, &[], "d"), Some(left));
        let bad = [Problem::of_file("a.yaml", "is wrong")];
        settings.readable = false;
        let told = at_rest(&settings, &present, false, &before, &bad, "d");
        assert!(matches!(told, Some(Standing::Refused(why)) if why.contains("is wrong")));
        let other = Present { lineage: None, ..present };
        assert_eq!(at_rest(&settings, &other, true, &[], &bad, "d"), None, "it is not ours");
    }

    #[test]
    fn it_is_written_when_it_says_something_else() {
        let commit = "0123456789abcdef".to_owned();
        let applied = Standing::Applied { file: "a.yaml".into(), commit };
        let ready = Condition { r#type: "Ready".into(), ..Condition::default() };
        let first = applied.among(at(1), 1, vec![ready.clone()]).expect("it is new");
        assert_eq!(first[0], ready, "what others say stays");
        assert_eq!(first[1].message, "a.yaml of commit 0123456789");
        assert_eq!(applied.among(at(2), 2, first.clone()), None, "it says so already");
        let refused = Standing::Refused("no".into()).among(at(3), 2, first).expect("it is another");
        assert_eq!((refused[1].status.as_str(), refused[1].reason.as_str()), ("False", "Refused"));
        assert_eq!(refused[1].last_transition_time, Some(at(3)));
    }
}
