//! Snapshots.
use crate::{
    clock::to_proto,
    csi::{Driver, ids, labels, page, parameters, required, text},
    error::{Error, Result},
    volume::{Snapshot, VolumeName},
};
use orrery_proto::csi::v1::{
    self as pb, CreateSnapshotRequest, ListSnapshotsRequest, ListSnapshotsResponse,
    list_snapshots_response::Entry,
};

impl Driver {
    pub(super) async fn create_snapshot(
        &self,
        request: &CreateSnapshotRequest,
    ) -> Result<pb::Snapshot> {
        required("name", &request.name)?;
        required("source_volume_id", &request.source_volume_id)?;
        let name = ids::for_snapshot(&request.name)?;
        parameters::of_snapshot(&request.parameters)?;
        let _guard = self.lock(&request.source_volume_id).await?;
        let volume = match self.volume(&request.source_volume_id).await {
            // A snapshot outlives its volume, and who asks for it again shall find it.
            Err(Error::NotFound { .. }) => return self.taken(name, request).await,
            other => other?,
        };
        let labels = labels::of_snapshot(&request.name, &volume.labels);
        Ok(show(&self.pool.create_snapshot(&name, &volume.name, labels).await?))
    }

    /// The snapshot that was taken under this name, of a volume that is gone.
    async fn taken(
        &self,
        name: VolumeName,
        request: &CreateSnapshotRequest,
    ) -> Result<pb::Snapshot> {
        let all = self.pool.list_snapshots().await?;
        let found = all.iter().find(|snapshot| snapshot.name == name);
        let same = found.filter(|found| found.volume.as_str() == request.source_volume_id);
        same.map(show).ok_or_else(|| Error::not_found("volume", &request.source_volume_id))
    }

    pub(super) async fn delete_snapshot(&self, id: &str) -> Result<()> {
        required("snapshot_id", id)?;
        match ids::snapshot(id) {
            Some(name) => self.pool.delete_snapshot(&name).await,
            None => Ok(()),
        }
    }

    pub(super) async fn get_snapshot(&self, id: &str) -> Result<pb::Snapshot> {
        required("snapshot_id", id)?;
        Ok(show(&self.snapshot(id).await?))
    }

    /// Asking for what does not exist gives an empty list.
    pub(super) async fn list_snapshots(
        &self,
        request: &ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse> {
        let after = page::token(&request.starting_token, |id| ids::snapshot(id).is_some())?;
        let fits = |asked: &str, found: &str| asked.is_empty() || asked == found;
        let matching = |snapshot: &Snapshot| {
            labels::has_name(&snapshot.labels)
                && fits(&request.snapshot_id, snapshot.name.as_str())
                && fits(&request.source_volume_id, snapshot.volume.as_str())
        };
        let snapshots = self.pool.list_snapshots().await?.into_iter().filter(matching).collect();
        let (shown, next_token) = page::page(
            snapshots,
            |snapshot: &Snapshot| snapshot.name.as_str(),
            request.max_entries,
            after,
        )?;
        let entry = |snapshot: &Snapshot| Entry { snapshot: Some(show(snapshot)) };
        Ok(ListSnapshotsResponse { entries: shown.iter().map(entry).collect(), next_token })
    }
}

/// A snapshot is shown only when it is whole, so it is always ready.
fn show(snapshot: &Snapshot) -> pb::Snapshot {
    pb::Snapshot {
        size_bytes: snapshot.size.to_i64(),
        snapshot_id: text(&snapshot.name),
        source_volume_id: text(&snapshot.volume),
        creation_time: Some(to_proto(snapshot.created)),
        ready_to_use: true,
        group_snapshot_id: String::new(),
    }
}
