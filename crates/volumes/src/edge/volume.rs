//! Volumes at their storage controllers.
use super::hosts::{Host, Hosts};
use super::{LOOK_AGAIN, Problem, RETRY, ceph};
use crate::status::{self, meta};
use crate::volume::controller::Views;
use crate::volume::{handle, kept_handle, size_bytes};
use async_trait::async_trait;
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::storage::v1::{
    SnapshotObserved, Volume, VolumeAttachment, VolumeObserved, VolumeSnapshot, VolumeSpec,
};
use orrery_proto::volumes::v1::{self as pb, source::Of};
use orrery_runtime::{Next, Reconciler, View};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::Code;

/// On a snapshot at a controller: its name in the spec of its volume.
const SNAPSHOT_LABEL: &str = "storage.orrery.dev/snapshot";
/// On a volume at a controller, so that people who look there know what they see.
const VOLUME_LABEL: &str = "storage.orrery.dev/volume";

/// One thing to ask of a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Create(pb::CreateVolumeRequest),
    Resize(pb::ResizeVolumeRequest),
    Snapshot(pb::CreateSnapshotRequest),
    DropSnapshot(pb::DeleteSnapshotRequest),
    Delete(pb::DeleteVolumeRequest),
}

/// What a controller has of one volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remote {
    pub volume: Option<pb::Volume>,
    /// Those of this volume.
    pub snapshots: Vec<pb::Snapshot>,
}

