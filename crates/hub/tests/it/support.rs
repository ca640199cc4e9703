//! A hub of its own for each test: an empty store in memory, a clock that stands, two projects.
use futures::StreamExt;
use orrery_api::{DecodeOptions, FieldSelector, Kind, LabelSelector, Object, Scheme};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, Error, Hub, HubBuilder, ListOptions, ManualClock, ObjectName,
    ObjectTerms, WatchEvent, WatchOptions, WatchStream,
};
use orrery_proto::core::v1::{Project, ProjectSpec};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_store::{Store, StoreOptions, Terms, memory};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub const PROJECT: &str = "demo";
pub const START: i64 = 1_700_000_000;
pub const GIZMO: &str = "orrery.fixture.v1.Gizmo";
/// Only an upper bound: nothing waits that long unless it is broken.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub hub: Hub,
    pub clock: Arc<ManualClock>,
}

/// Our own kinds and those of the fixture.
pub fn scheme() -> Arc<Scheme> {
    let here = env!("CARGO_MANIFEST_DIR");
    let roots = [format!("{here}/../../proto"), format!("{here}/tests/it/proto")];
    let mut compiler = protox::Compiler::new(roots).expect("the folders are there");
    compiler.include_imports(true).open_file("fixture/gizmo.proto").expect("the fixture compiles");
    // Encoded by the compiler, because prost would drop the options that are ours.
    let bytes = compiler.encode_file_descriptor_set();
    let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    Arc::new(builder.descriptors(&bytes).build().expect("the kinds are well defined"))
}

impl World {
    pub async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    pub async fn with(build: impl FnOnce(HubBuilder) -> HubBuilder) -> Self {
        let terms = Some(Arc::new(ObjectTerms::new(&scheme())) as Arc<dyn Terms>);
        let options = StoreOptions { terms, ..StoreOptions::default() };
        let store = Store::start(memory(), options).await.expect("a store");
        let world = Self::on(store, build);
        world.create_project("system").await;
        world.create_project(PROJECT).await;
        world
    }

    /// Another server on a store that is there already.
    pub fn on(store: Store, build: impl FnOnce(HubBuilder) -> HubBuilder) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let builder = Hub::builder(scheme(), store).clock(clock.clone());
        Self { hub: build(builder).build().expect("a hub"), clock }
    }

    pub async fn create_project(&self, name: &str) -> Project {
        let metadata = Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() });
        let project = Project { metadata, spec: Some(ProjectSpec {}), ..Project::default() };
        let projects = self.hub.resources::<Project>().expect("projects are registered");
        projects.create(&project).await.expect("a new project")
    }

    pub fn kind(&self, name: &str) -> Arc<Kind> {
        self.hub.scheme().resolve("", name).expect("a known kind")
    }

    pub fn accessor(&self, kind: &str) -> Arc<dyn Accessor> {
        self.hub.accessor(&self.kind(kind)).expect("it is accessible").clone()
    }

    pub fn gizmos(&self) -> Arc<dyn Accessor> {
        self.accessor("Gizmo")
    }

    /// A gizmo of the demo project, exactly as it is written.
    pub fn gizmo(&self, name: &str, spec: Value) -> Object {
        self.read(json!({"metadata": {"name": name, "project": PROJECT}, "spec": spec}))
    }

    pub fn read(&self, value: Value) -> Object {
        let kind = self.kind(value.get("kind").and_then(Value::as_str).unwrap_or("Gizmo"));
        let decoded = Object::from_json_value(&kind, &value, &DecodeOptions::default());
        decoded.expect("valid JSON of the kind").object
    }

    pub async fn get(&self, name: &str) -> Object {
        self.gizmos().get(at(name).into()).await.expect("it is there")
    }

    pub async fn create(&self, object: Object) -> Object {
        let applied = self.gizmos().apply(object, ApplyOptions::create()).await;
        applied.expect("it can be created").object
    }

    pub async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        self.hub.accessor(object.kind()).expect("it is accessible").apply(object, options).await
    }

    pub async fn names(&self, options: ListOptions) -> Vec<String> {
        let page = self.gizmos().list(options).await.expect("a list");
        page.items.iter().map(|object| object.name().to_owned()).collect()
    }

    pub async fn watch(&self, options: WatchOptions) -> Watched {
        Watched(self.gizmos().watch(options).await.expect("a watch"))
    }
}

pub fn at(name: &str) -> ObjectName {
    ObjectName::new(PROJECT, name)
}

pub fn labels(text: &str) -> LabelSelector {
    LabelSelector::parse(text).expect("a label selector")
}

pub fn fields(text: &str, kind: &Kind) -> FieldSelector {
    FieldSelector::parse(text, kind).expect("a field selector")
}

pub fn json_of(object: &Object) -> Value {
    object.to_json_value(&Default::default())
}

/// A watch that tells its events as short texts.
pub struct Watched(WatchStream);

impl Watched {
    pub async fn event(&mut self) -> Result<WatchEvent, Error> {
        let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
        next.expect("an event in time").expect("the watch goes on")
    }

    /// `+name`, `~name`, `-name`, or `*` for a bookmark.
    pub async fn next(&mut self) -> String {
        match self.event().await.expect("no error") {
            WatchEvent::Added(object) => format!("+{}", object.name()),
            WatchEvent::Modified(object) => format!("~{}", object.name()),
            WatchEvent::Deleted(object) => format!("-{}", object.name()),
            WatchEvent::Bookmark(_) => "*".to_owned(),
        }
    }
}
