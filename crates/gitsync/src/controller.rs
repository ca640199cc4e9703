//! Looks at every sync when its time has come, or something of it changed.
use crate::git::{Address, Copy, GitError, Opened, Remote, Signer, address};
use crate::lineage::Origin;
use crate::plan::Settings;
use crate::rights::Authority;
use crate::round::{Failure, Outcome, Progress, Round, copy_name, written_kinds};
use crate::status::{self, Event};
use crate::system::System;
use async_trait::async_trait;
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::core::v1::{GitSync, GitSyncSpec, GitSyncStatus, Secret};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler, View};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Changes between two words about how far a look is.
const PROGRESS_STEPS: usize = 50;

pub struct SyncReconciler {
    pub hub: Hub,
    pub syncs: Resources<GitSync>,
    pub secrets: Resources<Secret>,
    pub view: Arc<View<GitSync>>,
    pub authority: Arc<dyn Authority>,
    /// Where copies of repositories are.
    pub folder: PathBuf,
    /// Whether repositories on the machine of the server are taken.
    pub allow_local: bool,
    pub stop: CancellationToken,
}

#[async_trait]
impl Reconciler<ObjectName> for SyncReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let found = self.syncs.find(key).await?;
        let gone = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        let Some(sync) = found.filter(|it| !it.metadata.as_ref().is_some_and(gone)) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        let spec = sync.spec.clone().unwrap_or_default();
        let told = Telling::new(&self.hub, &self.syncs, key, &sync);
        if spec.suspend() {
            told.tell(&Event::Suspended).await?;
            return Ok(Next::AwaitChange);
        }
        let looked = tokio::select! {
            // What was begun is begun again by whoever leads next.
            () = self.stop.cancelled() => return Ok(Next::AwaitChange),
            looked = self.look(key, &sync, &spec, &told) => looked,
        };
        match &looked {
            Ok(outcome) => told.tell(&Event::Done(outcome)).await?,
            Err(Refused::Failed(Failure::Hub(error))) if error.retryable() => {
                return Err(Error::Unavailable(error.to_string()));
            }
            Err(Refused::Failed(failure)) => {
                tracing::info!(sync = %key, reason = failure.reason(), %failure, "sync failed");
                told.tell(&Event::Failed(failure)).await?;
            }
            Err(Refused::Unfit(why)) => told.tell(&Event::Unfit(why)).await?,
        }
        let seconds = u64::try_from(spec.interval_seconds()).unwrap_or(60).max(1);
        Ok(Next::After(Duration::from_secs(seconds)))
    }
}

