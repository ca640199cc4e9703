//! How an agent mounts volumes: with the parts that the storage controller's host has anyway.
use async_trait::async_trait;
use orrery_agent::HostVolumes;
use orrery_proto::fleet::v1::AttachedVolume;
use orrery_storage_node::host::stage;
use orrery_storage_node::volume::Mapping;
use std::path::Path;
use std::time::Duration;
use tokio::sync::{Mutex, RwLock};

/// How long a device may take to appear after it was mapped.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// Mounts volumes on this machine.
#[derive(Debug, Default)]
pub struct Mounts {
    /// Held while the folder of all volumes becomes shared.
    sharing: Mutex<()>,
    /// Held by everyone who stages: until all of them are done, the folder stays shared. None waits for another, for
    /// a device may be long in coming, and a file system long in the making.
    staging: RwLock<()>,
}

/// The folder that holds the places of all volumes.
fn all(place: &Path) -> Option<&Path> {
    place.parent()?.parent()
}

#[async_trait]
impl HostVolumes for Mounts {
    async fn stage(&self, volume: &AttachedVolume, place: &Path) -> Result<(), String> {
        let mapping = Mapping { device: volume.device.clone(), scsi: volume.scsi.clone() };
        let _staging = self.staging.read().await;
        if let Some(folder) = all(place) {
            let _sharing = self.sharing.lock().await;
            stage::share(folder).await.map_err(|error| error.to_string())?;
        }
        let staged = stage::stage(&mapping, &volume.file_system, place, DEVICE_TIMEOUT).await;
        staged.map_err(|error| error.to_string())
    }

    async fn unstage(&self, place: &Path) -> Result<(), String> {
        stage::unstage(place).await.map_err(|error| error.to_string())?;
        // Whoever stages meanwhile needs it shared; it stops being so with the last that goes.
        let alone = self.staging.try_write();
        match (all(place), alone) {
            (Some(folder), Ok(_alone)) => {
                stage::unshare_if_empty(folder).await.map_err(|error| error.to_string())
            }
            (_, _) => Ok(()),
        }
    }
}
