//! The one writer. It takes every commit that waits, judges each against the state including the
//! ones before it in the group, writes all of them as one batch with one sync, and answers.

use std::{collections::HashMap, sync::Arc, thread};

use fjall::PersistMode;
use foldhash::fast::RandomState;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Shared,
    ahead::Ahead,
    contents::Heads,
    directory,
    format::{self, Group},
    options::count,
    pace::Pace,
    queue::Queue,
    sum::Sum,
    tables::{Tables, describe},
    watermark::Watermark,
};
use crate::{
    engine::{Batch, Change, Changes},
    error::{Error, OpenError},
    judge,
    model::{Entry, Head, Op, Revision},
    wakes::{self, Work},
};

#[derive(Debug)]
pub(super) struct Request {
    pub ops: Vec<Op>,
    pub answer: oneshot::Sender<Result<Revision, Error>>,
}

impl Request {
    pub fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }

    fn writes(&self) -> bool {
        self.ops.iter().any(Op::writes)
    }
}

pub(super) struct Committer {
    tables: Arc<Tables>,
    watermark: Watermark,
    shared: Arc<Shared>,
    head: Revision,
    sum: Sum,
    ahead: Ahead,
}

impl Committer {
    pub fn start(
        tables: Arc<Tables>,
        watermark: Watermark,
        shared: Arc<Shared>,
        queue: Arc<Queue>,
        (head, sum): (Revision, Sum),
    ) -> Result<thread::JoinHandle<()>, OpenError> {
        let ahead = Ahead::new(&tables.path().join(directory::DATA));
        let committer = Self { tables, watermark, shared, head, sum, ahead };
        thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn(move || committer.run(&queue))
            .map_err(|e| Error::unavailable(format!("cannot start the committer: {e}")).into())
    }

    /// Runs until the engine is closed and everything that waits is answered.
    fn run(mut self, queue: &Queue) {
        let _end = End(queue);
        let mut pace = Pace::default();
        while let Some(group) = queue.take(pace.wish()) {
            let (begun, count) = (Instant::now(), group.len());
            self.serve(group);
            pace.note(count, queue.len(), begun.elapsed());
        }
        if let Err(error) = self.watermark.settle() {
            tracing::debug!(%error, "the note of the last commit is as durable as it was");
        }
    }

    fn serve(&mut self, group: Vec<Request>) {
        let before = self.head;
        let answers = match self.shared.failure.get() {
            Some(reason) => vec![Err(unavailable(reason)); group.len()],
            None => self.commit(&group),
        };
        wakes::together(Work::Answers, || {
            for (request, answer) in group.into_iter().zip(answers) {
                // A caller that went away no longer wants to know.
                let _ = request.answer.send(answer);
            }
        });
        if before != self.head {
            self.shared.feed.tell();
            self.note();
        }
    }

    /// Nobody waits for the note. Should the process end before it is written, the one before holds.
    fn note(&mut self) {
        if let Err(error) = self.watermark.note(self.head) {
            self.stop(&format!("cannot note the last commit: {error}"));
        }
    }

    /// Commits a group; the answer to each. A conflict is answered only with the group too, because it may be with a
    /// commit of the same group that is not durable before.
    fn commit(&mut self, group: &[Request]) -> Vec<Answer> {
        let known = self.shared.heads.read();
        let mut draft = Draft::new(&known, self.head, self.sum);
        let answers: Vec<Answer> = group.iter().map(|request| draft.add(&request.ops)).collect();
        let Draft { batches, row, head, sum, heads, .. } = draft;
        drop(known);
        if batches.is_empty() {
            return answers;
        }
        if self.ahead.is_short(group.len(), group.iter().map(Request::bytes).sum()) {
            let _nobody_writes = self.tables.writing();
            self.ahead.fill();
        }
        if let Err(reason) = self.write(row.finish(head, sum), head, sum) {
            return group.iter().zip(&answers).map(|each| Err(failed(each, &reason))).collect();
        }
        count(&self.shared.counters.commits, batches.len());
        self.know(heads, batches);
        answers
    }

    /// Keys stand where the group has left them. Nobody looks before it is published: who has read what a commit
    /// wrote finds it in lists too.
    fn know(&self, heads: HashMap<Arc<str>, Option<Head>, RandomState>, batches: Vec<Arc<Batch>>) {
        let mut known = self.shared.heads.write();
        for (key, head) in heads {
            match head {
                Some(head) => drop(known.insert(key, head)),
                None => drop(known.remove(&key)),
            }
        }
        self.shared.feed.publish(batches);
    }

