//! Writes that share commits.
//!
//! ```text
//!   writer: read, merge, check ─> batch ─┐
//!   writer: read, merge, check ─> batch ─┼─> whoever has a turn commits what waits ─> answers
//!   writer: read, merge, check ─> batch ─┘
//! ```
//! A thousand small writes that come together cost a few commits: a commit is stored, told to every
//! watch and remembered as one. Whoever waits here commits for all who wait; there is no task of its own.
use futures::future::join_all;
use orrery_api::Object;
use orrery_hub::{
    ApplyOptions, Batch, DeleteOptions, Error, Hub, ObjectName, Outcome, Precondition, Resources,
    Revision,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Commits under way at once: while one waits for the disk, the next one fills.
const COMMITS_AT_ONCE: usize = 2;

/// How many writes one turn takes with it.
const WRITES_PER_TURN: usize = 256;

/// How often a write is tried again because someone else was faster.
const ATTEMPTS_MAX: usize = 16;

/// One thing to write.
#[derive(Clone, Debug)]
pub enum Write<T> {
    /// An object, as an apply with these options does it.
    Apply(T, ApplyOptions),
    /// Takes a finalizer away from an object.
    Release(ObjectName, &'static str),
    /// Asks for an object to go.
    Delete(ObjectName),
}

/// What all who clone it write is put together.
#[derive(Clone)]
pub struct Writes {
    shared: Arc<Shared>,
}

struct Shared {
    hub: Hub,
    waiting: Mutex<VecDeque<Waiting>>,
    turns: Semaphore,
}

struct Waiting {
    batch: Batch,
    answer: oneshot::Sender<Result<Revision, Error>>,
}

impl Writes {
    pub fn new(hub: &Hub) -> Self {
        let (waiting, turns) = (Mutex::default(), Semaphore::new(COMMITS_AT_ONCE));
        Self { shared: Arc::new(Shared { hub: hub.clone(), waiting, turns }) }
    }

    /// Writes one object.
    pub async fn one<T>(&self, resources: &Resources<T>, write: Write<T>) -> Result<Outcome, Error>
    where
        T: prost::Message + prost::Name + Default,
    {
        let mut outcomes = self.all(resources, &[write]).await;
        outcomes.pop().unwrap_or_else(|| Err(interrupted()))
    }

    /// Writes all of them, each for itself: what one of them meets does not keep the others. The
    /// outcomes are in their order.
    pub async fn all<T>(
        &self,
        resources: &Resources<T>,
        writes: &[Write<T>],
    ) -> Vec<Result<Outcome, Error>>
    where
        T: prost::Message + prost::Name + Default,
    {
        let mut outcomes: Vec<Result<Outcome, Error>> = Vec::new();
        outcomes.resize_with(writes.len(), || Err(interrupted()));
        let mut left: Vec<usize> = (0..writes.len()).collect();
        for _ in 0..ATTEMPTS_MAX {
            self.attempt(resources, writes, &left, &mut outcomes).await;
            left.retain(|at| match &outcomes[*at] {
                Err(Error::Conflict { .. }) => writes[*at].may_repeat(),
                Err(_) | Ok(_) => false,
            });
            if left.is_empty() {
                break;
            }
        }
        outcomes
    }

    /// Tries those that are left once, all together.
    async fn attempt<T>(
        &self,
        resources: &Resources<T>,
        writes: &[Write<T>],
        left: &[usize],
        outcomes: &mut [Result<Outcome, Error>],
    ) where
        T: prost::Message + prost::Name + Default,
    {
        let mut prepared = Vec::with_capacity(left.len());
        for at in left {
            let batch = Batch::new();
            outcomes[*at] = writes[*at].prepare(resources, &batch).await;
            // What is as it should be needs no commit.
            if let Ok(Outcome::Created | Outcome::Changed | Outcome::Gone) = &outcomes[*at] {
                prepared.push((*at, batch));
            }
        }
        let (places, batches): (Vec<usize>, Vec<Batch>) = prepared.into_iter().unzip();
        for (at, committed) in places.into_iter().zip(self.commit(batches).await) {
            if let Err(error) = committed {
                outcomes[at] = Err(error);
            }
        }
    }

    /// Leaves batches here and returns when each of them is committed or refused.
    async fn commit(&self, batches: Vec<Batch>) -> Vec<Result<Revision, Error>> {
        let mut answers = Vec::with_capacity(batches.len());
        {
            let mut waiting = self.shared.waiting.lock();
            for batch in batches {
                let (answer, answered) = oneshot::channel();
                waiting.push_back(Waiting { batch, answer });
                answers.push(answered);
            }
        }
        let answered = join_all(answers);
        tokio::pin!(answered);
        let answers = loop {
            tokio::select! {
                biased;
                answers = &mut answered => break answers,
                turn = self.shared.turns.acquire() => {
                    // Never closed. What others took along is being committed.
                    let Ok(_turn) = turn else { break answered.as_mut().await };
                    if !self.shared.take_turn().await {
                        break answered.as_mut().await;
                    }
                }
            }
        };
        // Whoever had the turn was interrupted: what was asked for may have happened or not.
        answers.into_iter().map(|answer| answer.unwrap_or_else(|_| Err(interrupted()))).collect()
    }
}

impl Shared {
    /// Commits what waits, up to some; whether anything did.
    async fn take_turn(&self) -> bool {
        let taken: Vec<Waiting> = {
            let mut waiting = self.waiting.lock();
            let many = waiting.len().min(WRITES_PER_TURN);
            waiting.drain(..many).collect()
        };
        let any = !taken.is_empty();
        for group in together(taken) {
            self.commit(group).await;
        }
        any
    }

    /// Commits a group at once. Where that is refused, its halves, so that only whoever has come too late
    /// is told so and the others still share commits.
    async fn commit(&self, group: Vec<Waiting>) {
        let mut groups = vec![group];
        while let Some(mut group) = groups.pop() {
            let all = Batch::new();
            // They fit: they were put together because of that.
            for waiting in &group {
                all.absorb(&waiting.batch);
            }
            match self.hub.commit(all).await {
                Err(error) if 1 < group.len() && !concerns_all(&error) => {
                    let second = group.split_off(group.len() / 2);
                    groups.extend([second, group]);
                }
                outcome => answer(group, outcome),
            }
        }
    }
}

/// Whether a commit was refused for a reason that is none of its writes.
fn concerns_all(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_) | Error::Fenced { .. })
}

