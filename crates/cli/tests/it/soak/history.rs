//! Could one copy have answered so? Pure.
//!
//! Values are written once each, and a write is answered with its revision, so the order of the
//! writes of a key is known and only needs to be held against every answer and against time.
use std::collections::{BTreeMap, BTreeSet};

pub type Problem = String;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Get,
    Create {
        value: u64,
    },
    /// At whatever revision, but it must be there.
    Write {
        value: u64,
    },
    WriteAt {
        value: u64,
        at: u64,
    },
}

impl Question {
    pub fn value(self) -> Option<u64> {
        match self {
            Self::Get => None,
            Self::Create { value } | Self::Write { value } | Self::WriteAt { value, .. } => {
                Some(value)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub value: u64,
    pub revision: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Got(Option<Seen>),
    Committed(u64),
    Refused,
    /// Nobody answered.
    Unknown,
}

/// One call as a client saw it; `start` and `end` are readings of one counter that only grows.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: String,
    pub question: Question,
    pub outcome: Outcome,
    pub start: u64,
    pub end: u64,
}

/// One change as a watcher was told of it.
#[derive(Clone, Debug)]
pub struct Told {
    pub name: String,
    pub uid: String,
    pub is_new: bool,
    pub is_gone: bool,
    pub seen: Seen,
}

/// A write that has happened.
#[derive(Clone, Copy, Debug)]
struct Write {
    revision: u64,
    question: Question,
    start: u64,
    end: u64,
}

/// Holds every answer against the order of the writes, and the watch too.
pub fn check(mut calls: Vec<Call>, told: &[Told]) -> Result<(), Problem> {
    in_order(told)?;
    settle(&mut calls, told);
    let keys: BTreeSet<String> = calls.iter().map(|call| call.key.clone()).collect();
    let mut all = Vec::new();
    for key in keys {
        let of_key: Vec<&Call> = calls.iter().filter(|call| call.key == key).collect();
        let writes = writes(&of_key);
        chain(&key, &writes)?;
        for call in of_key {
            answer(&key, call, &writes)?;
        }
        same_story(&key, &writes, told)?;
        all.extend(writes);
    }
    follows_time(all)
}

/// A watch goes forward, and tells no change twice.
pub fn in_order(told: &[Told]) -> Result<(), Problem> {
    for pair in told.windows(2) {
        if pair[1].seen.revision <= pair[0].seen.revision {
            return Err(format!("the watch told {:?} after {:?}", pair[1], pair[0]));
        }
    }
    Ok(())
}

/// Writes that nobody answered have happened if the watch told them, some time after they were sent.
fn settle(calls: &mut Vec<Call>, told: &[Told]) {
    let revisions: BTreeMap<u64, u64> =
        told.iter().map(|told| (told.seen.value, told.seen.revision)).collect();
    calls.retain_mut(|call| {
        if call.outcome != Outcome::Unknown {
            return true;
        }
        let revision = call.question.value().and_then(|value| revisions.get(&value));
        let Some(revision) = revision else { return false };
        (call.outcome, call.end) = (Outcome::Committed(*revision), u64::MAX);
        true
    });
}

fn writes(calls: &[&Call]) -> Vec<Write> {
    let write = |call: &&Call| match call.outcome {
        Outcome::Committed(revision) => {
            Some(Write { revision, question: call.question, start: call.start, end: call.end })
        }
        Outcome::Got(_) | Outcome::Refused | Outcome::Unknown => None,
    };
    let mut writes: Vec<Write> = calls.iter().filter_map(write).collect();
    writes.sort_by_key(|write| write.revision);
    writes
}

/// Each write was made at what the one before it left. Nothing is deleted.
fn chain(key: &str, writes: &[Write]) -> Result<(), Problem> {
    let mut before: Option<&Write> = None;
    for write in writes {
        let fits = match (write.question, before) {
            (Question::Create { .. }, before) => before.is_none(),
            (Question::Write { .. }, before) => before.is_some(),
            (Question::WriteAt { at, .. }, Some(before)) => at == before.revision,
            (Question::WriteAt { .. }, None) | (Question::Get, _) => false,
        };
        if !fits || before.is_some_and(|before| before.revision == write.revision) {
            return Err(format!("{key}: {write:?} cannot follow {before:?}"));
        }
        before = Some(write);
    }
    Ok(())
}

/// Whether an answer that is no write fits the writes.
fn answer(key: &str, call: &Call, writes: &[Write]) -> Result<(), Problem> {
    // What was answered before the question is known; what was sent after the answer is not.
    let known = writes.iter().rev().find(|write| write.end < call.start).map(|w| w.revision);
    let newest = writes.iter().rev().find(|write| write.start < call.end).map(|w| w.revision);
    let fits = match (call.question, call.outcome) {
        (Question::Get, Outcome::Got(Some(seen))) => {
            let write = writes.iter().find(|write| write.revision == seen.revision);
            write.is_some_and(|write| write.question.value() == Some(seen.value))
                && known <= Some(seen.revision)
                && Some(seen.revision) <= newest
        }
        (Question::Get, Outcome::Got(None)) => known.is_none(),
        (Question::Create { .. }, Outcome::Refused) => newest.is_some(),
        // Not there yet, or too many others were faster.
        (Question::Write { .. }, Outcome::Refused) => known.is_none() || known < newest,
        (Question::WriteAt { at, .. }, Outcome::Refused) => newest != Some(at),
        (_, Outcome::Committed(_)) => true,
        (_, Outcome::Got(_) | Outcome::Refused | Outcome::Unknown) => false,
    };
    if fits {
        return Ok(());
    }
    Err(format!("{key}: {call:?}, though {known:?} was known and {newest:?} was the newest"))
}

/// The watch tells exactly what was written.
fn same_story(key: &str, writes: &[Write], told: &[Told]) -> Result<(), Problem> {
    let told = told.iter().filter(|told| told.name == key);
    let told: Vec<(u64, Option<u64>)> =
        told.map(|told| (told.seen.revision, Some(told.seen.value))).collect();
    let written: Vec<(u64, Option<u64>)> =
        writes.iter().map(|write| (write.revision, write.question.value())).collect();
    if told == written {
        return Ok(());
    }
    let differ = told.iter().zip(&written).position(|(told, written)| told != written);
    let at = differ.unwrap_or(told.len().min(written.len()));
    let (told, written) = (told.get(at), written.get(at));
    Err(format!("{key}: the watch told {told:?} as number {at}, where {written:?} was written"))
}

/// A write that began after another was answered has the larger revision, on whatever keys.
fn follows_time(mut writes: Vec<Write>) -> Result<(), Problem> {
    writes.sort_by_key(|write| write.revision);
    let mut latest_start = 0;
    for write in writes {
        if write.end < latest_start {
            return Err(format!("{write:?} was answered before an older one began"));
        }
        latest_start = latest_start.max(write.start);
    }
    Ok(())
}

/// What the leader made was made once for each that was declared, by whichever server.
pub fn each_once(declared: &[String], told: &[Told]) -> Result<(), Problem> {
    for name in declared {
        let prefix = format!("{name}-");
        let of_it = told.iter().filter(|told| told.name.starts_with(&prefix));
        let made: BTreeSet<(&str, &str)> =
            of_it.clone().map(|told| (told.name.as_str(), told.uid.as_str())).collect();
        let created = of_it.clone().filter(|told| told.is_new).count();
        let gone = of_it.filter(|told| told.is_gone).count();
        if made.len() != 1 || created != 1 || gone != 0 {
            return Err(format!("{name}: made as {made:?}, told new {created}, gone {gone} times"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(question: Question, outcome: Outcome, start: u64, end: u64) -> Call {
        Call { key: "k".into(), question, outcome, start, end }
    }

    fn told(value: u64, revision: u64) -> Told {
        let (is_new, is_gone) = (value == 1, false);
        Told { name: "k".into(), uid: "u".into(), is_new, is_gone, seen: Seen { value, revision } }
    }

    const CREATE: Question = Question::Create { value: 1 };
    const UPDATE: Question = Question::WriteAt { value: 2, at: 5 };

    #[track_caller]
    fn case(fits: bool, calls: &[Call], told: &[Told]) {
        let checked = check(calls.to_vec(), told);
        assert_eq!(checked.is_ok(), fits, "{checked:?}");
    }

    #[test]
    fn histories() {
        let made = call(CREATE, Outcome::Committed(5), 1, 2);
        let updated = call(UPDATE, Outcome::Committed(7), 3, 6);
        let (first, second) = (told(1, 5), told(2, 7));
        let got = |seen, start, end| call(Question::Get, Outcome::Got(seen), start, end);
        let (one, two) = (Seen { value: 1, revision: 5 }, Seen { value: 2, revision: 7 });
        case(true, &[made.clone(), got(Some(one), 3, 4)], std::slice::from_ref(&first));
        case(
            true,
            &[made.clone(), updated.clone(), got(Some(one), 4, 5)],
            &[first.clone(), second.clone()],
        );
        case(
            true,
            &[made.clone(), updated.clone(), got(Some(two), 4, 5)],
            &[first.clone(), second.clone()],
        );
        // Stale, from nowhere, from the future, and not there though it is known to be.
        case(
            false,
            &[made.clone(), updated.clone(), got(Some(one), 7, 8)],
            &[first.clone(), second.clone()],
        );
        case(false, &[made.clone(), got(Some(two), 3, 4)], std::slice::from_ref(&first));
        case(false, &[made.clone(), got(None, 3, 4)], std::slice::from_ref(&first));
        // The watch leaves out, repeats, or goes back.
        case(false, &[made.clone(), updated.clone()], std::slice::from_ref(&first));
        case(
            false,
            &[made.clone(), updated.clone()],
            &[first.clone(), first.clone(), second.clone()],
        );
        case(false, &[made.clone(), updated.clone()], &[second.clone(), first.clone()]);
        // A write that nobody answered is settled by the watch.
        let unknown = call(UPDATE, Outcome::Unknown, 3, 6);
        case(true, &[made.clone(), unknown.clone()], &[first.clone(), second.clone()]);
        case(true, &[made.clone(), unknown], std::slice::from_ref(&first));
        // Two writes at one revision cannot both have happened.
        let other = call(Question::WriteAt { value: 3, at: 5 }, Outcome::Committed(9), 3, 6);
        case(
            false,
            &[made.clone(), updated.clone(), other],
            &[first.clone(), second.clone(), told(3, 9)],
        );
        // A refusal needs a reason.
        case(
            false,
            &[made.clone(), call(UPDATE, Outcome::Refused, 3, 4)],
            std::slice::from_ref(&first),
        );
        case(
            true,
            &[made.clone(), updated, call(UPDATE, Outcome::Refused, 4, 8)],
            &[first.clone(), second],
        );
        case(true, &[made, call(CREATE, Outcome::Refused, 3, 4)], &[first]);
    }

    #[test]
    fn what_is_made_twice_is_found() {
        let made = |uid: &str, is_new| Told {
            name: "w-nobody".into(),
            uid: uid.into(),
            is_new,
            ..told(0, 3)
        };
        let declared = ["w".to_owned()];
        assert!(each_once(&declared, &[made("a", true), made("a", false)]).is_ok());
        assert!(each_once(&declared, &[made("a", true), made("b", true)]).is_err());
        assert!(each_once(&declared, &[made("a", true), made("a", true)]).is_err());
        assert!(each_once(&declared, &[]).is_err());
    }
}
