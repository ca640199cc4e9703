//! The tasks that do what takes time, and what they say when they are done.
use crate::assignments::Assignments;
use crate::model::{History, InstanceId, Run};
use crate::plan::{Action, Desired};
use crate::runtime::{Runtime, RuntimeError, StartRequest, StopRequest};
use crate::volumes::{Bind, Volumes};
use orrery_proto::fleet::v1::Assignment;
use std::{io, sync::Arc};
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
    volumes: Volumes,
    starts: Arc<Semaphore>,
    saves: Arc<Semaphore>,
}

impl Tools {
    pub(super) fn new(
        runtime: Arc<dyn Runtime>,
        assignments: Assignments,
        volumes: Volumes,
    ) -> Self {
        let starts = Arc::new(Semaphore::new(STARTS_MAX));
        let saves = Arc::new(Semaphore::new(SAVES_MAX));
        Self { runtime, assignments: Arc::new(assignments), volumes, starts, saves }
    }
}

/// One action on one instance, with all that it needs.
pub(super) struct Order {
    pub id: InstanceId,
    pub action: Action,
    pub assignment: Assignment,
    pub desired: Desired,
    pub revision: u64,
}

/// What a task has to say.
pub(super) enum Event {
    /// The action is done, or failed for the given reason.
    Done { action: Action, outcome: Result<Done, String> },
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
            let volumes = tools.volumes.prepare(&order.id, &order.assignment).await?;
            let started = runtime.start(&start_request(order, history, volumes)).await;
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
            tools.volumes.release(&order.id).await?;
            discard(tools.assignments, order.id).await
        }
    }
}

fn start_request(order: Order, history: History, volumes: Vec<Bind>) -> StartRequest {
    StartRequest {
        stop: stop_request(&order.desired),
        id: order.id,
        project: order.assignment.project,
        spec: order.assignment.spec.unwrap_or_default(),
        hash: order.desired.hash,
        history,
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
