//! The engine for more than one server, on etcd 3.4 or later.
//!
//! ```text
//!   <root> <key>            the entries, nothing added to their values
//!   <root> <segment> NUL    a marker, put last in every transaction that writes in the segment
//!   <root> NUL "id"         the incarnation
//! ```
//!
//! A segment is a key's text up to its first `/`. The marker does two things. Its revision is that
//! of the last commit in the segment, deletions included, so one linearizable read of it tells a
//! cache how far it must come, without etcd's progress notifications, which before 3.4.25 may run
//! ahead of the changes. And as the last change of each transaction it tells a watch that a commit
//! is complete, however etcd cuts its answers.
//!
//! A commit is one transaction: expectations are its conditions, and if they fail its other branch
//! reads the keys, so that the conflict is named without a second request.

mod client;
mod commit;
mod keys;
mod lease;
mod options;
mod proofs;
mod read;
mod room;
mod watch;

/// Generated from the part of etcd's contract that is used here.
#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
mod pb {
    tonic::include_proto!("etcdserverpb");
}

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

pub use self::options::{Credentials, EtcdOptions, EtcdTls, Proofs, Reread};
use self::{client::Client, keys::Keys, read::Positions, room::Room};
use crate::{
    engine::{Engine, ListRequest, Listing, Watch},
    error::{Error, OpenError},
    judge,
    lease::Lease,
    model::{Entry, Incarnation, Op, Revision},
};

/// Connects to an etcd cluster. Fails if it does not answer.
pub async fn open_etcd(options: EtcdOptions) -> Result<Arc<dyn Engine>, OpenError> {
    let keys = Keys::new(&options.root)?;
    let client = Client::connect(&options).await?;
    let incarnation = commit::incarnation(&client, &keys).await?;
    let (positions, room) = (Positions::default(), Room::default());
    Ok(Arc::new(Etcd { client, keys, incarnation, positions, room }))
}

struct Etcd {
    client: Client,
    keys: Keys,
    incarnation: Incarnation,
    positions: Positions,
    room: Room,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[async_trait]
impl Engine for Etcd {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn health(&self) -> Result<(), Error> {
        self.client.check_open()
    }

    async fn ready(&self) -> Result<(), Error> {
        self.room.check(&self.client).await
    }

    async fn current(&self, prefix: &str) -> Result<Revision, Error> {
        self.positions.current(&self.client, &self.keys, prefix).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        judge::validate_key(key)?;
        read::get(&self.client, &self.keys, key).await
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        read::list(&self.client, &self.keys, &request).await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        judge::validate(&ops)?;
        let outcome = commit::commit(&self.client, &self.keys, &ops, None).await;
        if ops.iter().any(Op::writes) {
            self.room.learn(&outcome);
        }
        outcome
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        watch::watch(&self.client, &self.keys, prefix, after).await
    }

    async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        read::compact(&self.client, &self.keys, up_to).await
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        lease::acquire(&self.client, &self.keys, name, holder, ttl).await
    }

    async fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        lease::renew(&self.client, lease).await
    }

    async fn resign(&self, lease: Lease) -> Result<(), Error> {
        lease::resign(&self.client, &self.keys, &lease).await
    }

    async fn close(&self) {
        self.client.close();
    }
}
