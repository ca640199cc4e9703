//! What agents report of their copies.
use super::assignments::{Assignments, Placed};
use super::telling::Telling;
use crate::workloads::AGENT_FINALIZER;
use indexmap::IndexMap;
use orrery_hub::events::{Happening, Severity};
use orrery_hub::{ApplyOptions, Error, Hub, ObjectName, Outcome, Resources};
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceStatus};
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::fleet::v1::InstanceStates;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::writes::{self, Write};
use std::sync::Arc;

#[derive(Clone)]
pub struct States {
    instances: Resources<WorkloadInstance>,
    assignments: Arc<Assignments>,
    telling: Arc<Telling>,
}

/// What an agent said of one of its copies.
struct Said<'a> {
    id: &'a str,
    placed: Placed,
    status: &'a WorkloadInstanceStatus,
}

impl States {
    pub fn new(
        hub: &Hub,
        assignments: Arc<Assignments>,
        telling: Arc<Telling>,
    ) -> Result<Self, Error> {
        Ok(Self { instances: hub.resources()?, assignments, telling })
    }

    /// Takes in what an agent says, when the server is not busy handing copies out. An agent may speak of
    /// its own copies only. Returns when everything is
    /// stored, so that a later word about a copy never overtakes an earlier one; an error means that
    /// something is not stored yet, and that all of it has to be taken in again.
    pub async fn take(&self, agent: &str, states: &InstanceStates) -> Result<(), Error> {
        self.assignments.calm().settled().await;
        let said = self.of_its_own(agent, states);
        let writes: Vec<_> = said.iter().map(Said::write).collect();
        let outcomes = writes::all(&self.instances, &writes).await;
        let mut stored = Ok(());
        for (said, outcome) in said.iter().zip(outcomes) {
            match outcome {
                Ok(Outcome::Changed) => self.tell(said),
                Ok(_) | Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => {}
                Err(error) if error.retryable() => stored = Err(error),
                Err(error) => {
                    // The same word again would be refused again.
                    tracing::error!(agent, instance = %said.placed.name, %error, "cannot store a state");
                }
            }
        }
        stored
    }

    /// The last word about each copy that the agent may speak of.
    fn of_its_own<'a>(&self, agent: &str, states: &'a InstanceStates) -> Vec<Said<'a>> {
        let mut said: IndexMap<&str, Said<'a>> = IndexMap::with_capacity(states.states.len());
        for state in &states.states {
            let Some(placed) = self.assignments.placed(&state.id) else {
                // The copy is gone from the store: the agent has its word, nobody else needs it.
                continue;
            };
            if placed.node != agent {
                tracing::warn!(agent, instance = %placed.name, "an agent spoke of another's workload");
                continue;
            }
            let Some(status) = &state.status else { continue };
            let id = state.id.as_str();
            said.insert(id, Said { id, placed, status });
        }
        said.into_values().collect()
    }

    fn tell(&self, said: &Said<'_>) {
        let Some((severity, reason)) = worth_an_event(said.status) else { return };
        let message = in_words(reason, &said.placed, said.status);
        let ObjectName { project, name } = said.placed.name.clone();
        let kind = self.instances.kind();
        let regarding = ObjectReference {
            api_version: Some(kind.api_version().to_owned()),
            kind: Some(kind.kind().to_owned()),
            project: Some(project),
            name: Some(name),
            uid: Some(said.id.to_owned()),
        };
        self.telling.tell(Happening { regarding, severity, reason, message });
    }
}

impl Said<'_> {
    fn write(&self) -> Write<WorkloadInstance> {
        let Placed { name, removing, .. } = &self.placed;
        if self.status.state == "Removed" && *removing {
            return Write::Release(name.clone(), AGENT_FINALIZER);
        }
        Write::Apply(instance(name, self.status.clone()), ApplyOptions::status())
    }
}

/// What people will want to have been told. Before the first answer of its readiness probe an agent does not
/// say that a copy is not ready, and that it runs is what is worth telling.
fn worth_an_event(status: &WorkloadInstanceStatus) -> Option<(Severity, &'static str)> {
    match (status.state.as_str(), status.reason.as_str()) {
        ("Running", "NotReady") => Some((Severity::Warning, "NotReady")),
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

/// An event as people read it: which copy, where, and what the agent says about it.
fn in_words(reason: &str, placed: &Placed, status: &WorkloadInstanceStatus) -> String {
    let Placed { node, name, .. } = placed;
    let name = &name.name;
    let what = match reason {
        "Started" => format!("{name} runs on node {node}"),
        "Restarted" => format!("{name} runs again on node {node}, restart {}", status.restarts),
        "NotReady" => format!("{name} runs on node {node} and is not ready"),
        "Succeeded" => format!("{name} has done its work on node {node}"),
        "StartingFailed" => format!("{name} cannot start on node {node}"),
        "Exited" => format!("{name} ended on node {node} and will be started again"),
        _ => format!("{name} failed on node {node}"),
    };
    match status.message.as_str() {
        "" => what,
        why => format!("{what}: {why}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(state: &str, reason: &str, restarts: i64, message: &str, expect: Option<&str>) {
        let placed = Placed {
            node: "edge-1".into(),
            name: ObjectName::new("shop", "web-1"),
            removing: false,
        };
        let status = WorkloadInstanceStatus {
            state: state.into(),
            reason: reason.into(),
            restarts,
            message: message.into(),
            ..WorkloadInstanceStatus::default()
        };
        let told = worth_an_event(&status);
        let told =
            told.map(|(_, reason)| format!("{reason}: {}", in_words(reason, &placed, &status)));
        assert_eq!(told.as_deref(), expect);
    }

    #[test]
    fn events_say_which_copy_and_where() {
        check("Running", "", 0, "", Some("Started: web-1 runs on node edge-1"));
        check("Running", "", 4, "", Some("Restarted: web-1 runs again on node edge-1, restart 4"));
        check("Succeeded", "", 0, "", Some("Succeeded: web-1 has done its work on node edge-1"));
        let said = "StartingFailed: web-1 cannot start on node edge-1: no such file";
        check("Pending", "StartingFailed", 0, "no such file", Some(said));
        let said = "Failed: web-1 failed on node edge-1: exit code 3";
        check("Failed", "ExecFailed", 0, "exit code 3", Some(said));
        let said = "Restarted: web-1 runs again on node edge-1, restart 1: started again because \
                    its liveness probe failed: no answer";
        let why = "started again because its liveness probe failed: no answer";
        check("Running", "", 1, why, Some(said));
        check("Pending", "Starting", 0, "", None);
        check("Stopping", "Requested", 0, "", None);
    }

    #[test]
    fn a_copy_that_is_not_ready_is_told_of_once_its_probe_has_spoken() {
        let told = |reason: &str, message: &str| {
            let (state, reason) = ("Running".to_owned(), reason.to_owned());
            let message = message.to_owned();
            let status = WorkloadInstanceStatus { state, reason, message, ..<_>::default() };
            worth_an_event(&status).map(|(_, reason)| reason)
        };
        assert_eq!(told("NotReady", "in words of whatever language"), Some("NotReady"));
        assert_eq!(told("", "its readiness probe failed"), Some("Started"), "words are for people");
        assert_eq!(told("", ""), Some("Started"));
    }
}
