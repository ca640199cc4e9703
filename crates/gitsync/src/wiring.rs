//! What a server has to know of this domain: its rules, and what the leader runs.
use crate::controller::SyncReconciler;
use crate::git::{Address, address};
use crate::rights::Authority;
use crate::trigger::{self, Trigger};
use orrery_api::{Object, SchemeBuilder, Violation};
use orrery_hub::{Error, Hub};
use orrery_proto::core::v1::GitSync;
use orrery_runtime::{Controller, OnEnd, Reflector, Tasks};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// Syncs that are looked at once: each runs git, which needs memory and a connection.
const AT_ONCE: usize = 4;

/// What operators decide about git sync.
#[derive(Clone, Debug, Default)]
pub struct GitOptions {
    /// Where copies of repositories are kept; in a temporary folder when absent.
    pub folder: Option<PathBuf>,
    /// Whether repositories on the machine of the server (file:///...) are taken. Whoever may write a sync can
    /// then read and write those that the server can.
    pub allow_local: bool,
}

/// Says what syncs must be like.
pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
    builder.validator("orrery.core.v1.GitSync", validate)
}

fn validate(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    // What cannot be read as a sync has been refused by then, with its own words.
    let Ok(GitSync { spec: Some(spec), .. }) = object.typed::<GitSync>() else { return Vec::new() };
    let mut found = Vec::new();
    let mut refuse = |path: &str, value: &str, why: Option<&str>| {
        found.extend(why.map(|why| Violation::invalid(path, format_args!("{value:?}"), why)));
    };
    if let Some(url) = &spec.repository {
        refuse("spec.repository", url, Address::parse(url).err());
    }
    if let Some(branch) = &spec.branch {
        refuse("spec.branch", branch, address::branch_problem(branch));
    }
    if let Some(path) = &spec.path {
        refuse("spec.path", path, address::folder(path).err());
    }
    found
}

/// Starts what only the leader does, on a hub that is fenced by its lease.
pub fn spawn_leader(
    hub: &Hub,
    options: &GitOptions,
    authority: Arc<dyn Authority>,
    tasks: &mut Tasks,
) -> Result<(), Error> {
    let mut syncs = Reflector::<GitSync>::new(hub.resources()?);
    let (folder, temporary) = folder(options)?;
    let reconciler = SyncReconciler {
        hub: hub.clone(),
        syncs: hub.resources()?,
        secrets: hub.resources()?,
        view: syncs.view(),
        authority,
        folder,
        allow_local: options.allow_local,
        stop: tasks.stop_token(),
    };
    let controller = Controller::new("gitsync", reconciler).at_once(AT_ONCE);
    let queue = controller.queue();
    // What is published by us is no reason to look again.
    let generation = |sync: &Option<Arc<GitSync>>| {
        sync.as_ref().and_then(|it| it.metadata.as_ref().map(|meta| meta.generation))
    };
    let (writing, wanted) = watch::channel(false);
    let view = syncs.view();
    syncs.on_change(move |change| {
        if generation(&change.old) != generation(&change.new) {
            let any = view.all().iter().any(|(_, sync)| trigger::writes(sync));
            writing.send_if_modified(|was| std::mem::replace(was, any) != any);
            queue.add(change.name.clone());
        }
    });
    for accessor in hub.accessors().filter(|it| it.kind().written_back_at_once()) {
        let (accessor, view, queue) = (accessor.clone(), syncs.view(), controller.queue());
        let trigger = Trigger { accessor, view, queue, wanted: wanted.clone() };
        tasks.spawn("gitsync-trigger", OnEnd::StopAll, trigger.run(tasks.stop_token()));
    }
    tasks.spawn("gitsync-watch", OnEnd::StopAll, syncs.run(tasks.stop_token()));
    let stop = tasks.stop_token();
    tasks.spawn("gitsync", OnEnd::StopAll, async move {
        // A temporary folder goes with the last look.
        let _temporary = temporary;
        controller.run(stop).await
    });
    Ok(())
}

fn folder(options: &GitOptions) -> Result<(PathBuf, Option<tempfile::TempDir>), Error> {
    if let Some(folder) = &options.folder {
        return Ok((folder.clone(), None));
    }
    let made = tempfile::TempDir::with_prefix("orrery-git-");
    let made = made.map_err(|error| {
        Error::Unavailable(format!("cannot make a folder for copies of repositories: {error}"))
    })?;
    Ok((made.path().to_owned(), Some(made)))
}
