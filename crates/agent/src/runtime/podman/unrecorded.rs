//! Containers of this agent that are not in its records, as after the loss of its data folder.
//!
//! They are found without podman by the process that watches each of them, whose words name the log in
//! our folder; and, where podman answers without being started, by the labels that say whose they are.
//! A container of an instance that is assigned is met by its name in any case, before one is made.
use super::container::{LABEL_DATA_FOLDER, LABEL_INSTANCE, LABEL_NODE};
use super::inspect::{self, Container};
use super::service::Service;
use super::{FOUND as NOTE, MARK};
use crate::config::AgentConfig;
use crate::disk::{self, Survive};
use crate::logs::CONTAINER_LOG;
use crate::model::InstanceId;
use crate::procfs;
use crate::runtime::RuntimeError;
use crate::runtime::process::unrecorded::Home;
use crate::supervisor::LOG_FOLDER;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

pub(super) use crate::runtime::process::unrecorded::FOUND;

/// What comes before the path of the log, among the words of the process that watches a container.
const LOG_DRIVER: &[u8] = b"k8s-file:";

/// The agent waits for this list before it does anything else.
const LIST_PATIENCE: Duration = Duration::from_secs(10);

/// Leaves a note of each container, upon which it is looked at like any other.
pub(crate) async fn recover(home: &Home, config: &AgentConfig) -> Result<(), RuntimeError> {
    let here = home.clone();
    let doing = "look for containers without a record";
    let watched = tokio::task::spawn_blocking(move || watched(&here)).await;
    let watched = watched.map_err(io::Error::other).and_then(|found| found);
    let mut found = watched.map_err(RuntimeError::io(doing))?;
    let service = Service::new(config.podman.clone(), config.run_dir.clone());
    if let Some(podman) = service.find().await {
        let data_dir = home.data_dir.to_string_lossy();
        let ours = [(LABEL_DATA_FOLDER, &*data_dir), (LABEL_NODE, &home.node)];
        let listed = timeout(LIST_PATIENCE, inspect::labelled(&podman.socket, &ours)).await;
        let late = |_| Err(RuntimeError::Podman("podman lists no containers in time".to_owned()));
        match listed.unwrap_or_else(late) {
            Ok(all) => found.extend(
                all.iter().filter_map(|labels| InstanceId::new(labels.get(LABEL_INSTANCE)?)),
            ),
            // What is assigned is met by its name before anything is started.
            Err(error) => tracing::warn!(%error, "cannot look for containers without a record"),
        }
    }
    for id in found {
        let folder = home.instances.join(id.as_str());
        if folder.join(MARK).exists() {
            continue;
        }
        note(&folder).map_err(RuntimeError::io(doing))?;
        tracing::warn!(%id, "found a container that there was no record of; was the data folder lost?");
    }
    Ok(())
}

/// Leaves the note that an instance has a container, and that nobody knew.
pub(super) fn note(folder: &Path) -> io::Result<()> {
    disk::make_folder(&folder.join(LOG_FOLDER))?;
    disk::write(&folder.join(MARK), NOTE, Survive::PowerCut)
}

/// The instances whose containers run and have their logs in our folder.
fn watched(home: &Home) -> io::Result<BTreeSet<InstanceId>> {
    let all = procfs::all()?.into_iter().filter(|stat| !stat.zombie);
    let pids = all.map(|stat| stat.identity.pid);
    let logs = pids.flat_map(|pid| procfs::words(pid).into_iter().map(move |word| (pid, word)));
    let ours = logs.filter_map(|(pid, word)| Some((pid, logged(home, &word)?)));
    Ok(ours.filter(|(pid, _)| procfs::is_own(*pid)).map(|(_, id)| id).collect())
}

fn logged(home: &Home, word: &OsString) -> Option<InstanceId> {
    let path = Path::new(std::ffi::OsStr::from_bytes(word.as_bytes().strip_prefix(LOG_DRIVER)?));
    let below = path.strip_prefix(&home.instances).ok()?;
    let id = InstanceId::new(below.iter().next()?.to_str()?)?;
    let log = Path::new(id.as_str()).join(LOG_FOLDER).join(CONTAINER_LOG);
    (below == log).then_some(id)
}

/// A container that somebody else made is nobody's to take over or to remove.
pub(super) fn refuse_others(
    found: &Container,
    node: &str,
    data_dir: &Path,
) -> Result<(), RuntimeError> {
    let label = |name: &str| found.config.labels.as_ref().and_then(|labels| labels.get(name));
    let folder = data_dir.to_string_lossy();
    // Earlier versions left no word of the folder.
    let here = label(LABEL_DATA_FOLDER).is_none_or(|made_in| *made_in == folder);
    if label(LABEL_NODE).is_some_and(|made_for| made_for == node) && here {
        return Ok(());
    }
    let (id, none) = (&found.id, "nobody".to_owned());
    let (of, made_in) = (label(LABEL_NODE).unwrap_or(&none), label(LABEL_DATA_FOLDER));
    let made_in = made_in.map(|folder| format!(" with data folder {folder}")).unwrap_or_default();
    Err(RuntimeError::Podman(format!(
        "a container of its name is there already ({id}), made by the agent of node {of}{made_in}; \
         if that agent is gone, remove the container with podman rm"
    )))
}