/// Tells each of a group what became of it. An error goes to the last of them as it is; it cannot be told
/// twice, but its words can: the others may try again.
fn answer(mut group: Vec<Waiting>, outcome: Result<Revision, Error>) {
    let Some(last) = group.pop() else { return };
    for waiting in group {
        let own = match &outcome {
            Ok(revision) => Ok(*revision),
            Err(error) => Err(Error::Unavailable(error.to_string())),
        };
        // Whoever does not wait any more does not want to know.
        let _ = waiting.answer.send(own);
    }
    let _ = last.answer.send(outcome);
}

/// Puts together what fits into one commit, in the order in which it came.
fn together(waiting: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let mut groups: Vec<Vec<Waiting>> = Vec::new();
    let mut all = Batch::new();
    for next in waiting {
        match groups.last_mut() {
            Some(group) if all.absorb(&next.batch) => group.push(next),
            Some(_) | None => {
                all = Batch::new();
                // An empty one takes anything.
                all.absorb(&next.batch);
                groups.push(vec![next]);
            }
        }
    }
    groups
}

impl<T: prost::Message + prost::Name + Default> Write<T> {
    /// Checks everything, and leaves in the batch what has to be written.
    async fn prepare(&self, resources: &Resources<T>, batch: &Batch) -> Result<Outcome, Error> {
        let (object, options) = match self {
            Self::Apply(value, options) => {
                let object = Object::from_typed(resources.kind(), value)
                    .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)));
                (object?, options.clone())
            }
            Self::Release(name, finalizer) => {
                let mut object = resources.accessor().get(name.clone().into()).await?;
                let revision = object.resource_version().parse().map_err(|_| {
                    Error::Internal(format!("{name} has no revision after it was read"))
                })?;
                object.update_meta(|meta| meta.finalizers.retain(|held| held != finalizer));
                (object, ApplyOptions::replace_at(revision))
            }
            Self::Delete(name) => {
                let options = DeleteOptions { batch: Some(batch.clone()), ..name.clone().into() };
                let deleted = resources.accessor().delete(options).await?;
                return Ok(match (batch.is_empty(), deleted.gone) {
                    (true, _) => Outcome::Unchanged,
                    (false, true) => Outcome::Gone,
                    (false, false) => Outcome::Changed,
                });
            }
        };
        let options = ApplyOptions { batch: Some(batch.clone()), ..options };
        Ok(resources.accessor().apply(object, options).await?.outcome)
    }

    /// Whether it may be tried again where someone else was faster. One that says which revision it
    /// changes meets the same again, and is told so by the check before its commit.
    fn may_repeat(&self) -> bool {
        match self {
            Self::Apply(_, options) => !matches!(options.precondition, Precondition::At(_)),
            Self::Release(..) | Self::Delete(_) => true,
        }
    }
}

/// Nobody can say whether it was written: to be looked at again.
fn interrupted() -> Error {
    let message = "whoever wrote it together with others was interrupted; try again";
    Error::Conflict { kind: "object".into(), name: String::new(), message: message.into() }
}

#[cfg(test)]
mod tests;
