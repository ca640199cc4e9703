//! Whose files change, on an engine that forgets.
use crate::support::{PROJECT, World, at};
use futures::TryStreamExt;
use orrery_hub::artifacts::{ArtifactPath, Artifacts};
use orrery_store::{
    Engine, Entry, Error, Incarnation, Lease, ListRequest, Listing, Op, Revision, Store,
    StoreOptions, Watch,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// An engine that says, as etcd does, where files were last changed and not where it stands.
#[derive(Debug)]
struct Apart(Arc<dyn Engine>);

#[async_trait::async_trait]
impl Engine for Apart {
    fn incarnation(&self) -> Incarnation {
        self.0.incarnation()
    }
    async fn current(&self, prefix: &str) -> Result<Revision, Error> {
        if !prefix.starts_with("artifacts/") {
            return self.0.current(prefix).await;
        }
        let listing = self.0.list(ListRequest::prefix(prefix)).await?;
        let last = listing.entries.iter().map(|entry| entry.modified).max();
        Ok(last.unwrap_or(Revision(1)))
    }
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.0.get(key).await
    }
    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        self.0.list(request).await
    }
    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        self.0.commit(ops).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        self.0.watch(prefix, after).await
    }
    async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        self.0.compact(up_to).await
    }
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        self.0.acquire(name, holder, ttl).await
    }
    async fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        self.0.renew(lease).await
    }
    async fn resign(&self, lease: Lease) -> Result<(), Error> {
        self.0.resign(lease).await
    }
    async fn close(&self) {
        self.0.close().await;
    }
}

#[tokio::test]
async fn uploads_are_followed_though_history_is_forgotten() {
    let engine: Arc<dyn Engine> = Arc::new(Apart(orrery_store::memory()));
    let store = Store::start(engine.clone(), StoreOptions::default()).await.expect("a store");
    let world = World::on(store, |builder| builder);
    world.create_project("system").await;
    world.create_project(PROJECT).await;
    let gizmo = world.create(world.gizmo("a", json!({}))).await;
    engine.compact(engine.current("").await.expect("a revision")).await.expect("compacted");

    let artifacts = Artifacts::new(world.hub.clone());
    let mut changes = artifacts.changes().await.expect("it is followed from here");
    let path: ArtifactPath = "a.txt".parse().expect("a path");
    let kind = world.kind("Gizmo");
    artifacts.set(&kind, &at("a"), &path, b"x".to_vec().into()).await.expect("uploaded");
    let told = changes.try_next().await.expect("no error").expect("it goes on");
    assert!(told.contains(gizmo.uid()), "{told:?}");
}
