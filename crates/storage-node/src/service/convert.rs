//! Between our types and those of `orrery.volumes.v1`.
use crate::{
    Request,
    clock::{from_proto, to_proto},
    error::{Error, Result},
    volume::{Capacity, Mapping, Media, Size, Snapshot, Source, Volume, VolumeName},
};
use orrery_proto::volumes::v1::{self as pb, source::Of};

pub fn media_to(media: Media) -> pb::Media {
    match media {
        Media::File => pb::Media::File,
        Media::Memory => pb::Media::Memory,
    }
}

/// Whoever does not say wants a volume that stays.
pub fn media_from(number: i32) -> Result<Media> {
    match pb::Media::try_from(number) {
        Ok(pb::Media::Unspecified | pb::Media::File) => Ok(Media::File),
        Ok(pb::Media::Memory) => Ok(Media::Memory),
        Err(_) => Err(Error::Invalid(format!("there is no media {number}"))),
    }
}

pub fn source_to(source: Source) -> pb::Source {
    let of = match source {
        Source::Snapshot(name) => Of::Snapshot(name.into()),
        Source::Volume(name) => Of::Volume(name.into()),
    };
    pb::Source { of: Some(of) }
}

pub fn source_from(source: Option<pb::Source>) -> Result<Option<Source>> {
    match source.map(|source| source.of) {
        None => Ok(None),
        Some(Some(Of::Snapshot(name))) => Ok(Some(Source::Snapshot(VolumeName::parse(&name)?))),
        Some(Some(Of::Volume(name))) => Ok(Some(Source::Volume(VolumeName::parse(&name)?))),
        Some(None) => Err(Error::Invalid("a source names a snapshot or a volume".to_owned())),
    }
}

pub fn request_from(request: pb::CreateVolumeRequest) -> Result<Request> {
    Ok(Request {
        name: VolumeName::parse(&request.name)?,
        size: Size::from_bytes(request.size_bytes)?,
        media: media_from(request.media)?,
        source: source_from(request.source)?,
        labels: request.labels.into_iter().collect(),
    })
}

pub fn request_to(request: Request) -> pb::CreateVolumeRequest {
    pb::CreateVolumeRequest {
        name: request.name.into(),
        size_bytes: request.size.to_i64(),
        media: media_to(request.media).into(),
        labels: request.labels.into_iter().collect(),
        source: request.source.map(source_to),
    }
}

pub fn volume_to(volume: Volume) -> pb::Volume {
    let mapping = volume.mapping.map(|Mapping { device, scsi }| pb::Mapping { device, scsi });
    pb::Volume {
        name: volume.name.into(),
        size_bytes: volume.size.to_i64(),
        media: media_to(volume.media).into(),
        labels: volume.labels.into_iter().collect(),
        created: Some(to_proto(volume.created)),
        source: volume.source.map(source_to),
        mapping,
        fault: volume.fault.unwrap_or_default(),
    }
}

pub fn volume_from(volume: pb::Volume) -> Result<Volume> {
    let mapping = volume.mapping.map(|pb::Mapping { device, scsi }| Mapping { device, scsi });
    Ok(Volume {
        name: VolumeName::parse(&volume.name)?,
        size: Size::from_bytes(volume.size_bytes)?,
        media: media_from(volume.media)?,
        labels: volume.labels.into_iter().collect(),
        created: volume.created.as_ref().and_then(from_proto).unwrap_or_default(),
        source: source_from(volume.source)?,
        mapping,
        fault: Some(volume.fault).filter(|fault| !fault.is_empty()),
    })
}

pub fn snapshot_to(snapshot: Snapshot) -> pb::Snapshot {
    pb::Snapshot {
        name: snapshot.name.into(),
        volume: snapshot.volume.into(),
        size_bytes: snapshot.size.to_i64(),
        created: Some(to_proto(snapshot.created)),
        labels: snapshot.labels.into_iter().collect(),
    }
}

pub fn snapshot_from(snapshot: pb::Snapshot) -> Result<Snapshot> {
    Ok(Snapshot {
        name: VolumeName::parse(&snapshot.name)?,
        volume: VolumeName::parse(&snapshot.volume)?,
        size: Size::from_bytes(snapshot.size_bytes)?,
        created: snapshot.created.as_ref().and_then(from_proto).unwrap_or_default(),
        labels: snapshot.labels.into_iter().collect(),
    })
}

pub fn capacity_to(capacity: Capacity) -> pb::Capacity {
    let whole = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    pb::Capacity {
        total_bytes: whole(capacity.total_bytes),
        available_bytes: whole(capacity.available_bytes),
    }
}

pub fn capacity_from(capacity: &pb::Capacity) -> Capacity {
    let whole = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    Capacity {
        total_bytes: whole(capacity.total_bytes),
        available_bytes: whole(capacity.available_bytes),
    }
}
