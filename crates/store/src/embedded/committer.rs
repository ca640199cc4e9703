//! The one writer. It takes every commit that waits, judges each against the state including the
//! ones before it in the group, writes all of them as one batch with one sync, and answers.

use std::{collections::HashMap, sync::Arc, thread};

use fjall::{OwnedWriteBatch, PersistMode};
use foldhash::fast::RandomState;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Shared,
    ahead::Ahead,
    directory,
    format::{self, Kind, Logged, Version},
    options::count,
    pace::Pace,
    queue::Queue,
    sum::Sum,
    tables::{Standing, Tables, describe},
    watermark::Watermark,
};
use crate::{
    engine::{Batch, Change},
    error::{Error, OpenError},
    judge,
    model::{Entry, Head, Op, Revision},
};

/// Heads that are remembered between groups: what is written again and again is not looked up each time.
const HEADS_KNOWN_MAX: usize = 16 << 10;

/// Where keys stand, as far as it is known; `None` where they are not there.
type Heads = HashMap<Arc<str>, Option<Head>, RandomState>;

#[derive(Debug)]
pub(super) struct Request {
    pub ops: Vec<Op>,
    pub answer: oneshot::Sender<Result<Revision, Error>>,
}

impl Request {
    pub fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }
}

pub(super) struct Committer {
    tables: Arc<Tables>,
    watermark: Watermark,
    shared: Arc<Shared>,
    head: Revision,
    sum: Sum,
    /// What the tables say of some keys. Nobody else writes there.
    known: Heads,
    ahead: Ahead,
}

impl Committer {
    pub fn start(
        tables: Arc<Tables>,
        watermark: Watermark,
        shared: Arc<Shared>,
        queue: Arc<Queue>,
        standing: &Standing,
    ) -> Result<thread::JoinHandle<()>, OpenError> {
        let Standing { head, sum, .. } = *standing;
        let ahead = Ahead::new(&tables.path().join(directory::DATA));
        let committer =
            Self { tables, watermark, shared, head, sum, known: Heads::default(), ahead };
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
    }

    fn serve(&mut self, group: Vec<Request>) {
        let before = self.head;
        let outcome = match self.shared.failure.get() {
            Some(reason) => Err(Error::Unavailable { reason: Arc::clone(reason) }),
            None => self.commit(&group),
        };
        for (at, request) in group.into_iter().enumerate() {
            let answer = match &outcome {
                Ok(answers) => answers[at].clone(),
                Err(error) => Err(error.clone()),
            };
            // A caller that went away no longer wants to know.
            let _ = request.answer.send(answer);
        }
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

    /// Commits a group; on success the answer to each. A conflict is answered only with the group
    /// too, because it may be with a commit of the same group that is not durable before.
    fn commit(&mut self, group: &[Request]) -> Result<Vec<Result<Revision, Error>>, Error> {
        let mut draft = Draft::new(&self.tables, &self.known, self.head, self.sum);
        let answers = group.iter().map(|request| draft.add(&request.ops)).collect();
        let Draft { batches, write, head, sum, heads, .. } = draft;
        if batches.is_empty() {
            return Ok(answers);
        }
        if self.ahead.is_short(group.len(), group.iter().map(Request::bytes).sum()) {
            let _nobody_writes = self.tables.writing();
            self.ahead.fill();
        }
        self.write(write, head, sum)?;
        if HEADS_KNOWN_MAX < self.known.len() + heads.len() {
            self.known.clear();
        }
        self.known.extend(heads);
        count(&self.shared.counters.commits, batches.len());
        self.shared.feed.publish(batches);
        Ok(answers)
    }

    fn write(&mut self, mut write: OwnedWriteBatch, head: Revision, sum: Sum) -> Result<(), Error> {
        self.tables.put_position(&mut write, head, sum);
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
    fn stop(&mut self, cause: &str) -> Error {
        tracing::error!(cause, "the store takes no more writes until it is opened again");
        let reason = || format!("{cause}; restart when the disk is in order").into();
        let reason = self.shared.failure.get_or_init(reason);
        Error::Unavailable { reason: Arc::clone(reason) }
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
    tables: &'a Tables,
    known: &'a Heads,
    head: Revision,
    sum: Sum,
    /// Heads as the commits so far leave them, where they differ from the tables.
    heads: Heads,
    write: OwnedWriteBatch,
    batches: Vec<Arc<Batch>>,
}

impl<'a> Draft<'a> {
    fn new(tables: &'a Tables, known: &'a Heads, head: Revision, sum: Sum) -> Self {
        let write = tables.batch();
        Self { tables, known, head, sum, heads: Heads::default(), write, batches: Vec::new() }
    }

    fn add(&mut self, ops: &[Op]) -> Result<Revision, Error> {
        let before = judge::judge(ops, |key| self.head_of(key))?;
        if !ops.iter().any(Op::writes) {
            return Ok(self.head);
        }
        let revision = self.head.next();
        let mut logged = Vec::with_capacity(ops.len());
        let mut changes = Vec::with_capacity(ops.len());
        for (op, before) in ops.iter().zip(before) {
            if let Some((log, change)) = self.change(op, before, revision) {
                logged.push(log);
                changes.push(change);
            }
        }
        let row = format::encode_log(revision, self.head, &logged);
        self.write.insert(&self.tables.log, format::revision_key(revision), row);
        self.batches.push(Arc::new(Batch { revision, changes }));
        self.head = revision;
        Ok(revision)
    }

    fn head_of(&self, key: &str) -> Result<Option<Head>, Error> {
        match self.heads.get(key).or_else(|| self.known.get(key)) {
            Some(head) => Ok(*head),
            None => self.tables.head_of(key),
        }
    }

    fn change(
        &mut self,
        op: &Op,
        before: Option<Head>,
        revision: Revision,
    ) -> Option<(Logged, Change)> {
        let previous = before.map_or(Revision::ZERO, |head| head.modified);
        let created = before.map_or(revision, |head| head.created);
        if let (Some(before), true) = (before, op.writes()) {
            self.sum.remove(op.key(), before.modified);
        }
        let logged = |key, kind| Logged { key: Arc::clone(key), kind, previous, created };
        match op {
            Op::Put { key, value, .. } => {
                self.sum.add(key, revision);
                let value = value.clone();
                let version = Version::Value { created, value: value.clone() };
                self.put(key, revision, &version, Some(Head { created, modified: revision }));
                let key_of = Arc::clone(key);
                let entry = Entry { key: key_of, value, created, modified: revision };
                Some((logged(key, Kind::Put), Change::Put(entry)))
            }
            Op::Delete { key, .. } => {
                self.put(key, revision, &Version::Tombstone, None);
                let change = Change::Delete { key: Arc::clone(key), revision };
                Some((logged(key, Kind::Delete), change))
            }
            Op::Check { .. } => None,
        }
    }

    fn put(&mut self, key: &Arc<str>, revision: Revision, version: &Version, head: Option<Head>) {
        let row_key = format::value_key(key, revision);
        let row = format::encode_version(&row_key, version);
        self.write.insert(&self.tables.values, row_key, row);
        match head {
            Some(head) => {
                let row = format::encode_head(key, head);
                self.write.insert(&self.tables.heads, key.as_bytes(), row);
            }
            None => self.write.remove(&self.tables.heads, key.as_bytes()),
        }
        self.heads.insert(Arc::clone(key), head);
    }
}
