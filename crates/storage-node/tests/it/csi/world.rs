//! A driver of its own for each test.
use crate::world::{Controller, Disk, controller};
use orrery_proto::csi::v1::{
    CapacityRange, ControllerPublishVolumeRequest, CreateVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, Volume,
    VolumeCapability,
    controller_client::ControllerClient,
    identity_client::IdentityClient,
    node_client::NodeClient,
    volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode},
};
use orrery_proto::oim::v0::{RegisterControllerRequest, registry_client::RegistryClient};
use orrery_storage_node::{
    Pool,
    csi::{CsiConfig, driver},
    service::{Endpoint, Listener, RemotePool, serve},
};
use orrery_volumes::{MemoryDirectory, ServeConfig};
use std::{path::PathBuf, sync::Arc};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Status, transport::Channel};

pub const NODE: &str = "host-1";
pub const SIZE: i64 = 16 << 20;

pub struct Csi {
    pub disk: Disk,
    pub identity: IdentityClient<Channel>,
    pub controller: ControllerClient<Channel>,
    pub node: NodeClient<Channel>,
    pub stop: Option<DropGuard>,
}

pub async fn csi() -> Csi {
    csi_with(|config| config).await
}

pub async fn csi_with(change: impl FnOnce(CsiConfig) -> CsiConfig) -> Csi {
    let disk = Disk::new();
    let pool = Arc::new(disk.volumes(None).await);
    start(disk, pool, change)
}

/// A controller and the registry that it is registered with; both end with this.
pub struct Far {
    pub registry: Endpoint,
    pub controller: Controller,
    _stop: DropGuard,
}

impl Far {
    /// The controller is not registered yet.
    pub async fn start(disk: &Disk) -> Self {
        let controller = controller(disk, None).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let registry = Endpoint::new(&listener.local_addr().unwrap().to_string(), None);
        let stop = CancellationToken::new();
        let (directory, config) = (Arc::new(MemoryDirectory::default()), ServeConfig::default());
        tokio::spawn(orrery_volumes::serve(listener, config, directory, stop.clone()));
        Self { registry, controller, _stop: stop.drop_guard() }
    }

    pub async fn register(&self) {
        let entry = RegisterControllerRequest {
            controller_id: NODE.into(),
            address: self.controller.address.clone(),
            ..RegisterControllerRequest::default()
        };
        RegistryClient::new(self.registry.channel()).register_controller(entry).await.unwrap();
    }

    pub fn pool(&self) -> Arc<RemotePool> {
        Arc::new(RemotePool::new(&self.registry, NODE).unwrap())
    }
}

/// A registry whose controller is gone.
pub struct Alone {
    registry: Endpoint,
    stop: DropGuard,
}

impl Far {
    /// Ends the controller; its books and devices stay.
    pub fn stop_controller(self) -> Alone {
        let Self { registry, controller, _stop: stop } = self;
        drop(controller);
        Alone { registry, stop }
    }
}

impl Alone {
    pub async fn start_controller(self, disk: &Disk) -> Far {
        let controller = controller(disk, None).await;
        Far { registry: self.registry, controller, _stop: self.stop }
    }
}

/// A driver whose volumes are those of a controller behind the registry's proxy.
pub async fn remote(change: impl FnOnce(CsiConfig) -> CsiConfig) -> (Csi, Far) {
    let disk = Disk::new();
    let far = Far::start(&disk).await;
    far.register().await;
    let pool = far.pool();
    (start(disk, pool, change), far)
}

/// Serves a driver for this pool on a socket in the disk's folder.
pub fn start(disk: Disk, pool: Arc<dyn Pool>, change: impl FnOnce(CsiConfig) -> CsiConfig) -> Csi {
    let socket = disk.folder.path().join("csi.sock");
    // A driver that was killed leaves its socket behind.
    _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let mut config = CsiConfig::new(NODE);
    config.nodes = disk.folder.path().join("nodes");
    let stop = CancellationToken::new();
    let routes = driver(change(config), pool);
    tokio::spawn(serve(Listener::Unix(listener), routes, stop.clone()));
    let channel = Endpoint::new(&format!("unix:{}", socket.display()), None).channel();
    Csi {
        disk,
        identity: IdentityClient::new(channel.clone()),
        controller: ControllerClient::new(channel.clone()),
        node: NodeClient::new(channel),
        stop: Some(stop.drop_guard()),
    }
}

pub fn capability(access: AccessType, mode: Mode) -> VolumeCapability {
    let access_mode = Some(AccessMode { mode: mode.into() });
    VolumeCapability { access_type: Some(access), access_mode }
}

pub fn mount() -> VolumeCapability {
    mount_as("", Mode::SingleNodeWriter)
}

pub fn mount_as(fs_type: &str, mode: Mode) -> VolumeCapability {
    let mount = MountVolume { fs_type: fs_type.to_owned(), ..Default::default() };
    capability(AccessType::Mount(mount), mode)
}

pub fn block(mode: Mode) -> VolumeCapability {
    capability(AccessType::Block(BlockVolume {}), mode)
}

pub fn new_volume(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: SIZE, limit_bytes: 0 }),
        volume_capabilities: vec![mount()],
        ..Default::default()
    }
}

impl Csi {
    pub fn staging(&self) -> PathBuf {
        self.disk.folder.path().join("staging")
    }

    pub fn target(&self) -> PathBuf {
        self.disk.folder.path().join("pods/one/target")
    }

    pub async fn create(&self, name: &str) -> Volume {
        let request = new_volume(name);
        self.controller.clone().create_volume(request).await.unwrap().into_inner().volume.unwrap()
    }

    pub async fn create_with(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let response = self.controller.clone().create_volume(request).await?;
        Ok(response.into_inner().volume.unwrap())
    }

    pub fn publish_request(&self, volume: &str) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: volume.to_owned(),
            node_id: NODE.to_owned(),
            volume_capability: Some(mount()),
            ..Default::default()
        }
    }

    pub fn stage_request(&self, volume: &str) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: self.staging().to_str().unwrap().to_owned(),
            volume_capability: Some(mount()),
            ..Default::default()
        }
    }

    pub fn node_publish_request(&self, volume: &str) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: self.staging().to_str().unwrap().to_owned(),
            target_path: self.target().to_str().unwrap().to_owned(),
            volume_capability: Some(mount()),
            ..Default::default()
        }
    }

    pub async fn stage(&self, request: NodeStageVolumeRequest) -> Result<(), Status> {
        self.node.clone().node_stage_volume(request).await.map(|_| ())
    }

    pub async fn node_publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.node.clone().node_publish_volume(request).await.map(|_| ())
    }

    pub async fn unpublish(&self, volume: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume.to_owned(),
            target_path: self.target().to_str().unwrap().to_owned(),
        };
        self.node.clone().node_unpublish_volume(request).await.map(|_| ())
    }

    pub async fn unstage(&self, volume: &str) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: self.staging().to_str().unwrap().to_owned(),
        };
        self.node.clone().node_unstage_volume(request).await.map(|_| ())
    }

    pub async fn delete(&self, volume: &str) -> Result<(), Status> {
        let request = orrery_proto::csi::v1::DeleteVolumeRequest {
            volume_id: volume.to_owned(),
            ..Default::default()
        };
        self.controller.clone().delete_volume(request).await.map(|_| ())
    }
}
