//! Secrets stay out of logs, at any level.
use crate::csi::world::{csi, new_volume};
use crate::world::{Disk, controller};
use orrery_proto::csi::v1::{
    ControllerPublishVolumeRequest, CreateVolumeRequest, NodeStageVolumeRequest,
};
use orrery_proto::oim::v0::{CephParams, map_volume_request::Params};
use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    /// Takes whatever is logged from now on, at any level.
    fn everything() -> Self {
        let captured = Self::default();
        let writer = captured.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .init();
        captured
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// proves: VOL-07
#[tokio::test]
async fn a_ceph_secret_is_in_no_log_line_and_no_answer() {
    const SECRET: &str = "AQDx-not-for-logs==";
    let captured = Captured::everything();
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    let ceph = CephParams {
        secret: SECRET.into(),
        monitors: "mon:6789".into(),
        pool: "rbd".into(),
        ..Default::default()
    };
    let status = controller.map_with("vol-1", Some(Params::Ceph(ceph.clone()))).await.unwrap_err();
    tracing::trace!(?ceph, %status, "what a careless line would print");
    controller.provision("vol-1", 512).await.unwrap();

    let text = captured.text();
    assert!(text.contains("TRACE") && text.contains("mon:6789"), "everything is captured");
    // A tracing transport prints bytes of frames as text, so the wire itself must not be traced with
    // its content either.
    assert!(!text.contains(SECRET), "the secret is in the log");
    assert!(!format!("{status:?}").contains(SECRET), "the secret is in the answer");
}

/// Callers may give secrets with every call of CSI; a driver that needs none does not show them either.
///
/// proves: VOL-08
#[tokio::test]
async fn secrets_of_csi_calls_are_in_no_log_line_and_no_answer() {
    const SECRET: &str = "hunter2-not-for-logs";
    let captured = Captured::everything();
    let csi = csi().await;
    let secrets = || [("password".to_owned(), SECRET.to_owned())].into();
    let create = CreateVolumeRequest { secrets: secrets(), ..new_volume("a") };
    tracing::trace!(?create, "what a careless line would print");
    let id = csi.create_with(create).await.unwrap().volume_id;
    let publish = ControllerPublishVolumeRequest { secrets: secrets(), ..csi.publish_request(&id) };
    csi.controller.clone().controller_publish_volume(publish).await.unwrap();
    let stage = NodeStageVolumeRequest { secrets: secrets(), ..csi.stage_request(&id) };
    tracing::trace!(?stage, "what a careless line would print");
    csi.stage(stage.clone()).await.unwrap();
    let wrong = NodeStageVolumeRequest { volume_capability: None, ..stage };
    let status = csi.stage(wrong).await.unwrap_err();
    csi.unstage(&id).await.unwrap();
    let text = captured.text();
    assert!(text.contains("TRACE") && text.contains("CreateVolume"), "everything is captured");
    assert!(!text.contains(SECRET), "the secret is in the log");
    assert!(!format!("{status:?}").contains(SECRET), "the secret is in the answer");
}
