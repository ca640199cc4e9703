//! A collector that begins long after a deletion was asked for, and hears of what is owned last.
use crate::support::{World, eventually};
use async_trait::async_trait;
use orrery_api::{Kind, Object, ObjectMeta};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Deleted, Error, GetOptions, ListOptions,
    ObjectName, Page, Propagation, StatusOptions, WatchOptions, WatchStream,
};
use orrery_lifecycle::DEFAULT_PROJECT;
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Secret;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Watches of one kind begin when they are let, and what is read is noted.
struct Slow {
    inner: Arc<dyn Accessor>,
    begin: CancellationToken,
    reads: Reads,
}

/// The names of what was read.
type Reads = Arc<Mutex<Vec<String>>>;

#[async_trait]
impl Accessor for Slow {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }
    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.reads.lock().push(options.name.name.clone());
        self.inner.get(options).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.inner.list(options).await
    }
    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        self.inner.apply(object, options).await
    }
    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        self.inner.delete(options).await
    }
    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.inner.status(options).await
    }
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        self.begin.cancelled().await;
        self.inner.watch(options).await
    }
}

/// The collector looks again after a tenth of what it has waited, so this is longer than it waits for watches that have
/// begun.
const LOOKS: usize = 60;

fn at(name: &str) -> ObjectName {
    ObjectName::new(DEFAULT_PROJECT, name)
}

fn metadata(name: &str, owner: Option<&Object>) -> Value {
    let reference = |owner: &Object| {
        json!({
            "apiVersion": owner.kind().api_version(), "kind": owner.kind().kind(),
            "name": owner.name(), "uid": owner.uid(), "blockOwnerDeletion": true,
        })
    };
    let owners: Vec<Value> = owner.map(reference).into_iter().collect();
    json!({"name": name, "project": DEFAULT_PROJECT, "ownerReferences": owners})
}

/// Workloads that own each other, of which the last owns a secret that is held. The watch of secrets comes late.
struct Late {
    world: World,
    begin: CancellationToken,
    reads: Reads,
}

impl Late {
    async fn owning(workloads: &[&str]) -> Self {
        let (begin, reads) = (CancellationToken::new(), Reads::default());
        let open = CancellationToken::new();
        open.cancel();
        let slow = |begin: &CancellationToken| {
            let (begin, reads) = (begin.clone(), reads.clone());
            move |inner| -> Arc<dyn Accessor> {
                Arc::new(Slow { inner, begin: begin.clone(), reads: reads.clone() })
            }
        };
        let world = World::idle(|builder| {
            let builder = builder.layer("orrery.core.v1.Secret", slow(&begin));
            builder.layer("orrery.apps.v1.Workload", slow(&open))
        });
        let world = world.await;
        let mut owner = None;
        for name in workloads {
            owner = Some(world.create(metadata(name, owner.as_ref())).await);
        }
        let mut metadata = metadata("secret", owner.as_ref());
        metadata["finalizers"] = json!(["x/hold"]);
        world.create_one("Secret", json!({"metadata": metadata})).await;
        Self { world, begin, reads }
    }

    /// The collector begins a minute after the deletion, and looks at this workload again and again.
    async fn deleted(&self, propagation: Propagation, looked_at: &str) {
        let propagation = Some(propagation);
        let options = DeleteOptions { propagation, ..at("owner").into() };
        self.world.accessor("Workload").delete(options).await.expect("it can be asked for");
        self.world.clock.advance(60);
        self.reads.lock().clear();
        self.world.begin();
        let looks = || self.reads.lock().iter().filter(|name| *name == looked_at).count();
        eventually(|| async { LOOKS < looks() || !self.is_there(looked_at).await }).await;
        assert!(self.is_there(looked_at).await, "nobody knows what it owns");
        self.begin.cancel();
    }

    async fn is_there(&self, workload: &str) -> bool {
        let found = self.world.hub.resources::<Workload>().expect("workloads");
        found.find(&at(workload)).await.expect("an answer").is_some()
    }

    async fn secret(&self) -> Object {
        self.world.accessor("Secret").get(at("secret").into()).await.expect("it is held")
    }

    async fn release(&self) {
        let secrets = self.world.hub.resources::<Secret>().expect("secrets");
        let free = |meta: &mut ObjectMeta| meta.finalizers.clear();
        secrets.update_meta(&at("secret"), free).await.expect("released");
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_although_the_collector_hears_of_them_late() {
    let late = Late::owning(&["owner"]).await;
    late.deleted(Propagation::Orphan, "owner").await;
    late.world.gone("Workload", &at("owner")).await;
    let left = late.secret().await.meta();
    assert!(left.owner_references.is_empty() && left.deletion_timestamp.is_none(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_what_the_collector_hears_of_late() {
    let late = Late::owning(&["owner"]).await;
    late.deleted(Propagation::Foreground, "owner").await;
    eventually(|| async { late.secret().await.deletion_timestamp().is_some() }).await;
    assert!(late.is_there("owner").await, "it waits for the secret");
    late.release().await;
    late.world.gone("Workload", &at("owner")).await;
}

/// What an owner waits for waits for what it owns itself.
#[tokio::test(start_paused = true)]
async fn what_is_owned_waits_for_what_the_collector_hears_of_late() {
    let late = Late::owning(&["owner", "child"]).await;
    late.deleted(Propagation::Foreground, "child").await;
    eventually(|| async { late.secret().await.deletion_timestamp().is_some() }).await;
    assert!(late.is_there("owner").await && late.is_there("child").await, "each waits");
    late.release().await;
    late.world.gone("Workload", &at("owner")).await;
}
