//! What agents report of their copies.
use super::assignments::{Assignments, Placed};
use crate::workloads::AGENT_FINALIZER;
use crate::workloads::controller::{ignore_gone, release};
use futures::StreamExt;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{Error, Hub, ObjectName, Outcome, Resources};
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceStatus};
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::fleet::v1::{InstanceState, InstanceStates};
use orrery_proto::meta::v1::ObjectMeta;
use std::sync::Arc;

/// How many states of one message are written at once. The store groups what is written together
/// into one durable commit, so this is what makes a busy agent cheap.
const WRITES_AT_ONCE: usize = 64;

#[derive(Clone)]
pub struct States {
    instances: Resources<WorkloadInstance>,
    assignments: Arc<Assignments>,
    recorder: Recorder,
}

impl States {
    pub fn new(hub: &Hub, assignments: Arc<Assignments>) -> Result<Self, Error> {
        let recorder = Recorder::new(hub, "fleet")?;
        Ok(Self { instances: hub.resources()?, assignments, recorder })
    }

    /// Takes in what an agent says. It may speak of its own copies only. Returns when everything is
    /// stored, so that a later word about a copy never overtakes an earlier one.
    pub async fn take(&self, agent: &str, states: InstanceStates) {
        futures::stream::iter(states.states)
            .for_each_concurrent(WRITES_AT_ONCE, |state| self.take_one(agent, state))
            .await;
    }

    /// Nobody knows any more what the copies on a node do.
    pub async fn mark_unknown(&self, node: &str, why: &str) {
        futures::stream::iter(self.assignments.on_node(node))
            .for_each_concurrent(WRITES_AT_ONCE, |name| async move {
                if let Err(error) = self.forget(&name, why).await {
                    tracing::error!(%name, %error, "cannot mark a workload as unknown");
                }
            })
            .await;
    }

    async fn take_one(&self, agent: &str, state: InstanceState) {
        let Some(placed) = self.assignments.placed(&state.id) else {
            // The copy is gone from the store: the agent has its word, nobody else needs it.
            return;
        };
        if placed.node != agent {
            tracing::warn!(agent, instance = %placed.name, "an agent spoke of another's workload");
            return;
        }
        let Some(status) = state.status else { return };
        if let Err(error) = self.write(&placed, status).await {
            tracing::error!(agent, instance = %placed.name, %error, "cannot store a state");
        }
    }

    async fn write(&self, placed: &Placed, status: WorkloadInstanceStatus) -> Result<(), Error> {
        if status.state == "Removed" && placed.removing {
            return ignore_gone(release(&self.instances, &placed.name, AGENT_FINALIZER).await);
        }
        let event = worth_an_event(&status);
        let message = status.message.clone();
        let written = self.instances.write_status(&instance(&placed.name, status)).await;
        match written {
            Ok(applied) if applied.outcome == Outcome::Changed => {
                if let Some((severity, reason)) = event {
                    let written = applied.object.object();
                    let regarding = reference(written.map_err(|e| Error::Internal(e.to_string()))?);
                    self.recorder.record(Happening { regarding, severity, reason, message }).await;
                }
                Ok(())
            }
            other => ignore_gone(other.map(|_| ())),
        }
    }

    async fn forget(&self, name: &ObjectName, why: &str) -> Result<(), Error> {
        let Some(found) = self.instances.find(name).await? else { return Ok(()) };
        let mut status = found.status.unwrap_or_default();
        if status.state == "Succeeded" {
            return Ok(());
        }
        status.state = "Failed".into();
        status.reason = "Unknown".into();
        status.message = why.to_owned();
        status.pid = None;
        ignore_gone(self.instances.write_status(&instance(name, status)).await.map(|_| ()))
    }
}

/// What people will want to have been told.
fn worth_an_event(status: &WorkloadInstanceStatus) -> Option<(Severity, &'static str)> {
    match (status.state.as_str(), status.reason.as_str()) {
        ("Running", _) if 0 < status.restarts => Some((Severity::Normal, "Restarted")),
        ("Running", _) => Some((Severity::Normal, "Started")),
        ("Succeeded", _) => Some((Severity::Normal, "Succeeded")),
        ("Pending", "StartingFailed") => Some((Severity::Warning, "StartingFailed")),
        ("Pending", "WaitingToStart") if status.finished_at.is_some() => {
            Some((Severity::Warning, "Exited"))
        }
        ("Failed", _) => Some((Severity::Warning, "Failed")),
        (_, _) => None,
    }
}

fn instance(name: &ObjectName, status: WorkloadInstanceStatus) -> WorkloadInstance {
    let ObjectName { project, name } = name.clone();
    let metadata = ObjectMeta { name, project, ..ObjectMeta::default() };
    WorkloadInstance {
        metadata: Some(metadata),
        status: Some(status),
        ..WorkloadInstance::default()
    }
}

fn reference(object: &orrery_api::Object) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.kind().api_version().to_owned()),
        kind: Some(object.kind().kind().to_owned()),
        project: Some(object.project().to_owned()),
        name: Some(object.name().to_owned()),
        uid: Some(object.uid().to_owned()),
    }
}
