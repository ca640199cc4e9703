//! The processes as the command line starts them.
use crate::{
    csi::world::{SIZE, mount, new_volume},
    world::Disk,
};
use clap::Parser;
use orrery_proto::csi::v1::{
    NodeStageVolumeRequest, NodeUnstageVolumeRequest, controller_client::ControllerClient,
    node_client::NodeClient,
};
use orrery_storage_node::{
    Error,
    run::{ControllerOptions, CsiOptions, Tls, run_controller, run_csi},
    service::Endpoint,
};
use orrery_volumes::{ControllerDirectory, MemoryDirectory, ServeConfig, serve};
use std::{fs, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
enum Command {
    StorageController(ControllerOptions),
    Csi(CsiOptions),
}

fn parse(line: &str) -> Command {
    Command::try_parse_from(line.split_whitespace()).unwrap()
}

fn controller(line: &str) -> ControllerOptions {
    let Command::StorageController(options) = parse(line) else { panic!("{line}") };
    options
}

fn csi(line: &str) -> CsiOptions {
    let Command::Csi(options) = parse(line) else { panic!("{line}") };
    options
}

/// A controller that registers itself, and a driver that finds it, each from its command line.
/// proves: VOL-08
#[tokio::test]
async fn controller_and_driver_meet_at_the_registry() {
    let disk = Disk::new();
    let folder = disk.folder.path().display();
    let stop = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = listener.local_addr().unwrap();
    let directory = Arc::new(MemoryDirectory::default());
    let serving =
        tokio::spawn(serve(listener, ServeConfig::default(), directory.clone(), stop.clone()));
    let line = format!(
        "x storage-controller --id host-1 --registry {registry} --state {folder} --memory {}",
        disk.memory().display()
    );
    let controlling = tokio::spawn(run_controller(controller(&line), Tls::default(), stop.clone()));
    let line =
        format!("x csi --endpoint unix://{folder}/csi.sock --node-id host-1 --registry {registry}");
    let driving = tokio::spawn(run_csi(csi(&line), Tls::default(), stop.clone()));
    let ready = async {
        while directory.list().await.unwrap().is_empty()
            || !disk.folder.path().join("csi.sock").exists()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ready).await.expect("both are up");

    let channel = Endpoint::new(&format!("unix:{folder}/csi.sock"), None).channel();
    let created =
        ControllerClient::new(channel.clone()).create_volume(new_volume("a")).await.unwrap();
    let volume = created.into_inner().volume.unwrap();
    assert_eq!(volume.capacity_bytes, SIZE);
    let staging = disk.folder.path().join("staging");
    let mut node = NodeClient::new(channel);
    let request = NodeStageVolumeRequest {
        volume_id: volume.volume_id.clone(),
        staging_target_path: staging.to_str().unwrap().into(),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    node.node_stage_volume(request).await.unwrap();
    assert!(staging.join("lost+found").exists());
    let request = NodeUnstageVolumeRequest {
        volume_id: volume.volume_id,
        staging_target_path: staging.to_str().unwrap().into(),
    };
    node.node_unstage_volume(request).await.unwrap();
    drop(node);
    stop.cancel();
    let ended =
        async { (serving.await.unwrap(), controlling.await.unwrap(), driving.await.unwrap()) };
    let ((), controlled, driven) =
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("they stop");
    assert!(controlled.is_ok() && driven.is_ok());
}

#[tokio::test]
async fn options_that_cannot_work_are_refused() {
    let disk = Disk::new();
    let state = format!("--state {0} --memory {0}/m", disk.folder.path().display());
    let run = async |rest: &str| {
        let line = format!("x storage-controller --id a {state} {rest}");
        let stop = CancellationToken::new();
        run_controller(controller(&line), Tls::default(), stop).await.unwrap_err()
    };
    for rest in [
        "--listen 0.0.0.0:0",
        "--listen unix:relative",
        "--backend qemu",
        "--backend qemu --daemon-socket /none",
        "--backend spdk --daemon-socket /none",
        "--backend spdk --daemon-socket /none --slot nonsense",
    ] {
        let error = run(rest).await;
        assert!(matches!(error, Error::Invalid(_)), "{rest}: {error:?}");
    }
    let line = format!("x storage-controller --id a/b {state}");
    let wrong = run_controller(controller(&line), Tls::default(), CancellationToken::new()).await;
    assert!(wrong.unwrap_err().to_string().contains("letters, digits"));
    let socket = disk.folder.path().join("csi.sock");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let drive = async |endpoint: &str| {
        let line = format!("x csi --endpoint {endpoint} --node-id a {state}");
        run_csi(csi(&line), Tls::default(), CancellationToken::new()).await.unwrap_err()
    };
    assert!(matches!(drive(&format!("unix://{}", socket.display())).await, Error::InUse(_)));
    assert!(matches!(drive("127.0.0.1:0").await, Error::Invalid(_)));
    assert!(fs::metadata(&socket).is_ok(), "somebody else's socket is left alone");
}

/// Two processes on one folder would undo each other's work, so the second does not start.
#[tokio::test]
async fn a_folder_has_one_controller_at_a_time() {
    let disk = Disk::new();
    let folder = disk.folder.path().display();
    let state = format!("--state {folder} --memory {}", disk.memory().display());
    let stop = CancellationToken::new();
    let line = format!("x storage-controller --id a --registry 127.0.0.1:1 {state}");
    let first = tokio::spawn(run_controller(controller(&line), Tls::default(), stop.clone()));
    let taken = async {
        while !disk.folder.path().join("lock").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), taken).await.expect("the first one starts");
    let second = run_controller(controller(&line), Tls::default(), stop.clone()).await;
    let said = second.unwrap_err();
    assert!(matches!(said, Error::InUse(_)) && said.to_string().contains("--state"), "{said}");
    let line = format!("x csi --endpoint unix://{folder}/csi.sock --node-id a {state}");
    let driver = run_csi(csi(&line), Tls::default(), stop.clone()).await;
    assert!(matches!(driver.unwrap_err(), Error::InUse(_)));
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), first).await.expect("it stops").unwrap().unwrap();
}
