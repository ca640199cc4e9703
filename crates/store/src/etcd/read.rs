//! Reads, all of them linearizable, and compaction.

use std::{collections::HashMap, sync::Arc};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;

use super::{
    client::{ANSWER_BYTES_MAX, Client, Refusal, Repeat},
    keys::{self, Keys, Named},
    pb::{
        self, KeyValue, kv_client::KvClient, range_request::SortOrder, range_request::SortTarget,
    },
    watch,
};
use crate::{
    engine::{ListRequest, Listing},
    error::Error,
    model::{Entry, Revision, segment},
};

/// Entries asked for at once. With ordinary objects a few megabytes; halved when they are larger.
const PAGE: usize = 1000;

pub(super) async fn range(
    client: &Client,
    request: pb::RangeRequest,
) -> Result<pb::RangeResponse, Refusal> {
    let send = |wire| {
        let request = request.clone();
        let mut kv = KvClient::new(wire).max_decoding_message_size(ANSWER_BYTES_MAX);
        async move { kv.range(request).await }
    };
    client.ask(Repeat::Safe, send).await
}

pub(super) async fn get(client: &Client, keys: &Keys, key: &str) -> Result<Option<Entry>, Error> {
    let request = pb::RangeRequest { key: keys.entry(key), ..pb::RangeRequest::default() };
    let found = range(client, request).await?;
    Ok(found.kvs.first().map(|found| keys::entry(key, found)))
}

pub(super) async fn list(
    client: &Client,
    keys: &Keys,
    request: &ListRequest,
) -> Result<Listing, Error> {
    if request.at == Some(Revision::ZERO) {
        return Err(compacted(client, keys, Revision::ZERO).await);
    }
    let limit = if request.limit == 0 { usize::MAX } else { request.limit };
    let mut scan = Scan { from: first(request), at: request.at, page: PAGE };
    let mut entries = Vec::new();
    loop {
        let want = limit.saturating_sub(entries.len()).saturating_add(1);
        let page = scan.page(client, keys, &request.prefix, want).await?;
        entries.extend(page.entries);
        if limit < entries.len() || !page.more {
            let more = limit < entries.len();
            entries.truncate(limit);
            return Ok(Listing { entries, revision: page.revision, more });
        }
    }
}

/// The least key that belongs to the answer.
fn first(request: &ListRequest) -> String {
    match &request.after {
        // No key contains NUL, so nothing lies between a key and the key with NUL behind it.
        Some(after) if request.prefix.as_str() <= after.as_ref() => format!("{after}\0"),
        Some(_) | None => request.prefix.clone(),
    }
}

/// A list under way.
struct Scan {
    from: String,
    at: Option<Revision>,
    page: usize,
}

impl Scan {
    /// The next entries, at least one unless there are none left.
    async fn page(
        &mut self,
        client: &Client,
        keys: &Keys,
        prefix: &str,
        want: usize,
    ) -> Result<Listing, Error> {
        loop {
            let (key, range_end) = keys.range(prefix, &self.from);
            let request = pb::RangeRequest {
                key,
                range_end,
                limit: i64::try_from(want.min(self.page)).unwrap_or(i64::MAX),
                revision: self.at.map_or(0, keys::number),
                ..pb::RangeRequest::default()
            };
            let found = match range(client, request).await {
                Ok(found) => found,
                Err(refusal) if refusal.is_too_large() && 1 < self.page => {
                    self.page = self.page.div_ceil(8);
                    continue;
                }
                Err(refusal) => return Err(past(client, keys, self.at, refusal).await),
            };
            let header = found.header.map(|header| keys::revision(header.revision));
            let revision = self.at.or(header).unwrap_or_default();
            self.at = Some(revision);
            let entries = entries_of(keys, &found.kvs)?;
            if let Some(last) = found.kvs.last() {
                self.from = format!("{}\0", text(keys, &last.key)?);
            }
            return Ok(Listing { entries, revision, more: found.more });
        }
    }
}

fn entries_of(keys: &Keys, found: &[KeyValue]) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(found.len());
    for found in found {
        match keys.parse(&found.key)? {
            Named::Entry(key) => entries.push(keys::entry(key, found)),
            Named::Own => {}
        }
    }
    Ok(entries)
}

/// An etcd key without the root, our own keys included.
fn text(keys: &Keys, key: &[u8]) -> Result<String, Error> {
    let rest = &key[keys.entry("").len().min(key.len())..];
    let text = std::str::from_utf8(rest).map_err(|_| Error::Corrupt {
        what: format!("key {} in etcd", key.escape_ascii()),
        detail: "it is not UTF-8".to_owned(),
    })?;
    Ok(text.to_owned())
}

