//! Creating and deleting.
use crate::{
    Request,
    csi::{Driver, capability, capacity, ids, labels, parameters, required},
    error::{Error, Result},
    pool::find,
    volume::{Labels, Size, Source, Volume, VolumeName},
};
use orrery_proto::csi::v1::{
    self as pb, CreateVolumeRequest, TopologyRequirement, VolumeContentSource,
    volume_content_source::Type,
};

impl Driver {
    pub(super) async fn create_volume(&self, request: CreateVolumeRequest) -> Result<pb::Volume> {
        required("name", &request.name)?;
        let name = ids::for_volume(&request.name)?;
        capability::read_all(&request.volume_capabilities)?;
        let media = parameters::media(&request.parameters)?;
        parameters::mutable(&request.mutable_parameters)?;
        self.check_topology(request.accessibility_requirements.as_ref())?;
        let source = named_source(request.volume_content_source.as_ref())?;
        let _guard = self.guards.one(&name).await?;
        if let Some(volume) = find(self.pool.as_ref(), &name).await? {
            // Its source may be gone since; the volume is a copy, and does not miss it.
            check_same(&request, source.as_ref(), &volume)?;
            return Ok(self.show(&volume));
        }
        let (floor, known) = self.content(source.as_ref()).await?;
        let size = capacity::of_new(request.capacity_range.as_ref(), floor)?;
        let mut labels =
            labels::new(&request.name, &request.parameters, &request.mutable_parameters);
        labels::inherit(&mut labels, &known);
        self.check_total(media, size).await?;
        let new = Request { name, size, media, source, labels };
        Ok(self.show(&self.pool.create(new).await?))
    }

    /// Refuses if the volume has to be reachable from elsewhere only.
    fn check_topology(&self, requirement: Option<&TopologyRequirement>) -> Result<()> {
        let own = self.topology();
        match requirement {
            Some(wanted) if !wanted.requisite.is_empty() && !wanted.requisite.contains(&own) => {
                Err(Error::Exhausted(format!(
                    "volumes of this driver can only be used on the node {}",
                    self.config.node_id
                )))
            }
            _ => Ok(()),
        }
    }

    /// What cannot be had at any time is out of range; what cannot be had now is for the pool to say.
    async fn check_total(&self, media: crate::volume::Media, size: Size) -> Result<()> {
        let total = match self.pool.capacity(media).await {
            Ok(capacity) => capacity.total_bytes,
            // It is not known, so it cannot be too much.
            Err(Error::Unsupported(_) | Error::InUse(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        if size.bytes() <= total {
            return Ok(());
        }
        Err(Error::OutOfRange(format!("{size} are more than there is altogether: {total}")))
    }

    /// The size of the source of a new volume, and what is known about its content.
    async fn content(&self, source: Option<&Source>) -> Result<(Option<Size>, Labels)> {
        match source {
            None => Ok((None, Labels::new())),
            Some(Source::Snapshot(name)) => {
                let found = self.snapshot(name.as_str()).await?;
                Ok((Some(found.size), found.labels))
            }
            Some(Source::Volume(name)) => {
                let found = self.volume(name.as_str()).await?;
                Ok((Some(found.size), found.labels))
            }
        }
    }

    pub(super) async fn delete_volume(&self, id: &str) -> Result<()> {
        required("volume_id", id)?;
        // What cannot be one of our ids has never been there, and so is gone.
        let Some(name) = ids::volume(id) else { return Ok(()) };
        let _guard = self.guards.one(&name).await?;
        let Some(volume) = find(self.pool.as_ref(), &name).await? else { return Ok(()) };
        if let Some(published) = labels::published(&volume.labels) {
            let node = published.node;
            return Err(Error::InUse(format!("the volume {id} is published to the node {node}")));
        }
        self.pool.delete(&name).await
    }

    pub(super) async fn snapshot(&self, id: &str) -> Result<crate::volume::Snapshot> {
        let missing = || Error::not_found("snapshot", id);
        let name: VolumeName = ids::snapshot(id).ok_or_else(missing)?;
        let all = self.pool.list_snapshots().await?;
        let found = all.into_iter().find(|snapshot| snapshot.name == name);
        found.filter(|snapshot| labels::has_name(&snapshot.labels)).ok_or_else(missing)
    }
}

/// What a caller wants a copy of, whether it is there or not.
fn named_source(source: Option<&VolumeContentSource>) -> Result<Option<Source>> {
    let Some(source) = source else { return Ok(None) };
    match &source.r#type {
        Some(Type::Snapshot(from)) => {
            let id = &from.snapshot_id;
            required("volume_content_source.snapshot.snapshot_id", id)?;
            let name = ids::snapshot(id).ok_or_else(|| Error::not_found("snapshot", id))?;
            Ok(Some(Source::Snapshot(name)))
        }
        Some(Type::Volume(from)) => {
            let id = &from.volume_id;
            required("volume_content_source.volume.volume_id", id)?;
            let name = ids::volume(id).ok_or_else(|| Error::not_found("volume", id))?;
            Ok(Some(Source::Volume(name)))
        }
        None => Err(Error::Invalid("volume_content_source names no source".to_owned())),
    }
}

/// A volume with that name exists. It is the one that is asked for, or it is in the way.
fn check_same(
    request: &CreateVolumeRequest,
    source: Option<&Source>,
    volume: &Volume,
) -> Result<()> {
    let different = |what: &str| {
        Err(Error::Conflict(format!("a volume named {:?} exists with other {what}", request.name)))
    };
    if !capacity::fits(request.capacity_range.as_ref(), volume.size)? {
        return different("capacity");
    }
    if labels::parameters(&volume.labels) != request.parameters {
        return different("parameters");
    }
    if volume.source.as_ref() != source {
        return different("content source");
    }
    Ok(())
}
