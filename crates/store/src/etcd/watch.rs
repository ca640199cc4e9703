//! Watches: etcd's events put together to whole commits again.

use std::{collections::VecDeque, sync::Arc};

use futures::{StreamExt, stream};
use tonic::Streaming;

use super::{
    client::{ANSWER_BYTES_MAX, Client, Refusal, Repeat},
    keys::{self, Keys, Named},
    pb::{self, event::EventType, watch_client::WatchClient, watch_request::RequestUnion},
    read,
};
use crate::{
    engine::{Batch, Change, Changes, Watch},
    error::Error,
    lease::LEASES,
    model::Revision,
};

pub(super) async fn watch(
    client: &Client,
    keys: &Keys,
    prefix: &str,
    after: Revision,
) -> Result<Watch, Error> {
    read::check(client, keys, after).await?;
    let (key, range_end) = keys.watched(prefix);
    let start_revision = keys::number(after.next());
    let request = pb::WatchCreateRequest { key, range_end, start_revision, fragment: true };
    let answers = open(client, request).await?;
    let commits = Commits::new(prefix, after);
    let following = Following { keys: keys.clone(), answers, commits };
    Ok(stream::unfold(Some(following), Following::step).boxed())
}

/// One watch on one member.
pub(super) struct Answers {
    client: Client,
    member: usize,
    stream: Streaming<pb::WatchResponse>,
}

pub(super) async fn open(
    client: &Client,
    request: pb::WatchCreateRequest,
) -> Result<Answers, Error> {
    let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(request)) };
    let send = |wire| {
        // etcd ends a watch when its client has nothing more to say, so we never say that.
        let requests = stream::iter([request.clone()]).chain(stream::pending());
        let mut watch = WatchClient::new(wire).max_decoding_message_size(ANSWER_BYTES_MAX);
        async move { watch.watch(requests).await }
    };
    let stream = client.ask(Repeat::Safe, send).await?;
    Ok(Answers { client: client.clone(), member: client.preferred(), stream })
}

impl Answers {
    pub async fn next(&mut self) -> Result<pb::WatchResponse, Error> {
        let message = tokio::select! {
            biased;
            error = self.client.until_closed() => return Err(error),
            message = self.stream.message() => message,
        };
        match message {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.ended("etcd ended the watch".to_owned())),
            Err(status) => Err(self.ended(Error::from(Refusal::Etcd(status)).to_string())),
        }
    }

    /// The next watch is opened elsewhere.
    fn ended(&self, reason: String) -> Error {
        self.client.avoid(self.member);
        Error::Unreachable { reason }
    }
}

struct Following {
    keys: Keys,
    answers: Answers,
    commits: Commits,
}

impl Following {
    async fn step(following: Option<Self>) -> Option<(Result<Batch, Error>, Option<Self>)> {
        let mut following = following?;
        match following.next().await {
            Ok(batch) => Some((Ok(batch), Some(following))),
            Err(error) => Some((Err(error), None)),
        }
    }

    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            if let Some(batch) = self.commits.ready.pop_front() {
                return Ok(batch);
            }
            let answer = self.answers.next().await?;
            if answer.compact_revision != 0 {
                let oldest = keys::revision(answer.compact_revision);
                return Err(Error::Compacted { requested: self.commits.told, oldest });
            }
            if answer.canceled {
                let reason = format!("etcd ended the watch: {}", answer.cancel_reason);
                return Err(self.answers.ended(reason));
            }
            answer.events.iter().try_for_each(|event| self.commits.add(&self.keys, event))?;
        }
    }
}

/// Collects events until their commit is complete, which its marker tells. Changes without a
/// marker, the end of a lease and what others write under our root, are complete by themselves or
/// when something newer arrives.
struct Commits {
    prefix: Box<str>,
    ready: VecDeque<Batch>,
    open: Option<Batch>,
    /// The last commit that is in `ready` or was taken from it.
    told: Revision,
}

impl Commits {
    fn new(prefix: &str, after: Revision) -> Self {
        Self { prefix: prefix.into(), ready: VecDeque::new(), open: None, told: after }
    }

    fn add(&mut self, keys: &Keys, event: &pb::Event) -> Result<(), Error> {
        let Some(found) = &event.kv else { return Ok(()) };
        let revision = keys::revision(found.mod_revision);
        match (keys.parse(&found.key)?, event.r#type()) {
            (Named::Own, _) => self.complete(revision),
            (Named::Entry(key), EventType::Put) => {
                self.change(key, revision, Change::Put(keys::entry(key, found)));
            }
            (Named::Entry(key), EventType::Delete) => {
                self.change(key, revision, Change::Delete { key: Arc::from(key), revision });
                if key.starts_with(LEASES) {
                    self.complete(revision);
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, key: &str, revision: Revision, change: Change) {
        let mut open = self.open_at(revision);
        if key.starts_with(&*self.prefix) {
            open.changes.push(change);
        }
        self.open = Some(open);
    }

    /// The commit of this revision so far; an older one that is still open is complete now.
    fn open_at(&mut self, revision: Revision) -> Batch {
        match self.open.take() {
            Some(open) if open.revision == revision => open,
            other => {
                self.push(other);
                Batch { revision, changes: Changes::new() }
            }
        }
    }

    fn complete(&mut self, revision: Revision) {
        let open = self.open_at(revision);
        self.push(Some(open));
    }

    fn push(&mut self, batch: Option<Batch>) {
        let Some(batch) = batch else { return };
        if self.told < batch.revision {
            self.told = batch.revision;
            self.ready.push_back(batch);
        }
    }
}