    /// The error says why nothing more is written.
    fn write(&mut self, row: Vec<u8>, head: Revision, sum: Sum) -> Result<(), Arc<str>> {
        let mut write = self.tables.batch();
        write.insert(&self.tables.commits, format::revision_key(head), row);
        let written = write.durability(Some(PersistMode::SyncData)).commit();
        count(&self.shared.counters.syncs, 1);
        if let Err(error) = written {
            // Poisoned: something in the background has failed, and only the disk knows why.
            let cause = if matches!(error, fjall::Error::Poisoned) {
                directory::probe(self.tables.path())
            } else {
                describe("write to the disk", &error)
            };
            return Err(self.stop(&cause));
        }
        (self.head, self.sum) = (head, sum);
        Ok(())
    }

    /// Takes no more writes: what the disk holds now is not known until it was opened again.
    fn stop(&mut self, cause: &str) -> Arc<str> {
        tracing::error!(cause, "the store takes no more writes until it is opened again");
        let reason = || format!("{cause}; restart when the disk is in order").into();
        Arc::clone(self.shared.failure.get_or_init(reason))
    }
}

type Answer = Result<Revision, Error>;

fn unavailable(reason: &Arc<str>) -> Error {
    Error::Unavailable { reason: Arc::clone(reason) }
}

/// What whoever was in a group is told that could not be written. The disk may have the group or not: whoever opens the
/// store again finds out. It has nothing of those that write nothing, or were refused.
fn failed((request, answer): (&Request, &Answer), reason: &Arc<str>) -> Error {
    let error = unavailable(reason);
    match answer {
        Ok(_) if request.writes() => Error::Uncertain { reason: error.to_string() },
        Ok(_) | Err(_) => error,
    }
}

/// Nobody waits for a committer that is gone, even if it panicked.
struct End<'a>(&'a Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A group of commits in the making.
struct Draft<'a> {
    known: &'a Heads,
    head: Revision,
    sum: Sum,
    /// Where the commits so far leave keys; `None` where they are gone.
    heads: HashMap<Arc<str>, Option<Head>, RandomState>,
    row: Group,
    batches: Vec<Arc<Batch>>,
}

impl<'a> Draft<'a> {
    fn new(known: &'a Heads, head: Revision, sum: Sum) -> Self {
        let (heads, batches) = (HashMap::default(), Vec::new());
        Self { known, head, sum, heads, row: Group::after(head), batches }
    }

    fn add(&mut self, ops: &[Op]) -> Result<Revision, Error> {
        let before = judge::judge(ops, |key| Ok(self.head_of(key)))?;
        let writing = ops.iter().filter(|op| op.writes()).count();
        if writing == 0 {
            return Ok(self.head);
        }
        let revision = self.head.next();
        let mut changes = Changes::with_capacity(writing);
        self.row.commit(writing);
        for (op, before) in ops.iter().zip(before) {
            changes.extend(self.change(op, before, revision));
        }
        self.batches.push(Arc::new(Batch { revision, changes }));
        self.head = revision;
        Ok(revision)
    }

    fn head_of(&self, key: &str) -> Option<Head> {
        self.heads.get(key).copied().unwrap_or_else(|| self.known.get(key).copied())
    }

    fn change(&mut self, op: &Op, before: Option<Head>, revision: Revision) -> Option<Change> {
        let (change, head) = match op {
            Op::Put { key, value, .. } => {
                let created = before.map_or(revision, |head| head.created);
                self.sum.add(key, revision);
                self.row.put(key, created, value);
                let (key, value) = (Arc::clone(key), value.clone());
                let head = Some(Head { created, modified: revision });
                (Change::Put(Entry { key, value, created, modified: revision }), head)
            }
            Op::Delete { key, .. } => {
                self.row.delete(key);
                (Change::Delete { key: Arc::clone(key), revision }, None)
            }
            Op::Check { .. } => return None,
        };
        if let Some(before) = before {
            self.sum.remove(op.key(), before.modified);
        }
        self.heads.insert(Arc::clone(op.key()), head);
        Some(change)
    }
}
