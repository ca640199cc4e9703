//! Commits as transactions.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{
    client::{Client, Refusal, Repeat},
    keys::{self, Keys},
    pb::{
        self, compare::CompareResult, compare::CompareTarget, compare::TargetUnion,
        kv_client::KvClient, request_op::Request, response_op::Response,
    },
};
use crate::{
    error::Error,
    judge,
    model::{Expect, Head, Incarnation, Op, Revision},
};

/// Sends the operations as one transaction. With `lease`, what is put ends with that lease.
pub(super) async fn commit(
    client: &Client,
    keys: &Keys,
    ops: &[Op],
    lease: Option<i64>,
) -> Result<Revision, Error> {
    let transaction = pb::TxnRequest {
        compare: ops.iter().map(|op| condition(keys, op)).collect(),
        success: writes(keys, ops, lease),
        failure: ops.iter().map(|op| read(keys.entry(op.key()))).collect(),
    };
    // What only looks can do nothing twice.
    let answer = match ops.iter().any(Op::writes) {
        true => send(client, transaction, Repeat::Unsafe).await.map_err(uncertain)?,
        false => send(client, transaction, Repeat::Safe).await?,
    };
    if answer.succeeded {
        let revision = answer.header.map(|header| keys::revision(header.revision));
        return revision.ok_or_else(|| broken("an answer without header"));
    }
    Err(conflict(ops, &answer.responses))
}

async fn send(
    client: &Client,
    transaction: pb::TxnRequest,
    repeat: Repeat,
) -> Result<pb::TxnResponse, Refusal> {
    let send = |wire| {
        let transaction = transaction.clone();
        async move { KvClient::new(wire).txn(transaction).await }
    };
    client.ask(repeat, send).await
}

/// The first expectation that fails in the state the other branch has read.
fn conflict(ops: &[Op], responses: &[pb::ResponseOp]) -> Error {
    let mut responses = responses.iter();
    let next = |_: &str| responses.next().and_then(found).ok_or_else(|| broken("too few answers"));
    match judge::judge(ops, next) {
        Ok(_) => broken("conditions that failed hold"),
        Err(error) => error,
    }
}

/// What a read in the other branch has found; `None` if it was no read.
fn found(response: &pb::ResponseOp) -> Option<Option<Head>> {
    match response.response.as_ref()? {
        Response::ResponseRange(range) => Some(range.kvs.first().map(keys::head)),
        Response::ResponsePut(_) | Response::ResponseDeleteRange(_) => None,
    }
}

/// A transaction that was sent and not answered may have happened.
fn uncertain(refusal: Refusal) -> Error {
    let not_sent = refusal.was_not_sent();
    let error = Error::from(refusal);
    if let Error::Unreachable { reason } = &error
        && !not_sent
    {
        return Error::Uncertain { reason: reason.clone() };
    }
    error
}

fn broken(detail: &str) -> Error {
    Error::Corrupt { what: "an answer of etcd".to_owned(), detail: detail.to_owned() }
}

/// etcd reads the revisions of an absent key as zero, so "at zero" must not come to mean "absent":
/// nothing was ever created before zero.
fn condition(keys: &Keys, op: &Op) -> pb::Compare {
    use CompareResult::{Equal, Greater, Less};
    let (result, target) = match op.expect() {
        Expect::Absent => (Equal, TargetUnion::CreateRevision(0)),
        Expect::Present => (Greater, TargetUnion::CreateRevision(0)),
        Expect::At(Revision::ZERO) | Expect::CreatedAt(Revision::ZERO) => {
            (Less, TargetUnion::CreateRevision(0))
        }
        Expect::At(at) => (Equal, TargetUnion::ModRevision(keys::number(at))),
        Expect::CreatedAt(at) => (Equal, TargetUnion::CreateRevision(keys::number(at))),
    };
    let kind = match target {
        TargetUnion::CreateRevision(_) => CompareTarget::Create,
        TargetUnion::ModRevision(_) => CompareTarget::Mod,
    };
    pb::Compare {
        result: result.into(),
        target: kind.into(),
        key: keys.entry(op.key()),
        target_union: Some(target),
    }
}

/// The writes in their order, and after them the markers of the segments they are in.
fn writes(keys: &Keys, ops: &[Op], lease: Option<i64>) -> Vec<pb::RequestOp> {
    let mut writes = Vec::with_capacity(ops.len() + 1);
    let mut markers = BTreeSet::new();
    for op in ops {
        match op {
            Op::Put { key, value, .. } => {
                writes.push(put(keys.entry(key), value.clone(), lease.unwrap_or_default()));
            }
            Op::Delete { key, .. } => writes.push(delete(keys.entry(key))),
            Op::Check { .. } => continue,
        }
        markers.insert(keys.marker(op.key()));
    }
    writes.extend(markers.into_iter().map(|marker| put(marker, Bytes::new(), 0)));
    writes
}

fn put(key: Bytes, value: Bytes, lease: i64) -> pb::RequestOp {
    request(Request::RequestPut(pb::PutRequest { key, value, lease }))
}

fn delete(key: Bytes) -> pb::RequestOp {
    request(Request::RequestDeleteRange(pb::DeleteRangeRequest { key }))
}

fn read(key: Bytes) -> pb::RequestOp {
    let range = pb::RangeRequest { key, keys_only: true, ..pb::RangeRequest::default() };
    request(Request::RequestRange(range))
}

fn request(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

/// The id of this life of the data, made by whoever comes first.
pub(super) async fn incarnation(client: &Client, keys: &Keys) -> Result<Incarnation, Error> {
    let key = keys.incarnation();
    let range = pb::RangeRequest { key: key.clone(), ..pb::RangeRequest::default() };
    // Looked for first: an etcd without room answers nothing that might write.
    if let Some(found) = super::read::range(client, range.clone()).await?.kvs.first() {
        return read_incarnation(&found.value);
    }
    let fresh = Incarnation::fresh();
    let absent = pb::Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(0)),
    };
    let make = pb::TxnRequest {
        compare: vec![absent],
        success: vec![put(key, fresh.to_string().into(), 0)],
        failure: vec![],
    };
    // Repeated, it finds what it has made itself.
    send(client, make, Repeat::Safe).await?;
    let found = super::read::range(client, range).await?;
    read_incarnation(&found.kvs.first().ok_or_else(|| broken("no incarnation"))?.value)
}

fn read_incarnation(value: &[u8]) -> Result<Incarnation, Error> {
    let id = uuid::Uuid::try_parse_ascii(value);
    id.map(Incarnation).map_err(|error| broken(&format!("the incarnation: {error}")))
}
