//! What is said of copies whose agent is gone.
use super::assignments::Assignments;
use crate::workloads::controller::status_if_unchanged;

use orrery_hub::{Error, Hub, ObjectName, Outcome, Resources};
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceStatus};
use orrery_runtime::writes;
use std::sync::Arc;

/// Copies that are marked together.
const AT_ONCE: usize = 64;

/// How often it is tried again because someone else was faster.
const ATTEMPTS_MAX: usize = 8;

#[derive(Clone)]
pub struct Unknown {
    instances: Resources<WorkloadInstance>,
    assignments: Arc<Assignments>,
}

impl Unknown {
    pub fn new(hub: &Hub, assignments: Arc<Assignments>) -> Result<Self, Error> {
        Ok(Self { instances: hub.resources()?, assignments })
    }

    /// Nobody knows any more what the copies on a node do.
    pub async fn mark(&self, node: &str, why: &str) {
        for names in self.assignments.on_node(node).chunks(AT_ONCE) {
            if let Err(error) = self.forget(names, why).await {
                tracing::error!(node, %error, "cannot mark workloads as unknown");
            }
        }
    }

    /// Marks all of them, unless something was said of them meanwhile: an agent that is back knows better.
    async fn forget(&self, names: &[ObjectName], why: &str) -> Result<(), Error> {
        let mut left: Vec<(&ObjectName, Option<WorkloadInstanceStatus>)> = Vec::new();
        for name in names {
            let found = self.instances.find(name).await?;
            left.extend(found.map(|found| (name, found.status)));
        }
        for _ in 0..ATTEMPTS_MAX {
            let mut asked = Vec::with_capacity(left.len());
            let mut meant = Vec::with_capacity(left.len());
            for (name, before) in left {
                let Some(found) = self.instances.find(name).await? else { continue };
                if found.status != before {
                    continue;
                }
                let status = unknown(found.status.clone().unwrap_or_default(), why);
                if status.is_some() {
                    asked.push(status_if_unchanged(WorkloadInstance { status, ..found })?);
                    meant.push((name, before));
                }
            }
            let outcomes = writes::all(&self.instances, &asked).await;
            left = still_to_mark(meant, outcomes)?;
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(Error::Unavailable("they change too often".into()))
    }
}

/// Those that someone else changed; the first failure is told.
fn still_to_mark<T>(meant: Vec<T>, outcomes: Vec<Result<Outcome, Error>>) -> Result<Vec<T>, Error> {
    let mut left = Vec::new();
    for (one, outcome) in meant.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) | Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => {}
            Err(Error::Conflict { .. }) => left.push(one),
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

/// What is known of a copy once its agent is gone; what has done its work stays done.
fn unknown(mut status: WorkloadInstanceStatus, why: &str) -> Option<WorkloadInstanceStatus> {
    if status.state == "Succeeded" {
        return None;
    }
    status.state = "Failed".into();
    status.reason = "Unknown".into();
    status.message = why.to_owned();
    status.pid = None;
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_someone_else_changed_is_looked_at_again() {
        let conflict = || Error::Conflict {
            kind: <_>::default(),
            name: <_>::default(),
            message: <_>::default(),
        };
        let gone =
            Error::NotFound { kind: <_>::default(), project: <_>::default(), name: <_>::default() };
        let outcomes =
            vec![Ok(Outcome::Changed), Err(conflict()), Err(gone), Ok(Outcome::Unchanged)];
        assert_eq!(
            still_to_mark(vec!["a", "b", "c", "d"], outcomes).expect("nothing failed"),
            ["b"]
        );
        let outcomes = vec![Err(conflict()), Err(Error::Unavailable("down".into()))];
        assert!(still_to_mark(vec!["a", "b"], outcomes).is_err());
    }

    #[test]
    fn what_has_done_its_work_stays_done() {
        let mk_status = |state: &str| WorkloadInstanceStatus {
            state: state.into(),
            pid: Some(7),
            restarts: 3,
            ..WorkloadInstanceStatus::default()
        };
        assert_eq!(unknown(mk_status("Succeeded"), "gone"), None);
        let status = unknown(mk_status("Running"), "gone").expect("nobody knows");
        assert_eq!(
            (&*status.state, &*status.reason, &*status.message),
            ("Failed", "Unknown", "gone")
        );
        assert_eq!((status.pid, status.restarts), (None, 3), "what was counted is kept");
    }
}
