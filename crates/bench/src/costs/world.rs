//! A hub on the embedded store, in this process.
use orrery_api::{Encoded, Object, Scheme};
use orrery_bench::resources;
use orrery_hub::{Accessor, ApplyOptions, Hub, ObjectName, ObjectTerms};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::{Project, ProjectStatus};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_store::{EmbeddedOptions, Engine, Store, StoreOptions, open_embedded};
use prost::{Message, Name};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

pub struct World {
    engine: Arc<dyn Engine>,
    pub store: Store,
    pub projects: Arc<dyn Accessor>,
    pub workloads: Arc<dyn Accessor>,
}

static CHANGES: AtomicUsize = AtomicUsize::new(0);

pub fn name(number: usize) -> ObjectName {
    ObjectName::new("", format!("object-{number}"))
}

impl World {
    pub async fn open(folder: &Path) -> anyhow::Result<Self> {
        let scheme = Arc::new(Scheme::builtin()?);
        let engine = open_embedded(&folder.join("store"), EmbeddedOptions::default()).await?;
        let options = StoreOptions {
            prefix: orrery_hub::OBJECTS.to_owned(),
            terms: Some(Arc::new(ObjectTerms::new(&scheme))),
            ..StoreOptions::default()
        };
        let store = Store::start(engine.clone(), options).await?;
        let hub = Hub::builder(scheme.clone(), store.clone()).build()?;
        let (project, workload) = (scheme.kind_of::<Project>()?, scheme.kind_of::<Workload>()?);
        let (projects, workloads) = (hub.accessor(&project)?, hub.accessor(&workload)?);
        let (projects, workloads) = (projects.clone(), workloads.clone());
        Ok(Self { engine, store, projects, workloads })
    }

    pub async fn close(&self) {
        self.store.stop().await;
        self.engine.close().await;
    }

    /// So many writes of objects of about 1 KB, by so many at once, in turn over so many objects.
    pub async fn write(
        &self,
        how: How,
        count: usize,
        writers: usize,
        over: usize,
    ) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        for writer in 0..writers {
            let projects = self.projects.clone();
            running.spawn(async move {
                for number in (writer..count).step_by(writers) {
                    write(&projects, how, &object(number % over, number)).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        Ok(())
    }
}

impl World {
    /// So many writes of workloads in turn over 256 of them, by 64 at once.
    pub async fn write_workloads(&self, how: How, count: usize) -> anyhow::Result<()> {
        let project = typed_project(resources::PROJECT);
        self.projects
            .apply(Object::from_typed(self.projects.kind(), &project)?, <_>::default())
            .await?;
        let mut running = JoinSet::new();
        for writer in 0..64 {
            let workloads = self.workloads.clone();
            running.spawn(async move {
                for number in (writer..count).step_by(64) {
                    let version = CHANGES.fetch_add(1, Ordering::Relaxed);
                    let name = format!("bench-{}", number % 256);
                    write(&workloads, how, &resources::workload(&name, 400, version)).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        Ok(())
    }
}

fn typed_project(name: &str) -> Project {
    let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
    Project { metadata: Some(metadata), ..Project::default() }
}

/// How an object is written.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// As a program sends it: bytes of its own types.
    Bytes,
    /// Decoded, as it comes from JSON.
    Object,
    /// Decoded, by somebody who owns the fields that it sets.
    Managed,
    /// Only the status, as bytes.
    Status,
}

async fn write<T: Message + Name>(
    projects: &Arc<dyn Accessor>,
    how: How,
    project: &T,
) -> anyhow::Result<()> {
    let kind = projects.kind();
    match how {
        How::Bytes => {
            let given = Encoded::from_typed(kind, project)?;
            projects.apply_encoded(given, ApplyOptions::default()).await?;
        }
        How::Status => {
            let given = Encoded::from_typed(kind, project)?;
            projects.apply_encoded(given, ApplyOptions::status()).await?;
        }
        How::Object => {
            let given = Object::from_typed(kind, project)?;
            projects.apply(given, ApplyOptions::default()).await?;
        }
        How::Managed => {
            let given = Object::from_typed(kind, project)?;
            projects.apply(given, ApplyOptions::declared_by("bench")).await?;
        }
    }
    Ok(())
}

fn object(number: usize, version: usize) -> Project {
    // Different each time, so that every write changes something.
    let version = format!("{version}-{}", CHANGES.fetch_add(1, Ordering::Relaxed));
    let annotations = [("payload", "x".repeat(800)), ("version", version)];
    let metadata = ObjectMeta {
        name: name(number).name,
        labels: [("number".to_owned(), format!("n{number}"))].into(),
        annotations: annotations.map(|(key, value)| (key.to_owned(), value)).into(),
        ..ObjectMeta::default()
    };
    let changes = i64::try_from(CHANGES.load(Ordering::Relaxed)).unwrap_or_default();
    let status = ProjectStatus { remaining_resources: changes, ..ProjectStatus::default() };
    Project { metadata: Some(metadata), status: Some(status), ..Project::default() }
}
