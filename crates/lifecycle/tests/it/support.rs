//! A hub with its controllers, on a store in memory.
use orrery_api::{DecodeOptions, Object, Scheme};
use orrery_hub::{Accessor, ApplyOptions, Error, Hub, HubBuilder, ManualClock, ObjectName};
use orrery_proto::core::v1::Project;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::Tasks;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Only an upper bound: nothing waits that long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub struct World {
    pub hub: Hub,
    pub clock: Arc<ManualClock>,
    stop: CancellationToken,
    _guard: DropGuard,
}

impl World {
    pub async fn new() -> Self {
        let world = Self::idle(|builder| builder).await;
        world.begin();
        world
    }

    /// One whose controllers have not begun.
    pub async fn idle(build: impl FnOnce(HubBuilder) -> HubBuilder) -> Self {
        let scheme = Arc::new(Scheme::builtin().expect("our kinds are well defined"));
        let clock = Arc::new(ManualClock::at(1_700_000_000));
        let builder = Hub::in_memory(scheme).await.expect("a store").clock(clock.clone());
        let hub = build(orrery_lifecycle::register(builder)).build().expect("a hub");
        orrery_lifecycle::ensure_projects(&hub).await.expect("the first projects");
        let stop = CancellationToken::new();
        Self { hub, clock, stop: stop.clone(), _guard: stop.drop_guard() }
    }

    /// Begins a term of the controllers.
    pub fn begin(&self) {
        let mut tasks = Tasks::new(self.stop.clone());
        orrery_lifecycle::spawn(&self.hub, &mut tasks).expect("controllers");
        tokio::spawn(tasks.run(PATIENCE));
    }

    pub fn accessor(&self, kind: &str) -> Arc<dyn Accessor> {
        let kind = self.hub.scheme().resolve("", kind).expect("a known kind");
        self.hub.accessor(&kind).expect("it is accessible").clone()
    }

    pub async fn create_project(&self, name: &str) {
        let metadata = Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() });
        let projects = self.hub.resources::<Project>().expect("projects");
        let project = Project { metadata, ..Project::default() };
        projects.create(&project).await.expect("a new project");
    }

    /// A workload with these metadata.
    pub async fn create(&self, metadata: Value) -> Object {
        let spec = json!({"process": {"command": "true"}, "placement": {"nodes": ["n"]}});
        self.create_one("Workload", json!({"metadata": metadata, "spec": spec})).await
    }

    pub async fn create_one(&self, kind: &str, value: Value) -> Object {
        let accessor = self.accessor(kind);
        let read = Object::from_json_value(accessor.kind(), &value, &DecodeOptions::default());
        let object = read.expect("an object of the kind").object;
        accessor.apply(object, ApplyOptions::create()).await.expect("created").object
    }

    pub async fn exists(&self, kind: &str, name: &ObjectName) -> bool {
        match self.accessor(kind).get(name.clone().into()).await {
            Ok(_) => true,
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until it is gone.
    pub async fn gone(&self, kind: &str, name: &ObjectName) {
        eventually(|| async { !self.exists(kind, name).await }).await;
    }
}

/// Looks again and again until the condition holds.
pub async fn eventually<F: Future<Output = bool>>(holds: impl FnMut() -> F) {
    eventually_within(PATIENCE, holds).await;
}

/// The same for what happens seldom, in tests that let the clock jump.
pub async fn eventually_within<F: Future<Output = bool>>(
    patience: Duration,
    mut holds: impl FnMut() -> F,
) {
    let looking = async {
        while !holds().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(patience, looking).await.expect("the condition holds in time");
}
