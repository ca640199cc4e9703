//! Devices as SCSI targets or vhost-blk controllers.
use super::{Slot, Spdk, absent_is_fine, rpc};
use crate::{
    error::{Error, Result},
    volume::{Mapping, VolumeName},
};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// SPDK's own limit per vhost-scsi controller.
const TARGETS_MAX: usize = 8;
/// A target is removed once the machine has let go of it; that is asked for until then.
const REMOVE_WAIT: Duration = Duration::from_secs(10);
const REMOVE_POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize)]
struct Controller {
    ctrlr: String,
    #[serde(default)]
    backend_specific: BackendSpecific,
}

#[derive(Debug, Default, Deserialize)]
struct BackendSpecific {
    #[serde(default)]
    scsi: Vec<ScsiTarget>,
    block: Option<BlockBackend>,
}

#[derive(Debug, Deserialize)]
struct ScsiTarget {
    scsi_dev_num: u32,
    #[serde(default)]
    luns: Vec<Lun>,
}

#[derive(Debug, Deserialize)]
struct Lun {
    id: u32,
    bdev_name: String,
}

#[derive(Debug, Deserialize)]
struct BlockBackend {
    bdev: String,
}

impl Spdk {
    async fn controllers(&self) -> Result<Vec<Controller>> {
        rpc::decode("vhost_get_controllers", self.call("vhost_get_controllers", json!({})).await?)
    }

    async fn targets(&self, controller: &str) -> Result<Option<Vec<ScsiTarget>>> {
        let found = self.controllers().await?.into_iter().find(|found| found.ctrlr == controller);
        Ok(found.map(|found| found.backend_specific.scsi))
    }

    /// The targets of the controller, which is made if SPDK does not have it yet.
    async fn ensure_targets(&self, controller: &str) -> Result<Vec<ScsiTarget>> {
        if let Some(targets) = self.targets(controller).await? {
            return Ok(targets);
        }
        match self.call("vhost_create_scsi_controller", json!({ "ctrlr": controller })).await {
            Ok(_) | Err(Error::Conflict(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn map_scsi(
        &self,
        name: &VolumeName,
        controller: &str,
        device: &str,
    ) -> Result<Mapping> {
        let targets = self.ensure_targets(controller).await?;
        if let Some(mapping) = scsi_mapping(&targets, name, device) {
            return Ok(mapping);
        }
        if targets.len() >= TARGETS_MAX {
            return Err(Error::Exhausted(format!(
                "all {TARGETS_MAX} targets of {controller} are in use"
            )));
        }
        let params =
            json!({ "ctrlr": controller, "scsi_target_num": -1, "bdev_name": name.as_str() });
        let number = self.call("vhost_scsi_controller_add_target", params).await?;
        match number.as_u64() {
            Some(number) => Ok(Mapping { device: device.to_owned(), scsi: format!("{number}:0") }),
            // Older ones do not say which number they chose.
            None => {
                let mapping = self.find_scsi(name, controller, device).await?;
                mapping
                    .ok_or_else(|| Error::Lost(format!("SPDK added {name} and does not show it")))
            }
        }
    }

    pub(super) async fn find_scsi(
        &self,
        name: &VolumeName,
        controller: &str,
        device: &str,
    ) -> Result<Option<Mapping>> {
        let targets = self.targets(controller).await?.unwrap_or_default();
        Ok(scsi_mapping(&targets, name, device))
    }

    /// Asks for the removal until the target is gone.
    pub(super) async fn unmap_scsi(&self, name: &VolumeName, controller: &str) -> Result<()> {
        let removed = async {
            loop {
                let targets = self.targets(controller).await?.unwrap_or_default();
                let Some((number, _)) = scsi_address(&targets, name) else { return Ok(()) };
                let params = json!({ "ctrlr": controller, "scsi_target_num": number });
                match self.call("vhost_scsi_controller_remove_target", params).await {
                    // Busy is also what SPDK says of a target that is on its way out.
                    Ok(_) | Err(Error::InUse(_) | Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
                tokio::time::sleep(REMOVE_POLL).await;
            }
        };
        tokio::time::timeout(REMOVE_WAIT, removed).await.unwrap_or_else(|_| {
            Err(Error::InUse(format!("the machine does not let go of the volume {name}")))
        })
    }

    pub(super) async fn map_blk(&self, name: &VolumeName, slots: &[Slot]) -> Result<Mapping> {
        let controllers = self.controllers().await?;
        if let Some(slot) = slot_of(&controllers, name, slots) {
            return Ok(slot.mapping());
        }
        let taken = |slot: &&Slot| controllers.iter().any(|found| found.ctrlr == slot.controller);
        let free = slots.iter().find(|slot| !taken(slot)).ok_or_else(|| {
            Error::Exhausted(format!("all {} vhost-blk slots are in use", slots.len()))
        })?;
        let params = json!({ "ctrlr": free.controller, "dev_name": name.as_str() });
        self.call("vhost_create_blk_controller", params).await?;
        Ok(free.mapping())
    }

    pub(super) async fn find_blk(
        &self,
        name: &VolumeName,
        slots: &[Slot],
    ) -> Result<Option<Mapping>> {
        Ok(slot_of(&self.controllers().await?, name, slots).map(Slot::mapping))
    }

    pub(super) async fn unmap_blk(&self, name: &VolumeName, slots: &[Slot]) -> Result<()> {
        match slot_of(&self.controllers().await?, name, slots) {
            None => Ok(()),
            Some(slot) => {
                let params = json!({ "ctrlr": slot.controller });
                absent_is_fine(self.call("vhost_delete_controller", params).await)
            }
        }
    }
}

impl Slot {
    fn mapping(&self) -> Mapping {
        Mapping { device: self.device.clone(), scsi: String::new() }
    }
}

fn slot_of<'a>(
    controllers: &[Controller],
    name: &VolumeName,
    slots: &'a [Slot],
) -> Option<&'a Slot> {
    let shows = |found: &&Controller| {
        found.backend_specific.block.as_ref().is_some_and(|block| block.bdev == name.as_str())
    };
    let found = controllers.iter().find(shows)?;
    slots.iter().find(|slot| slot.controller == found.ctrlr)
}

fn scsi_address(targets: &[ScsiTarget], name: &VolumeName) -> Option<(u32, u32)> {
    targets.iter().find_map(|target| {
        let lun = target.luns.iter().find(|lun| lun.bdev_name == name.as_str())?;
        Some((target.scsi_dev_num, lun.id))
    })
}

fn scsi_mapping(targets: &[ScsiTarget], name: &VolumeName, device: &str) -> Option<Mapping> {
    let (target, lun) = scsi_address(targets, name)?;
    Some(Mapping { device: device.to_owned(), scsi: format!("{target}:{lun}") })
}
