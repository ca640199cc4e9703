//! Handing out the files of copies to the agents that run them, and to nobody else.
//!
//! ```text
//!   a copy with files is assigned ──┐
//!   its agent connects            ──┼──> due ──> read secrets and artifacts ──> outbox of its agent
//!   a secret or artifact changed   ─┘ (its revision in the spec follows)
//! ```
//! What is handed out is read at that moment and kept nowhere here. A copy gets files of the revision
//! that its spec names; before the spec has followed a changed secret, there is nothing to hand out.
use super::assignments::Assignments;
use crate::middleware::Senders;
use crate::workloads::files::{Readable, Uploaded, readable, revision, uploaded};
use orrery_hub::artifacts::{ArtifactPath, Artifacts};
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::apps::v1::{File, Workload, file::Source};
use orrery_proto::core::v1::Secret;
use orrery_proto::fleet::v1::{
    Assignment, FileContent, InstanceFiles, ServerMessage, server_message::Message,
};
use orrery_runtime::View;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Bytes of all files of one copy; they travel in one message and are kept in memory.
pub const FILES_BYTES_MAX: usize = 8 << 20;

/// Before files are read again after the store could not be asked.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

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
    readable: Resources<Secret>,
    workloads: Resources<Workload>,
    artifacts: Artifacts,
}

impl Files {
    pub fn new(
        hub: &Hub,
        due: Arc<Due>,
        senders: Arc<Senders>,
        assignments: Arc<Assignments>,
        secrets: Arc<View<Secret>>,
    ) -> Result<Self, Error> {
        let (workloads, artifacts) = (hub.resources()?, Artifacts::new(hub.clone()));
        let readable = hub.resources()?;
        Ok(Self { due, senders, assignments, secrets, readable, workloads, artifacts })
    }

    /// Until it is told to stop. What cannot be read now holds up nobody else.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut failed = BTreeSet::new();
        let mut pause = tokio::time::interval(PAUSE);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let id = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                id = self.due.next() => id,
                _ = pause.tick(), if !failed.is_empty() => {
                    std::mem::take(&mut failed).iter().for_each(|id: &String| self.due.add(id));
                    continue;
                }
            };
            if let Err(error) = self.hand_out(&id).await {
                tracing::warn!(id, %error, "cannot read files of a copy, will try again");
                failed.insert(id);
            }
        }
    }

    async fn hand_out(&self, id: &str) -> Result<(), Error> {
        let Some((node, assignment)) = self.assignments.assignment(id) else { return Ok(()) };
        // Nobody to give it to; its agent is told when it connects.
        if self.senders.session(&node).is_none() || assignment.removing {
            return Ok(());
        }
        let Some(files) = self.resolve(&assignment).await? else { return Ok(()) };
        let message = ServerMessage { message: Some(Message::Files(files)) };
        self.senders.send_to(&node, vec![message]);
        Ok(())
    }

    /// The files of the revision that the spec names; nothing when there are none of it (yet).
    async fn resolve(&self, assignment: &Assignment) -> Result<Option<InstanceFiles>, Error> {
        let (project, id) = (&assignment.project, &assignment.id);
        let Some(spec) = &assignment.spec else { return Ok(None) };
        let workload = ObjectName::new(project, spec.workload());
        let kind = self.workloads.kind();
        let there = uploaded(&self.artifacts, kind, &workload, &spec.files).await?;
        let view = &self.secrets;
        let secrets = readable(view, &self.readable, project, &spec.files).await?;
        let secret = |name: &ObjectName| secrets.get(name).cloned();
        let current = revision(project, &spec.files, secret, &there);
        let Some(current) = current.filter(|current| spec.files_revision() == current) else {
            return Ok(None);
        };
        let mut resolved = InstanceFiles { id: id.clone(), revision: current, ..<_>::default() };
        let size =
            spec.files.iter().map(|file| size(&secrets, project, file, &there)).sum::<usize>();
        if FILES_BYTES_MAX < size {
            resolved.problem =
                format!("its files have {size} bytes together, they may have {FILES_BYTES_MAX}");
            return Ok(Some(resolved));
        }
        for file in &spec.files {
            let content = match &file.source {
                Some(Source::Artifact(artifact)) => {
                    let Some(content) = self.artifact(&workload, artifact.path(), &there).await?
                    else {
                        // It has changed meanwhile, and its revision is about to follow.
                        return Ok(None);
                    };
                    content
                }
                Some(Source::Text(_) | Source::Secret(_)) | None => {
                    content_of(&secrets, project, file)
                }
            };
            match content {
                Ok(content) => {
                    let (path, mode) = (file.path().to_owned(), mode(file));
                    resolved.files.push(FileContent { path, mode, content });
                }
                Err(problem) => resolved.problem = problem,
            }
        }
        if !resolved.problem.is_empty() {
            resolved.files.clear();
        }
        Ok(Some(resolved))
    }

    /// What was uploaded, or what is wrong with it; nothing if it is not what was there.
    async fn artifact(
        &self,
        workload: &ObjectName,
        path: &str,
        there: &Uploaded,
    ) -> Result<Option<Result<Vec<u8>, String>>, Error> {
        let parsed: ArtifactPath = match path.parse() {
            Ok(path) => path,
            Err(error) => {
                return Ok(Some(Err(format!("{path:?} is no path of an artifact: {error}"))));
            }
        };
        let Some(expected) = there.get(path) else {
            let name = &workload.name;
            let missing = format!("no file {path:?} was uploaded to the workload {name:?}");
            return Ok(Some(Err(missing)));
        };
        match self.artifacts.get(self.workloads.kind(), workload, &parsed).await {
            Ok((artifact, content)) if artifact.digest == expected.digest => {
                Ok(Some(Ok(content.to_vec())))
            }
            Ok(_) | Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// How much a file brings along; nothing where it is not there.
fn size(secrets: &Readable, project: &str, file: &File, there: &Uploaded) -> usize {
    match &file.source {
        Some(Source::Artifact(artifact)) => {
            let size = there.get(artifact.path()).map_or(0, |artifact| artifact.size_bytes);
            usize::try_from(size).unwrap_or(FILES_BYTES_MAX + 1)
        }
        Some(Source::Text(_) | Source::Secret(_)) | None => {
            content_of(secrets, project, file).map_or(0, |content| content.len())
        }
    }
}

fn content_of(secrets: &Readable, project: &str, file: &File) -> Result<Vec<u8>, String> {
    match &file.source {
        Some(Source::Text(text)) => Ok(text.clone().into_bytes()),
        Some(Source::Secret(value)) => {
            let (name, key) = (value.name(), value.key());
            let secret = secrets.get(&ObjectName::new(project, name));
            let secret = secret.ok_or_else(|| format!("there is no secret {name:?}"))?;
            let data = secret.spec.as_ref().and_then(|spec| spec.data.get(key));
            data.cloned().ok_or_else(|| format!("secret {name:?} has no value {key:?}"))
        }
        Some(Source::Artifact(_)) | None => {
            Err("this server does not know where one of its files comes from".to_owned())
        }
    }
}

/// Octal digits, checked when the workload was stored.
fn mode(file: &File) -> u32 {
    u32::from_str_radix(file.mode.as_deref().unwrap_or("0600"), 8).unwrap_or(0o600)
}
