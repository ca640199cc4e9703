//! Secrets stay out of logs, at any level.
use crate::world::{Disk, controller};
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

/// proves: VOL-07
#[tokio::test]
async fn a_ceph_secret_is_in_no_log_line_and_no_answer() {
    const SECRET: &str = "AQDx-not-for-logs==";
    let captured = Captured::default();
    let writer = captured.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
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

    let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("TRACE") && text.contains("mon:6789"), "everything is captured");
    // A tracing transport prints bytes of frames as text, so the wire itself must not be traced with
    // its content either.
    assert!(!text.contains(SECRET), "the secret is in the log");
    assert!(!format!("{status:?}").contains(SECRET), "the secret is in the answer");
}