/// The name of a snapshot at a controller.
pub fn snapshot_handle(volume_uid: &str, name: &str) -> String {
    let digest: String =
        Sha256::digest(name.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("s-{digest}-{volume_uid}")
}

/// What is missing at the controller, in the order in which it has to be done. `source` is what the
/// volume is a copy of, as the controller knows it.
pub fn calls(
    volume: &Volume,
    remote: &Remote,
    source: Option<pb::Source>,
) -> Result<Vec<Call>, Problem> {
    let metadata = meta(&volume.metadata);
    let name = handle(&metadata.uid);
    if metadata.deletion_timestamp.is_some() {
        return Ok(removal(name, remote));
    }
    let spec = volume.spec.clone().unwrap_or_default();
    let size_bytes = size_bytes(volume);
    let observed = volume.status.as_ref().and_then(|status| status.observed.clone());
    let mut calls = Vec::new();
    match &remote.volume {
        None if observed.is_some_and(|observed| 0 < observed.size_bytes) => {
            // It was there. An empty one in its place would hide that its data is lost.
            let message = "the volume was there, and the storage controller of its host does not have it \
                           any more: it runs with another state folder than before, or the data is gone. \
                           Look at that host; if the data is gone, delete the volume and make it anew";
            return Err(Problem { reason: "Lost", message: message.to_owned() });
        }
        None => calls.push(Call::Create(creation(&name, size_bytes, &spec, metadata, source))),
        Some(there) if there.size_bytes < size_bytes => {
            calls.push(Call::Resize(pb::ResizeVolumeRequest { name: name.clone(), size_bytes }));
        }
        Some(_) => {}
    }
    let wanted: BTreeSet<&str> = spec.snapshots.iter().map(|snapshot| snapshot.name()).collect();
    let there: BTreeSet<&str> = remote.snapshots.iter().filter_map(snapshot_name).collect();
    for missing in wanted.difference(&there) {
        calls.push(Call::Snapshot(pb::CreateSnapshotRequest {
            name: snapshot_handle(&metadata.uid, missing),
            volume: name.clone(),
            labels: [(SNAPSHOT_LABEL.to_owned(), (*missing).to_owned())].into(),
        }));
    }
    let surplus = remote
        .snapshots
        .iter()
        .filter(|snapshot| snapshot_name(snapshot).is_some_and(|known| !wanted.contains(known)));
    calls.extend(surplus.map(drop_snapshot));
    Ok(calls)
}

/// Snapshots first: a volume that is gone could no longer be asked for them.
fn removal(name: String, remote: &Remote) -> Vec<Call> {
    let ours = remote.snapshots.iter().filter(|snapshot| snapshot_name(snapshot).is_some());
    let mut calls: Vec<Call> = ours.map(drop_snapshot).collect();
    if remote.volume.is_some() {
        calls.push(Call::Delete(pb::DeleteVolumeRequest { name }));
    }
    calls
}

fn drop_snapshot(snapshot: &pb::Snapshot) -> Call {
    Call::DropSnapshot(pb::DeleteSnapshotRequest { name: snapshot.name.clone() })
}

fn creation(
    name: &str,
    size_bytes: i64,
    spec: &VolumeSpec,
    metadata: &orrery_proto::meta::v1::ObjectMeta,
    source: Option<pb::Source>,
) -> pb::CreateVolumeRequest {
    let media = if spec.media() == "memory" { pb::Media::Memory } else { pb::Media::File };
    let shown = format!("{}/{}", metadata.project, metadata.name);
    pb::CreateVolumeRequest {
        name: name.to_owned(),
        size_bytes,
        media: media.into(),
        labels: [(VOLUME_LABEL.to_owned(), shown)].into(),
        source,
    }
}

/// The name that people gave a snapshot; others made those without one.
fn snapshot_name(snapshot: &pb::Snapshot) -> Option<&str> {
    snapshot.labels.get(SNAPSHOT_LABEL).map(String::as_str)
}

/// What to write down of it.
pub fn observed(remote: &Remote, generation: i64, problem: Option<&Problem>) -> VolumeObserved {
    let mut snapshots: Vec<SnapshotObserved> = remote
        .snapshots
        .iter()
        .filter_map(|snapshot| {
            Some(SnapshotObserved {
                name: snapshot_name(snapshot)?.to_owned(),
                size_bytes: snapshot.size_bytes,
                created: snapshot.created,
            })
        })
        .collect();
    snapshots.sort_by(|one, two| one.name.cmp(&two.name));
    let volume = remote.volume.clone().unwrap_or_default();
    VolumeObserved {
        size_bytes: volume.size_bytes,
        fault: volume.fault,
        problem: problem.map(|problem| problem.message.clone()).unwrap_or_default(),
        problem_reason: problem.map(|problem| problem.reason.to_owned()).unwrap_or_default(),
        generation,
        gone: false,
        snapshots,
    }
}

/// Carries volumes out.
pub struct VolumeEdge {
    volumes: Resources<Volume>,
    view: Arc<View<Volume>>,
    attachments: Arc<View<VolumeAttachment>>,
    snapshots: Arc<View<VolumeSnapshot>>,
    hosts: Arc<Hosts>,
    keys: Arc<ceph::Keys>,
}

impl VolumeEdge {
    pub fn new(
        hub: &Hub,
        views: Views,
        hosts: Arc<Hosts>,
        keys: Arc<ceph::Keys>,
    ) -> Result<Self, Error> {
        let Views { volumes: view, attachments, snapshots, .. } = views;
        Ok(Self { volumes: hub.resources()?, view, attachments, snapshots, hosts, keys })
    }

    /// What the volume is a copy of, as its controller knows it.
    fn source(&self, project: &str, volume: &Volume) -> Option<pb::Source> {
        let source = volume.spec.as_ref()?.source.as_ref()?;
        if source.volume.is_none() {
            let found = self.snapshots.get(&ObjectName::new(project, source.snapshot()))?;
            let of = Of::Snapshot(kept_handle(&meta(&found.metadata).uid));
            return Some(pb::Source { of: Some(of) });
        }
        let found = self.view.get(&ObjectName::new(project, source.volume()))?;
        let uid = &meta(&found.metadata).uid;
        let of = match &source.snapshot {
            Some(name) => Of::Snapshot(snapshot_handle(uid, name)),
            None => Of::Volume(handle(uid)),
        };
        Some(pb::Source { of: Some(of) })
    }

    /// Does what is missing; what it saw last is in `remote`, whatever came of it.
    async fn carry_out(
        &self,
        key: &ObjectName,
        volume: &Volume,
        remote: &mut Remote,
    ) -> Result<(), Problem> {
        let status = volume.status.clone().unwrap_or_default();
        let name = handle(&meta(&volume.metadata).uid);
        if let Some(image) = ceph::image(volume) {
            // It was there before, and stays.
            if meta(&volume.metadata).deletion_timestamp.is_some() {
                return Ok(());
            }
            let params = self.keys.params(&key.project, image).await?;
            let mut host = self.hosts.host(&status.controller)?;
            let size_bytes = ceph::look(&mut host, params).await?;
            remote.volume = Some(pb::Volume { name, size_bytes, ..<_>::default() });
            return Ok(());
        }
        let mut host = self.hosts.host(&status.controller)?;
        *remote = look(&mut host, &name).await?;
        let source = self.source(&key.project, volume);
        let calls = calls(volume, remote, source)?;
        if calls.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        for call in calls {
            tracing::debug!(volume = %key, controller = status.controller, ?call, "asking");
            outcome = perform(&mut host, call).await;
            if outcome.is_err() {
                break;
            }
        }
        *remote = look(&mut host, &name).await?;
        outcome
    }
}

async fn look(host: &mut Host, name: &str) -> Result<Remote, Problem> {
    let request = pb::GetVolumeRequest { name: name.to_owned() };
    let volume = match host.pool.get_volume(request).await {
        Ok(found) => Some(found.into_inner()),
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => return Err(status.into()),
    };
    let listed = host.pool.list_snapshots(pb::ListSnapshotsRequest {}).await?.into_inner();
    let snapshots = listed.snapshots.into_iter().filter(|snapshot| snapshot.volume == name);
    Ok(Remote { volume, snapshots: snapshots.collect() })
}

async fn perform(host: &mut Host, call: Call) -> Result<(), Problem> {
    match call {
        Call::Create(request) => host.pool.create_volume(request).await.map(|_| ())?,
        Call::Resize(request) => host.pool.resize_volume(request).await.map(|_| ())?,
        Call::Snapshot(request) => host.pool.create_snapshot(request).await.map(|_| ())?,
        Call::DropSnapshot(request) => host.pool.delete_snapshot(request).await.map(|_| ())?,
        Call::Delete(request) => host.pool.delete_volume(request).await.map(|_| ())?,
    }
    Ok(())
}

#[async_trait]
impl Reconciler<ObjectName> for VolumeEdge {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(volume) = self.volumes.find(key).await? else { return Ok(Next::AwaitChange) };
        let status = volume.status.clone().unwrap_or_default();
        let deleting = meta(&volume.metadata).deletion_timestamp.is_some();
        let before = status.observed.clone().unwrap_or_default();
        // Placement and attachments come first; whoever changes them makes us look again.
        let attached = deleting && !self.attachments.indexed(&key.to_string()).is_empty();
        if status.controller.is_empty() || before.gone || attached {
            return Ok(Next::AwaitChange);
        }
        let mut remote = Remote::default();
        let outcome = self.carry_out(key, &volume, &mut remote).await;
        let generation = meta(&volume.metadata).generation;
        let mut next = match &outcome {
            Ok(()) => observed(&remote, generation, None),
            // Nothing was seen, so what was seen before is still the best there is.
            Err(problem) if remote == Remote::default() => VolumeObserved {
                problem: problem.message.clone(),
                problem_reason: problem.reason.to_owned(),
                ..before
            },
            Err(problem) => observed(&remote, before.generation, Some(problem)),
        };
        next.gone = deleting && outcome.is_ok();
        status::update(&self.volumes, key, |volume| {
            volume.status.get_or_insert_default().observed = Some(next.clone());
        })
        .await?;
        let retry = if ceph::image(&volume).is_some() { ceph::RETRY } else { RETRY };
        Ok(Next::After(if outcome.is_ok() { LOOK_AGAIN } else { retry }))
    }
}

#[cfg(test)]
mod tests;
