//! `oim.v0.Controller`.
use crate::{
    Request as NewVolume, Volumes,
    error::{Error, Result},
    volume::{CephImage, Media, Params, Secret, Size, VolumeName},
};
use orrery_proto::oim::v0::{
    CephParams, CheckMallocBDevReply, CheckMallocBDevRequest, MapVolumeReply, MapVolumeRequest,
    ProvisionMallocBDevReply, ProvisionMallocBDevRequest, UnmapVolumeReply, UnmapVolumeRequest,
    controller_server::Controller, map_volume_request,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub struct OimController {
    volumes: Arc<Volumes>,
}

impl OimController {
    pub fn new(volumes: Arc<Volumes>) -> Self {
        Self { volumes }
    }

    async fn provision(&self, name: VolumeName, bytes: i64) -> Result<()> {
        if bytes == 0 {
            return self.volumes.delete(&name).await;
        }
        let size = Size::from_bytes(bytes)?;
        let new = NewVolume {
            name,
            size,
            media: Media::Memory,
            source: None,
            labels: Default::default(),
        };
        self.volumes.create(new).await.map(|_| ())
    }
}

fn params(request: MapVolumeRequest) -> Result<Params> {
    match request.params {
        Some(map_volume_request::Params::Malloc(_)) => Ok(Params::Provisioned),
        Some(map_volume_request::Params::Ceph(ceph)) => {
            ceph_image(&request.volume_id, ceph).map(Params::Ceph)
        }
        None => Err(Error::Invalid("MapVolume needs params: malloc or ceph".to_owned())),
    }
}

/// Commas, colons and the like are how Ceph's own configuration strings are cut into parts, so they
/// must not come in through a value.
pub(super) fn ceph_image(volume_id: &str, ceph: CephParams) -> Result<CephImage> {
    let or =
        |value: String, default: &str| if value.is_empty() { default.to_owned() } else { value };
    let plain = |what: &str, value: String| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !value.is_empty() && value.bytes().all(word) {
            return Ok(value);
        }
        Err(Error::Invalid(format!(
            "ceph.{what} is empty or has characters that Ceph gives a meaning"
        )))
    };
    let monitor =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'[' | b']');
    let monitors_fit =
        ceph.monitors.split(',').all(|host| !host.is_empty() && host.bytes().all(monitor));
    if !monitors_fit {
        return Err(Error::Invalid(
            "ceph.monitors has to be host:port, separated by commas".to_owned(),
        ));
    }
    Ok(CephImage {
        user: plain("user_id", or(ceph.user_id, "admin"))?,
        secret: Secret::new(ceph.secret),
        monitors: ceph.monitors,
        pool: plain("pool", ceph.pool)?,
        image: plain("image", or(ceph.image, volume_id))?,
    })
}

#[tonic::async_trait]
impl Controller for OimController {
    async fn map_volume(
        &self,
        request: Request<MapVolumeRequest>,
    ) -> Result<Response<MapVolumeReply>, Status> {
        let request = request.into_inner();
        let name = VolumeName::parse(&request.volume_id)?;
        let mapping = self.volumes.map(&name, params(request)?).await?;
        Ok(Response::new(MapVolumeReply { device: mapping.device, scsi: mapping.scsi }))
    }

    async fn unmap_volume(
        &self,
        request: Request<UnmapVolumeRequest>,
    ) -> Result<Response<UnmapVolumeReply>, Status> {
        self.volumes.unmap(&VolumeName::parse(&request.into_inner().volume_id)?).await?;
        Ok(Response::new(UnmapVolumeReply {}))
    }

    async fn provision_malloc_b_dev(
        &self,
        request: Request<ProvisionMallocBDevRequest>,
    ) -> Result<Response<ProvisionMallocBDevReply>, Status> {
        let ProvisionMallocBDevRequest { bdev_name, size } = request.into_inner();
        self.provision(VolumeName::parse(&bdev_name)?, size).await?;
        Ok(Response::new(ProvisionMallocBDevReply {}))
    }

    async fn check_malloc_b_dev(
        &self,
        request: Request<CheckMallocBDevRequest>,
    ) -> Result<Response<CheckMallocBDevReply>, Status> {
        let name = VolumeName::parse(&request.into_inner().bdev_name)?;
        let volume = self.volumes.get(&name).await?;
        match volume.fault {
            None => Ok(Response::new(CheckMallocBDevReply {})),
            Some(fault) => Err(Status::not_found(format!("the device {name} is lost: {fault}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ceph_image;
    use orrery_proto::oim::v0::CephParams;

    #[track_caller]
    fn check(monitors: &str, pool: &str, image: &str, expect: Option<&str>) {
        let ceph = CephParams {
            secret: "hunter2".into(),
            monitors: monitors.into(),
            pool: pool.into(),
            image: image.into(),
            ..Default::default()
        };
        let found = ceph_image("vol-1", ceph);
        if let Err(error) = &found {
            assert!(!error.to_string().contains("hunter2"));
        }
        assert_eq!(found.ok().map(|image| image.image).as_deref(), expect);
    }

    /// proves: VOL-07
    #[test]
    fn ceph_parameters_are_complete_and_cannot_smuggle_options() {
        check("mon-1:6789,[::1]:3300", "rbd", "disk", Some("disk"));
        check("mon-1", "rbd", "", Some("vol-1"));
        check("", "rbd", "disk", None);
        check("mon-1,", "rbd", "disk", None);
        check("mon-1", "", "disk", None);
        check("mon-1", "rbd", "a:conf=/etc/shadow", None);
        check("mon-1", "rbd/x", "disk", None);
        check("mon 1", "rbd", "disk", None);
    }
}
