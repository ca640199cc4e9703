//! The tasks that do what takes time, and what they say when they are done.
use super::health::Question;
use crate::assignments::Assignments;
use crate::files::{Files, Owner};
use crate::model::{History, InstanceId, Run};
use crate::plan::{Action, Desired};
use crate::runtime::{Runtime, RuntimeError, StartRequest, StopRequest};
use crate::volumes::{Bind, Volumes};
use crate::{probes, users};
use orrery_proto::apps::v1::{WorkloadInstanceSpec, workload_instance_spec};
use orrery_proto::fleet::v1::{Assignment, InstanceFiles};
use std::{io, path::PathBuf, sync::Arc};
use tokio::sync::Semaphore;

/// Starts and looks under way at once. Each is a few files and at most one new process, so this keeps
/// two cores busy and a thousand starts from standing in each other's way.
const STARTS_MAX: usize = 32;

/// Saves and removals under way at once; each waits for the disk.
const SAVES_MAX: usize = 32;

/// What the tasks work with.
#[derive(Clone)]
pub(super) struct Tools {
    runtime: Arc<dyn Runtime>,
    assignments: Arc<Assignments>,
    files: Files,
    volumes: Volumes,
    starts: Arc<Semaphore>,
    saves: Arc<Semaphore>,
}

impl Tools {
    pub(super) fn new(
        runtime: Arc<dyn Runtime>,
        assignments: Assignments,
        files: Files,
        volumes: Volumes,
    ) -> Self {
        let starts = Arc::new(Semaphore::new(STARTS_MAX));
        let saves = Arc::new(Semaphore::new(SAVES_MAX));
        Self { runtime, assignments: Arc::new(assignments), files, volumes, starts, saves }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn root(&self, id: &InstanceId, pid: i32) -> Option<i32> {
        self.runtime.root(id, pid)
    }

    pub(super) fn container(&self, id: &InstanceId) -> Option<String> {
        self.runtime.container(id)
    }
}

/// One action on one instance, with all that it needs.
pub(super) struct Order {
    pub id: InstanceId,
    pub action: Action,
    pub assignment: Assignment,
    pub desired: Desired,
    pub revision: u64,
    pub files: Option<Arc<InstanceFiles>>,
}

/// What a task has to say.
pub(super) enum Event {
    /// The action is done, or failed for the given reason.
    Done { action: Action, outcome: Result<Done, String> },
    /// A probe was answered.
    Probed(Question, Result<(), String>),
    /// The run that was waited for is over.
    Ended(Result<Option<Run>, String>),
}

/// What came of an action.
pub(super) enum Done {
    /// This is the last run now.
    Saw(Option<Run>),
    /// The assignment of this revision is on disk.
    Saved(u64),
    /// It was asked to stop, or killed.
    Asked,
    Removed,
}

pub(super) async fn act(tools: Tools, order: Order) -> (InstanceId, Event) {
    let (id, action) = (order.id.clone(), order.action);
    (id, Event::Done { action, outcome: perform(tools, order).await })
}

pub(super) async fn watch(tools: Tools, id: InstanceId) -> (InstanceId, Event) {
    let outcome = tools.runtime.wait(&id).await.map_err(|error| error.to_string());
    (id, Event::Ended(outcome))
}

pub(super) async fn ask(tools: Tools, id: InstanceId, question: Question) -> (InstanceId, Event) {
    let answer = probes::ask(&*tools.runtime, &id, &question.probe).await;
    (id, Event::Probed(question, answer))
}

async fn perform(tools: Tools, order: Order) -> Result<Done, String> {
    let said = |error: RuntimeError| error.to_string();
    let runtime = &tools.runtime;
    match order.action {
        Action::Inspect => {
            let _turn = tools.starts.acquire().await;
            runtime.inspect(&order.id).await.map(Done::Saw).map_err(said)
        }
        Action::Start(history) => {
            let _turn = tools.starts.acquire().await;
            let files = place_files(&tools.files, &order).await?;
            let volumes = tools.volumes.prepare(&order.id, &order.assignment).await?;
            let started = runtime.start(&start_request(order, history, files, volumes)).await;
            started.map(|run| Done::Saw(Some(run))).map_err(said)
        }
        Action::Stop => {
            let request = stop_request(&order.desired);
            runtime.stop(&order.id, request).await.map(|()| Done::Asked).map_err(said)
        }
        Action::Kill => runtime.kill(&order.id).await.map(|()| Done::Asked).map_err(said),
        Action::Save => {
            let _turn = tools.saves.acquire().await;
            save(tools.assignments, order).await
        }
        Action::Remove => {
            let _turn = tools.saves.acquire().await;
            runtime.remove(&order.id).await.map_err(said)?;
            let (files, id) = (tools.files.clone(), order.id.clone());
            on_disk("delete its files", move || files.remove(&id)).await?;
            tools.volumes.release(&order.id).await?;
            discard(tools.assignments, order.id).await
        }
    }
}

/// Puts the files of an instance where it finds them, unless they are there already.
async fn place_files(files: &Files, order: &Order) -> Result<Option<PathBuf>, String> {
    let spec = order.assignment.spec.clone().unwrap_or_default();
    if spec.files.is_empty() {
        return Ok(None);
    }
    let revision = spec.files_revision().to_owned();
    let place = files.place(&order.id, &revision).ok_or("the revision of its files has no name")?;
    let handed = order.files.clone().filter(|handed| handed.revision == revision);
    if let Some(handed) = handed {
        let (files, id) = (files.clone(), order.id.clone());
        on_disk("write its files", move || files.write(&id, &handed, owner(&spec)?)).await?;
    } else if !files.has(&order.id, &revision) {
        return Err("its files are not here, and the server has not handed them out".to_owned());
    }
    Ok(Some(place))
}

/// Who has to be able to read the files.
fn owner(spec: &WorkloadInstanceSpec) -> io::Result<Owner> {
    match &spec.runtime {
        Some(workload_instance_spec::Runtime::Process(process)) => {
            let user = process.user.as_deref().map(users::find).transpose()?;
            Ok(user.map(|user| user.ids()))
        }
        // Its image says what a user means, so its runtime gives them away.
        Some(workload_instance_spec::Runtime::Podman(_)) | None => Ok(None),
    }
}

fn start_request(
    order: Order,
    history: History,
    files: Option<PathBuf>,
    volumes: Vec<Bind>,
) -> StartRequest {
    StartRequest {
        stop: stop_request(&order.desired),
        id: order.id,
        project: order.assignment.project,
        spec: order.assignment.spec.unwrap_or_default(),
        hash: order.desired.hash,
        history,
        files,
        volumes,
    }
}

fn stop_request(desired: &Desired) -> StopRequest {
    StopRequest { signal: desired.stop_signal, grace: desired.grace }
}

async fn save(assignments: Arc<Assignments>, order: Order) -> Result<Done, String> {
    on_disk("save its assignment", move || assignments.save(&order.id, &order.assignment)).await?;
    Ok(Done::Saved(order.revision))
}

async fn discard(assignments: Arc<Assignments>, id: InstanceId) -> Result<Done, String> {
    on_disk("delete its folder", move || assignments.discard(&id)).await?;
    Ok(Done::Removed)
}

async fn on_disk(
    doing: &str,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(), String> {
    let outcome = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
    outcome.and_then(|outcome| outcome).map_err(|error| format!("cannot {doing}: {error}"))
}