/// Why a read at a revision was refused.
pub(super) async fn past(
    client: &Client,
    keys: &Keys,
    at: Option<Revision>,
    refusal: Refusal,
) -> Error {
    let requested = at.unwrap_or_default();
    if refusal.is_compacted() {
        return compacted(client, keys, requested).await;
    }
    if refusal.is_future() {
        return match newest(client, keys).await {
            Ok(current) => Error::FutureRevision { requested, current },
            Err(error) => error,
        };
    }
    refusal.into()
}

async fn compacted(client: &Client, keys: &Keys, requested: Revision) -> Error {
    match oldest(client, keys).await {
        Ok(oldest) => Error::Compacted { requested, oldest },
        Err(error) => error,
    }
}

/// The oldest revision that can be read. etcd tells it only to a watch that begins before it.
async fn oldest(client: &Client, keys: &Keys) -> Result<Revision, Error> {
    let request = pb::WatchCreateRequest {
        key: keys.incarnation(),
        start_revision: 1,
        ..pb::WatchCreateRequest::default()
    };
    let mut answers = watch::open(client, request).await?;
    loop {
        let answer = answers.next().await?;
        match answer.compact_revision {
            0 if answer.created && !answer.canceled => {}
            0 => return Ok(Revision(1)),
            oldest => return Ok(keys::revision(oldest)),
        }
    }
}

/// The revision etcd is at, whoever made it.
async fn newest(client: &Client, keys: &Keys) -> Result<Revision, Error> {
    let request = pb::RangeRequest { key: keys.incarnation(), ..pb::RangeRequest::default() };
    let found = range(client, request).await?;
    Ok(found.header.map(|header| keys::revision(header.revision)).unwrap_or_default())
}

/// Refuses a revision that cannot be read from any more, or not yet.
pub(super) async fn check(client: &Client, keys: &Keys, at: Revision) -> Result<(), Error> {
    if at == Revision::ZERO {
        return Err(compacted(client, keys, at).await);
    }
    let request = pb::RangeRequest {
        key: keys.incarnation(),
        revision: keys::number(at),
        keys_only: true,
        ..pb::RangeRequest::default()
    };
    match range(client, request).await {
        Ok(_) => Ok(()),
        Err(refusal) => Err(past(client, keys, Some(at), refusal).await),
    }
}

pub(super) async fn compact(client: &Client, keys: &Keys, up_to: Revision) -> Result<(), Error> {
    let revision = keys::number(up_to);
    let send =
        |wire| async move { KvClient::new(wire).compact(pb::CompactionRequest { revision }).await };
    match client.ask(Repeat::Safe, send).await {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.is_compacted() => Ok(()),
        Err(refusal) => Err(past(client, keys, Some(up_to), refusal).await),
    }
}

type Reading = Shared<BoxFuture<'static, Result<Revision, Error>>>;

/// How far each segment has come. While one question is under way, all who ask meanwhile share
/// the next one: it is sent after they asked, so its answer is new enough for each of them.
#[derive(Default)]
pub(super) struct Positions {
    segments: Mutex<HashMap<Box<str>, Arc<Position>>>,
}

#[derive(Default)]
struct Position {
    under_way: tokio::sync::Mutex<()>,
    next: Mutex<Option<Reading>>,
}

impl Positions {
    pub async fn current(
        &self,
        client: &Client,
        keys: &Keys,
        prefix: &str,
    ) -> Result<Revision, Error> {
        let segment = segment(prefix);
        let position = Arc::clone(self.segments.lock().entry(segment.into()).or_default());
        client.in_time(position.join(client, keys, segment)).await
    }
}

impl Position {
    fn join(self: &Arc<Self>, client: &Client, keys: &Keys, segment: &str) -> Reading {
        let mut next = self.next.lock();
        if let Some(reading) = &*next {
            return reading.clone();
        }
        let (position, client, keys) = (Arc::clone(self), client.clone(), keys.clone());
        let segment: Box<str> = segment.into();
        let reading = async move {
            let _turn = position.under_way.lock().await;
            // From here on the answer may be too old for whoever asks; they begin a new one.
            position.next.lock().take();
            last_commit(&client, &keys, &segment).await
        };
        let reading = reading.boxed().shared();
        *next = Some(reading.clone());
        reading
    }
}

/// The last commit in a segment; in all of them where the segment is empty.
async fn last_commit(client: &Client, keys: &Keys, segment: &str) -> Result<Revision, Error> {
    let mut request = pb::RangeRequest { keys_only: true, ..pb::RangeRequest::default() };
    if segment.is_empty() {
        (request.key, request.range_end) = keys.range("", "");
        request.limit = 1;
        request.set_sort_target(SortTarget::Mod);
        request.set_sort_order(SortOrder::Descend);
    } else {
        request.key = keys.marker(segment);
    }
    let found = range(client, request).await?;
    Ok(found.kvs.first().map_or(Revision(1), |found| keys::revision(found.mod_revision)))
}
