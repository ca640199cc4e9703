//! A driver for the Container Storage Interface 1.12, on top of a [`Pool`].
//!
//! ```text
//!  CreateVolume --> pool: image         ControllerPublishVolume --> a label: for this node
//!  NodeStageVolume --> pool: map --> wait for the device --> look, format, mount
//!  NodePublishVolume --> bind mount        (each has its reverse)
//! ```
//!
//! The driver keeps nothing itself. What callers said about a volume is in the labels of that volume;
//! what is mounted where is asked of the kernel. So every call can be repeated after a crash between
//! any two steps. One driver serves the volumes of one controller, on that controller's host.

mod capability;
mod capacity;
mod controller;
mod identity;
mod ids;
mod labels;
mod node;
mod page;
mod parameters;

use crate::{
    Pool,
    error::{Error, Result},
    guard::Guards,
    pool::find,
    volume::{Labels, Volume, VolumeName},
};
use orrery_proto::csi::v1::{
    Topology, controller_server::ControllerServer, identity_server::IdentityServer,
    node_server::NodeServer,
};
use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};
use tonic::service::Routes;

/// What a driver needs to know.
#[derive(Clone, Debug)]
pub struct CsiConfig {
    /// The driver's name, as a domain name.
    pub name: String,
    /// The id of the node it runs on, which is that of the controller whose volumes it serves.
    pub node_id: String,
    /// The most volumes published to the node at once; zero leaves it to the caller.
    pub volumes_max: i64,
    /// How long a mapped device may take to appear.
    pub device_timeout: Duration,
    /// Where device nodes are made if `/dev` has none.
    pub nodes: PathBuf,
    /// Whether a file system can grow while it is mounted. If not, volumes grow while nobody uses
    /// them, and the driver says so among its capabilities.
    pub grows_online: bool,
}

impl CsiConfig {
    pub fn new(node_id: impl Into<String>) -> Self {
        Self {
            name: "storage.orrery.dev".to_owned(),
            node_id: node_id.into(),
            volumes_max: 0,
            device_timeout: Duration::from_secs(30),
            nodes: "/run/orrery/devices".into(),
            grows_online: true,
        }
    }
}

/// The three services of the driver share this.
pub struct Driver {
    config: CsiConfig,
    pool: Arc<dyn Pool>,
    guards: Guards,
}

/// Everything that a driver serves.
pub fn driver(config: CsiConfig, pool: Arc<dyn Pool>) -> Routes {
    let driver = Arc::new(Driver { config, pool, guards: Guards::default() });
    Routes::new(IdentityServer::from_arc(driver.clone()))
        .add_service(ControllerServer::from_arc(driver.clone()))
        .add_service(NodeServer::from_arc(driver))
}

impl Driver {
    /// Where the volumes of this driver can be used: on one node.
    fn topology(&self) -> Topology {
        let segment = (format!("{}/node", self.config.name), self.config.node_id.clone());
        Topology { segments: HashMap::from([segment]) }
    }

    /// The volume of an id that a caller gave. An id that cannot be one of ours is one of none.
    async fn volume(&self, id: &str) -> Result<Volume> {
        let missing = || Error::not_found("volume", id);
        let name = ids::volume(id).ok_or_else(missing)?;
        let volume = find(self.pool.as_ref(), &name).await?;
        volume.filter(labels::is_ours).ok_or_else(missing)
    }

    /// Changes the labels of a volume whose lock is held.
    async fn relabel(&self, volume: &Volume, change: impl FnOnce(&mut Labels)) -> Result<Volume> {
        let mut labels = volume.labels.clone();
        change(&mut labels);
        if labels == volume.labels {
            return Ok(volume.clone());
        }
        self.pool.set_labels(&volume.name, &volume.labels, labels).await
    }

    /// Takes the lock of the volume that an id stands for.
    async fn lock(&self, id: &str) -> Result<crate::guard::Guard> {
        match ids::volume(id) {
            Some(name) => self.guards.one(&name).await,
            None => Err(Error::not_found("volume", id)),
        }
    }
}

/// Refuses an empty required field.
fn required(field: &str, value: &str) -> Result<()> {
    if value.is_empty() { Err(Error::Invalid(format!("{field} is missing"))) } else { Ok(()) }
}

/// The name as the pool has it.
fn text(name: &VolumeName) -> String {
    name.to_string()
}
