//! Leases: one holder at a time, an end without renewal, and fences that hold.

use std::time::Duration;

use super::{World, util::*};
use crate::{
    engine::Engine,
    error::Error,
    lease::Lease,
    model::{Op, Revision},
};

/// Never ends while a check runs.
const LONG: Duration = Duration::from_secs(60);

/// The shortest that etcd grants.
const SHORT: Duration = Duration::from_secs(1);

pub async fn leases(world: &dyn World) {
    one_holder_at_a_time(world.fresh().await.as_ref()).await;
    an_end_without_renewal(world.fresh().await.as_ref()).await;
    renewal_keeps_it(world.fresh().await.as_ref()).await;
}

async fn acquire(engine: &dyn Engine, holder: &str, ttl: Duration) -> Option<Lease> {
    engine.acquire("leader", holder, ttl).await.expect("the engine answers")
}

async fn one_holder_at_a_time(engine: &dyn Engine) {
    let first = acquire(engine, "first", LONG).await.expect("nobody has it");
    assert_eq!(acquire(engine, "second", LONG).await, None, "it is taken");
    let other = engine.acquire("other", "second", LONG).await.expect("the engine answers");
    assert!(other.is_some(), "names are independent");
    let entry = get(engine, first.key()).await.expect("a lease is a key");
    assert_eq!(&entry.value[..], b"first", "it names its holder");

    let written = commit(engine, vec![first.fence(), Op::create("done", "first")]).await;
    assert!(engine.renew(&first).await.expect("the engine answers"));
    engine.resign(first.clone()).await.expect("a lease can be given back");
    engine.resign(first.clone()).await.expect("giving back twice is no error");
    assert!(!engine.renew(&first).await.expect("the engine answers"), "it has ended");

    let second = acquire(engine, "second", LONG).await.expect("it is free again");
    assert!(first.token() < second.token(), "tokens grow");
    fenced_out(engine, &first, written).await;
    engine.resign(first).await.expect("an ended lease cannot take the next one with it");
    assert!(engine.renew(&second).await.expect("the engine answers"));
    commit(engine, vec![second.fence(), Op::update("done", "second", written)]).await;
}

async fn fenced_out(engine: &dyn Engine, lease: &Lease, at: Revision) {
    let late = vec![lease.fence(), Op::update("done", "late", at)];
    match engine.commit(late).await {
        Err(Error::Conflict { key, .. }) => assert_eq!(&key, lease.key(), "the fence is named"),
        other => panic!("a holder of the past wrote: {other:?}"),
    }
}

async fn an_end_without_renewal(engine: &dyn Engine) {
    let lease = acquire(engine, "first", SHORT).await.expect("nobody has it");
    let written = commit(engine, vec![lease.fence(), Op::create("done", "first")]).await;
    eventually("the lease ends by itself", || async { get(engine, lease.key()).await.is_none() })
        .await;
    assert!(!engine.renew(&lease).await.expect("the engine answers"), "it is over");
    fenced_out(engine, &lease, written).await;
    assert!(acquire(engine, "second", LONG).await.is_some(), "another can take it");
}

async fn renewal_keeps_it(engine: &dyn Engine) {
    let lease = acquire(engine, "first", SHORT).await.expect("nobody has it");
    let started = tokio::time::Instant::now();
    while started.elapsed() < SHORT * 2 {
        assert!(engine.renew(&lease).await.expect("the engine answers"), "it is still held");
        assert_eq!(acquire(engine, "second", LONG).await, None, "it is still taken");
        tokio::time::sleep(SHORT / 8).await;
    }
    commit(engine, vec![lease.fence(), Op::create("done", "first")]).await;
}