/// Why a look was not even begun, or failed.
enum Refused {
    Unfit(String),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl SyncReconciler {
    async fn look(
        &self,
        key: &ObjectName,
        sync: &GitSync,
        spec: &GitSyncSpec,
        told: &Telling<'_>,
    ) -> Result<Outcome, Refused> {
        let folder = address::folder(spec.path());
        let folder = folder.map_err(|why| Refused::Unfit(format!("spec.path {why}")))?;
        let (written, unknown) = written_kinds(self.hub.scheme(), spec, &key.project);
        if let Some(first) = unknown.first() {
            return Err(Refused::Unfit(format!("spec.writeBack.kinds: {first}")));
        }
        let remote = self.remote(key, spec).await?;
        let signer = self.signer(key, spec).await?;
        let origin = Origin {
            sync: key.name.clone(),
            repository: spec.repository().to_owned(),
            branch: spec.branch().to_owned(),
        };
        let system = System {
            hub: self.hub.clone(),
            origin: origin.clone(),
            project: key.project.clone(),
            rights: self.authority.acting(key, spec.role()),
            others: self.others(key),
            written: written.clone(),
        };
        let settings = Settings { origin, folder, prune: spec.prune(), written, readable: false };
        let status = sync.status.clone().unwrap_or_default();
        let (synced, now) = (status.synced_commit, self.hub.clock().now().seconds);
        let round = Round { spec, settings, remote, signer, system, synced, now, progress: told };
        Ok(round.run().await?)
    }

    async fn remote(&self, key: &ObjectName, spec: &GitSyncSpec) -> Result<Remote, Refused> {
        let unfit = |why: &str| Refused::Unfit(format!("spec.repository {why}"));
        let address = Address::parse(spec.repository()).map_err(unfit)?;
        if address.transport == address::Transport::File && !self.allow_local {
            return Err(unfit(
                "is on the machine of the server, which was not started with --git-allow-local",
            ));
        }
        let secret = match spec.secret() {
            "" => None,
            name => Some((name, self.secret(&key.project, name).await?)),
        };
        std::fs::create_dir_all(&self.folder).map_err(GitError::Keep)?;
        let secret = secret.as_ref().map(|(name, values)| (*name, values));
        let opened = Opened::new(&address, secret, &self.folder)?;
        let folder = self.folder.join(copy_name(key, spec));
        Ok(Remote::new(address, spec.branch().to_owned(), opened, folder))
    }

    async fn signer(
        &self,
        key: &ObjectName,
        spec: &GitSyncSpec,
    ) -> Result<Option<Signer>, Refused> {
        match spec.write_back.as_ref().map_or("", |back| back.signing_secret()) {
            "" => Ok(None),
            name => {
                let values = self.secret(&key.project, name).await?;
                Ok(Some(Signer::new(name, &values, &self.folder)?))
            }
        }
    }

    async fn secret(
        &self,
        project: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, Refused> {
        let found = self.secrets.find_readable(&ObjectName::new(project, name)).await;
        let found = found.map_err(Failure::Hub)?;
        let spec = found.and_then(|secret| secret.spec);
        let spec = spec.ok_or_else(|| GitError::Secret {
            name: name.to_owned(),
            problem: "is not there: create it in the project of the sync",
        })?;
        Ok(spec.data.into_iter().map(|(key, value)| (key, value.to_vec())).collect())
    }

    /// The other syncs of the project, as long as they do something.
    fn others(&self, key: &ObjectName) -> std::collections::BTreeSet<String> {
        let all = self.view.all().into_iter();
        let others = all.filter(|(name, _)| name.project == key.project && name != key);
        others.map(|(name, _)| name.name).collect()
    }

    /// The copies of a sync that is gone.
    fn forget(&self, key: &ObjectName) {
        let prefix = format!("{}.{}.", key.project, key.name);
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix)
                && let Err(error) = Copy::forget(&entry.path())
            {
                tracing::warn!(sync = %key, %error, "cannot remove the copy of a repository");
            }
        }
    }
}

/// Writes the status of one sync, where it changes.
struct Telling<'a> {
    hub: &'a Hub,
    syncs: &'a Resources<GitSync>,
    key: &'a ObjectName,
    generation: i64,
    status: Mutex<GitSyncStatus>,
}

impl<'a> Telling<'a> {
    fn new(
        hub: &'a Hub,
        syncs: &'a Resources<GitSync>,
        key: &'a ObjectName,
        sync: &GitSync,
    ) -> Self {
        let generation = sync.metadata.as_ref().map_or(0, |meta| meta.generation);
        let status = Mutex::new(sync.status.clone().unwrap_or_default());
        Self { hub, syncs, key, generation, status }
    }

    async fn tell(&self, event: &Event<'_>) -> Result<(), Error> {
        let next = {
            let mut status = self.status.lock();
            let next = status::next(&status, event, self.generation, self.hub.clock().now());
            if next == *status {
                return Ok(());
            }
            status.clone_from(&next);
            next
        };
        let metadata = ObjectMeta {
            name: self.key.name.clone(),
            project: self.key.project.clone(),
            ..ObjectMeta::default()
        };
        let sync = GitSync { metadata: Some(metadata), status: Some(next), ..GitSync::default() };
        match self.syncs.write_status(&sync).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Progress for Telling<'_> {
    async fn tell(&self, commit: &str, done: usize, all: usize) {
        if !done.is_multiple_of(PROGRESS_STEPS) {
            return;
        }
        if let Err(error) = Telling::tell(self, &Event::Progress { commit, done, all }).await {
            tracing::debug!(sync = %self.key, %error, "cannot tell how far the sync is");
        }
    }
}
