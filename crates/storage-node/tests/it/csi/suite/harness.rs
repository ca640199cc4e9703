//! The state of a run: what to undo, and where volumes are staged and published.
use crate::csi::world::{Csi, NODE};
use crate::world::code;
use orrery_proto::csi::v1::{
    CapacityRange, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest, Snapshot, Volume, VolumeCapability,
};
use parking_lot::Mutex;
use std::{collections::HashMap, fs, path::PathBuf};
use tonic::{Code, Status};

/// The size of volumes here, and the one they grow to.
pub const SIZE: i64 = 16 << 20;
pub const GROWN: i64 = 24 << 20;
/// How often a call is repeated that must not mind.
pub const REPEATED: usize = 10;
/// An id that looks like none of ours.
pub const UNKNOWN: &str = "fake-vol-id-7e3f";
/// The longest name that the interface allows.
pub const NAME_LENGTH_MAX: usize = 128;

#[derive(Clone)]
enum Made {
    Volume { id: String, node: Option<String> },
    Snapshot(String),
}

pub struct Suite {
    pub csi: Csi,
    pub access: VolumeCapability,
    made: Mutex<Vec<Made>>,
}

impl Suite {
    pub fn new(csi: Csi, access: VolumeCapability) -> Self {
        Self { csi, access, made: Mutex::default() }
    }

    pub fn staging(&self) -> String {
        self.csi.disk.folder.path().join("csi-staging").to_str().unwrap().to_owned()
    }

    fn targets(&self) -> PathBuf {
        self.csi.disk.folder.path().join("csi-mount")
    }

    pub fn target(&self) -> String {
        self.targets().join("target").to_str().unwrap().to_owned()
    }

    /// The folders must not be there from the check before.
    pub fn set_up(&self) {
        fs::create_dir(self.targets()).unwrap();
        fs::create_dir(self.staging()).unwrap();
    }

    /// The last one first. What was made or published several times is undone as often.
    pub async fn clean_up(&self) {
        let made = std::mem::take(&mut *self.made.lock());
        for one in made.into_iter().rev() {
            match one {
                Made::Volume { id, node } => self.undo_volume(&id, node).await,
                Made::Snapshot(id) => assert_eq!(self.delete_snapshot(&id).await, Code::Ok),
            }
        }
        fs::remove_dir(self.targets()).expect("nothing is left below the target path");
        fs::remove_dir(self.staging()).expect("nothing is left in the staging path");
        assert_eq!(self.csi.disk.devices().len(), 0, "no device is left");
    }

    async fn undo_volume(&self, id: &str, node: Option<String>) {
        let gone = |found| matches!(found, Code::Ok | Code::NotFound);
        let unpublished = self.node_unpublish(id, &self.target()).await;
        assert!(gone(code(unpublished)), "NodeUnpublishVolume {id}");
        let unstaged = self.unstage(id, &self.staging()).await;
        assert!(gone(code(unstaged)), "NodeUnstageVolume {id}");
        if let Some(node) = node {
            assert_eq!(code(self.unpublish(id, &node).await), Code::Ok, "also when it is gone");
        }
        assert_eq!(code(self.delete(id).await), Code::Ok, "DeleteVolume {id}");
    }

    pub fn request(&self, name: &str) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: name.to_owned(),
            volume_capabilities: vec![self.access.clone()],
            capacity_range: Some(CapacityRange { required_bytes: SIZE, limit_bytes: SIZE }),
            secrets: secret(),
            ..Default::default()
        }
    }

    pub async fn create_with(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let volume = self.csi.create_with(request).await?;
        self.made.lock().push(Made::Volume { id: volume.volume_id.clone(), node: None });
        Ok(volume)
    }

    pub async fn create(&self, name: &str) -> String {
        self.create_with(self.request(name)).await.unwrap().volume_id
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest { volume_id: id.to_owned(), secrets: secret() };
        self.csi.controller.clone().delete_volume(request).await.map(|_| ())
    }

    pub fn publish_request(&self, id: &str, node: &str) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            volume_capability: Some(self.access.clone()),
            secrets: secret(),
            ..Default::default()
        }
    }

    pub async fn publish(
        &self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<HashMap<String, String>, Status> {
        let (id, node) = (request.volume_id.clone(), Some(request.node_id.clone()));
        let reply = self.csi.controller.clone().controller_publish_volume(request).await?;
        self.made.lock().push(Made::Volume { id, node });
        Ok(reply.into_inner().publish_context)
    }

    pub async fn unpublish(&self, id: &str, node: &str) -> Result<(), Status> {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            secrets: secret(),
        };
        self.csi.controller.clone().controller_unpublish_volume(request).await.map(|_| ())
    }

    pub async fn snapshot(&self, name: &str, volume: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: volume.to_owned(),
            secrets: secret(),
            ..Default::default()
        };
        let reply = self.csi.controller.clone().create_snapshot(request).await?;
        let snapshot = reply.into_inner().snapshot.unwrap();
        self.made.lock().push(Made::Snapshot(snapshot.snapshot_id.clone()));
        Ok(snapshot)
    }

    pub async fn delete_snapshot(&self, id: &str) -> Code {
        let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), secrets: secret() };
        code(self.csi.controller.clone().delete_snapshot(request).await)
    }

    pub fn stage_request(&self, id: &str) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: self.staging(),
            volume_capability: Some(self.access.clone()),
            secrets: secret(),
            ..Default::default()
        }
    }

    pub fn node_publish_request(&self, id: &str) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: self.staging(),
            target_path: self.target(),
            volume_capability: Some(self.access.clone()),
            secrets: secret(),
            ..Default::default()
        }
    }

    /// Published to the node, staged and published there, each so many times.
    pub async fn bring(&self, id: &str, times: usize) {
        let mut context = HashMap::new();
        for _ in 0..times {
            context = self.publish(self.publish_request(id, NODE)).await.unwrap();
        }
        for _ in 0..times {
            let publish_context = context.clone();
            let request = NodeStageVolumeRequest { publish_context, ..self.stage_request(id) };
            self.csi.stage(request).await.unwrap();
        }
        for _ in 0..times {
            let publish_context = context.clone();
            let request =
                NodePublishVolumeRequest { publish_context, ..self.node_publish_request(id) };
            self.csi.node_publish(request).await.unwrap();
        }
    }

    pub async fn node_unpublish(&self, id: &str, target: &str) -> Result<(), Status> {
        let (volume_id, target_path) = (id.to_owned(), target.to_owned());
        let request = NodeUnpublishVolumeRequest { volume_id, target_path };
        self.csi.node.clone().node_unpublish_volume(request).await.map(|_| ())
    }

    pub async fn unstage(&self, id: &str, staging: &str) -> Result<(), Status> {
        let (volume_id, staging_target_path) = (id.to_owned(), staging.to_owned());
        let request = NodeUnstageVolumeRequest { volume_id, staging_target_path };
        self.csi.node.clone().node_unstage_volume(request).await.map(|_| ())
    }
}

/// Callers may send secrets to a driver that needs none.
pub fn secret() -> HashMap<String, String> {
    HashMap::from([("secretKey".to_owned(), "secretval".to_owned())])
}

#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, Status>, expect: Code) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), expect, "{}", status.message());
}
