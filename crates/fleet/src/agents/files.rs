//! Handing out the files of copies to the agents that run them, and to nobody else.
//!
//! ```text
//!   a copy with files is assigned ──┐
//!   its agent connects            ──┼──> due ──> read secrets and artifacts ──> outbox of its agent
//!   a secret that it names changed ─┘
//! ```
//! What is handed out is read at that moment and kept nowhere here. A copy gets files of the revision
//! that its spec names; before the spec has followed a changed secret, there is nothing to hand out.
use super::assignments::Assignments;
use crate::middleware::Senders;
use crate::workloads::files::revision;
use orrery_hub::artifacts::{ArtifactPath, Artifacts};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::{File, Workload, WorkloadInstanceSpec, file::Source};
use orrery_proto::core::v1::Secret;
use orrery_proto::fleet::v1::{
    Assignment, FileContent, InstanceFiles, ServerMessage, server_message::Message,
};
use orrery_runtime::View;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Bytes of all files of one copy; they travel in one message and are kept in memory.
pub const FILES_BYTES_MAX: usize = 8 << 20;

/// Ids of copies whose files are to be handed out.
#[derive(Debug, Default)]
pub struct Due {
    ids: Mutex<BTreeSet<String>>,
    changed: Notify,
}

impl Due {
    pub fn add(&self, id: &str) {
        self.ids.lock().insert(id.to_owned());
        self.changed.notify_one();
    }

    async fn next(&self) -> String {
        loop {
            let changed = self.changed.notified();
            if let Some(id) = self.ids.lock().pop_first() {
                return id;
            }
            changed.await;
        }
    }
}

/// Hands out files.
pub struct Files {
    due: Arc<Due>,
    senders: Arc<Senders>,
    assignments: Arc<Assignments>,
    secrets: Arc<View<Secret>>,
    hub: Hub,
    artifacts: Artifacts,
}

impl Files {
    pub fn new(
        hub: &Hub,
        due: Arc<Due>,
        senders: Arc<Senders>,
        assignments: Arc<Assignments>,
        secrets: Arc<View<Secret>>,
    ) -> Self {
        let artifacts = Artifacts::new(hub.clone());
        Self { due, senders, assignments, secrets, hub: hub.clone(), artifacts }
    }

    /// Until it is told to stop.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        loop {
            let id = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                id = self.due.next() => id,
            };
            self.hand_out(&id).await;
        }
    }

    async fn hand_out(&self, id: &str) {
        let Some((node, assignment)) = self.assignments.assignment(id) else { return };
        // Nobody to give it to; its agent is told when it connects.
        if self.senders.session(&node).is_none() || assignment.removing {
            return;
        }
        let Some(files) = self.resolve(&assignment).await else { return };
        let message = ServerMessage { message: Some(Message::Files(files)) };
        self.senders.send_to(&node, vec![message]);
    }

    /// The files of the revision that the spec names; nothing when there are none of it (yet).
    async fn resolve(&self, assignment: &Assignment) -> Option<InstanceFiles> {
        let spec = assignment.spec.as_ref()?;
        let current = revision(&assignment.project, &spec.files, |name| self.secrets.get(name))?;
        if spec.files_revision() != current {
            return None;
        }
        let mut resolved =
            InstanceFiles { id: assignment.id.clone(), revision: current, ..<_>::default() };
        let mut size = 0;
        for file in &spec.files {
            match self.content(&assignment.project, spec, file).await {
                Ok(content) => {
                    size += content.len();
                    let (path, mode) = (file.path().to_owned(), mode(file));
                    resolved.files.push(FileContent { path, mode, content });
                }
                Err(problem) => resolved.problem = problem,
            }
        }
        if FILES_BYTES_MAX < size {
            resolved.problem =
                format!("its files have {size} bytes together, they may have {FILES_BYTES_MAX}");
        }
        if !resolved.problem.is_empty() {
            resolved.files.clear();
        }
        Some(resolved)
    }

    async fn content(
        &self,
        project: &str,
        spec: &WorkloadInstanceSpec,
        file: &File,
    ) -> Result<Vec<u8>, String> {
        match &file.source {
            Some(Source::Text(text)) => Ok(text.clone().into_bytes()),
            Some(Source::Secret(value)) => {
                let (name, key) = (value.name(), value.key());
                let secret = self.secrets.get(&ObjectName::new(project, name));
                let secret = secret.ok_or_else(|| format!("there is no secret {name:?}"))?;
                let data = secret.spec.as_ref().and_then(|spec| spec.data.get(key));
                data.cloned().ok_or_else(|| format!("secret {name:?} has no value {key:?}"))
            }
            Some(Source::Artifact(artifact)) => {
                self.artifact(project, spec.workload(), artifact.path()).await
            }
            None => Err("this server does not know where one of its files comes from".to_owned()),
        }
    }

    async fn artifact(&self, project: &str, workload: &str, path: &str) -> Result<Vec<u8>, String> {
        let path: ArtifactPath =
            path.parse().map_err(|error| format!("{path:?} is no path of an artifact: {error}"))?;
        let workloads = self.hub.resources::<Workload>().map_err(|error| error.to_string())?;
        let name = ObjectName::new(project, workload);
        match self.artifacts.get(workloads.kind(), &name, &path).await {
            Ok((_, content)) => Ok(content.to_vec()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Octal digits, checked when the workload was stored.
fn mode(file: &File) -> u32 {
    u32::from_str_radix(file.mode.as_deref().unwrap_or("0600"), 8).unwrap_or(0o600)
}
