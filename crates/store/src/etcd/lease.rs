//! Leases on etcd's own, whose keys vanish when they end.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};

use super::{
    client::{Client, Repeat},
    commit,
    keys::Keys,
    pb::{self, lease_client::LeaseClient},
    read,
};
use crate::{
    error::Error,
    lease::{Lease, key_of},
    model::Op,
};

pub(super) async fn acquire(
    client: &Client,
    keys: &Keys,
    name: &str,
    holder: &str,
    ttl: Duration,
) -> Result<Option<Lease>, Error> {
    // Those who wait for it look often, and mostly in vain.
    if read::get(client, keys, &key_of(name)).await?.is_some() {
        return Ok(None);
    }
    let ttl_s = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
    let send = |wire| async move {
        LeaseClient::new(wire).lease_grant(pb::LeaseGrantRequest { ttl: ttl_s }).await
    };
    // Granted twice, the one nobody knows of ends by itself.
    let granted = client.ask(Repeat::Safe, send).await?;
    let (id, key) = (granted.id, key_of(name));
    let create = Op::create(Arc::clone(&key), holder.to_owned().into_bytes());
    match commit::commit(client, keys, &[create], Some(id)).await {
        Ok(created) => Ok(Some(Lease { key, created, ttl, id })),
        Err(Error::Conflict { .. }) => {
            revoke(client, id).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn renew(client: &Client, lease: &Lease) -> Result<bool, Error> {
    let id = lease.id;
    let send = |wire| async move {
        let requests = stream::iter([pb::LeaseKeepAliveRequest { id }]).chain(stream::pending());
        let mut answers = LeaseClient::new(wire).lease_keep_alive(requests).await?.into_inner();
        Ok(tonic::Response::new(answers.message().await?))
    };
    let answer = client.ask(Repeat::Safe, send).await?;
    Ok(answer.is_some_and(|answer| 0 < answer.ttl))
}

/// Deletes the key in a commit of its own, so that caches see it at once, then the lease.
pub(super) async fn resign(client: &Client, keys: &Keys, lease: &Lease) -> Result<(), Error> {
    match commit::commit(client, keys, &[lease.removal()], None).await {
        Ok(_) | Err(Error::Conflict { .. }) => revoke(client, lease.id).await,
        Err(error) => Err(error),
    }
}

async fn revoke(client: &Client, id: i64) -> Result<(), Error> {
    let send = |wire| async move {
        LeaseClient::new(wire).lease_revoke(pb::LeaseRevokeRequest { id }).await
    };
    match client.ask(Repeat::Safe, send).await {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.is_lease_gone() => Ok(()),
        Err(refusal) => Err(refusal.into()),
    }
}
