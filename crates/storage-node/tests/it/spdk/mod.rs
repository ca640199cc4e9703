//! The SPDK backend against a server that answers as SPDK does.

mod fake;

use crate::world::code;
use fake::{Delivery, Fake};
use orrery_storage_node::{
    Clock, Request, Volumes,
    backend::spdk::{Slot, Spdk, SpdkConfig, Vhost},
    volume::{CephImage, Labels, Media, Params, Secret, Size, VolumeName},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::Code;

const DEVICE: &str = "/devices/pci0000:00/0000:00:15.0/";

struct World {
    folder: TempDir,
    fake: Fake,
    volumes: Arc<Volumes>,
}

fn scsi() -> Vhost {
    Vhost::Scsi { controller: "scsi0".into(), device: DEVICE.into() }
}

async fn world(vhost: Vhost, delivery: Delivery) -> World {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("spdk.sock");
    let fake = Fake::start(&socket, delivery);
    let backend = Arc::new(Spdk::new(SpdkConfig { socket, vhost }));
    let volumes =
        Volumes::open(&folder.path().join("books"), backend, Clock::system()).await.unwrap();
    World { folder, fake, volumes: Arc::new(volumes) }
}

fn name(text: &str) -> VolumeName {
    VolumeName::parse(text).unwrap()
}

impl World {
    async fn provision(&self, volume: &str) -> orrery_storage_node::Result<()> {
        let request = Request {
            name: name(volume),
            size: Size::from_bytes(1 << 20).unwrap(),
            media: Media::Memory,
            source: None,
            labels: Labels::new(),
        };
        self.volumes.create(request).await.map(|_| ())
    }

    async fn map(&self, volume: &str) -> orrery_storage_node::Result<(String, String)> {
        let mapping = self.volumes.map(&name(volume), Params::Provisioned).await?;
        Ok((mapping.device, mapping.scsi))
    }
}

fn image() -> CephImage {
    CephImage {
        user: "admin".into(),
        secret: Secret::new("hunter2"),
        monitors: "mon:6789".into(),
        pool: "rbd".into(),
        image: "disk".into(),
    }
}

fn ceph() -> Params {
    Params::Ceph(image())
}

/// proves: VOL-05
/// proves: VOL-06
#[tokio::test]
async fn a_volume_becomes_a_scsi_target_however_answers_are_cut() {
    for delivery in [Delivery::Whole, Delivery::ByteByByte, Delivery::WithNoise] {
        let world = world(scsi(), delivery).await;
        world.provision("a").await.unwrap();
        world.provision("a").await.unwrap();
        world.provision("b").await.unwrap();
        let first = world.map("a").await.unwrap();
        assert_eq!(first, (DEVICE.to_owned(), "0:0".to_owned()), "{delivery:?}");
        assert_eq!(world.map("a").await.unwrap(), first);
        assert_eq!(world.map("b").await.unwrap().1, "1:0");
        world.volumes.unmap(&name("a")).await.unwrap();
        world.volumes.unmap(&name("a")).await.unwrap();
        assert!(world.fake.has_bdev("a"), "unmapping keeps the data");
        world.volumes.delete(&name("a")).await.unwrap();
        world.volumes.delete(&name("a")).await.unwrap();
        assert!(!world.fake.has_bdev("a"));
        let missing = world.map("c").await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    }
}

/// proves: VOL-05
#[tokio::test]
async fn a_ninth_target_is_refused() {
    let world = world(scsi(), Delivery::Whole).await;
    for index in 0..9 {
        world.provision(&format!("v{index}")).await.unwrap();
    }
    for index in 0..8 {
        world.map(&format!("v{index}")).await.unwrap();
    }
    assert_eq!(world.map("v8").await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(world.volumes.get(&name("v8")).await.unwrap().mapping, None, "nothing half done");
    world.volumes.unmap(&name("v3")).await.unwrap();
    assert_eq!(world.map("v8").await.unwrap().1, "3:0");
}

/// proves: VOL-05
#[tokio::test]
async fn block_controllers_are_slots() {
    let slot = |number: u32| Slot {
        controller: format!("blk{number}"),
        device: format!("/devices/pci0000:00/0000:00:{number}.0/"),
    };
    let world = world(Vhost::Blk { slots: vec![slot(15), slot(16)] }, Delivery::Whole).await;
    for volume in ["a", "b", "c"] {
        world.provision(volume).await.unwrap();
    }
    assert_eq!(
        world.map("a").await.unwrap(),
        ("/devices/pci0000:00/0000:00:15.0/".into(), String::new())
    );
    assert_eq!(world.map("b").await.unwrap().0, slot(16).device);
    assert_eq!(world.map("c").await.unwrap_err().code(), Code::ResourceExhausted);
    world.volumes.unmap(&name("a")).await.unwrap();
    assert_eq!(world.map("c").await.unwrap().0, slot(15).device);
    assert_eq!(world.map("b").await.unwrap().0, slot(16).device);
}

/// proves: VOL-07
#[tokio::test]
async fn an_rbd_image_is_mapped_and_mapped_again_when_spdk_comes_back_empty() {
    let world = world(scsi(), Delivery::Whole).await;
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let following = world.volumes.clone();
    tokio::spawn(async move { following.follow_backend(stop).await });
    let mapping = world.volumes.map(&name("vol"), ceph()).await.unwrap();
    assert_eq!(mapping.scsi, "0:0");
    let config = world.fake.last("bdev_rbd_create").unwrap();
    assert_eq!(config["config"], json!({ "mon_host": "mon:6789", "key": "hunter2" }));
    assert_eq!((&config["pool_name"], &config["rbd_name"]), (&json!("rbd"), &json!("disk")));

    world.provision("memory").await.unwrap();
    world.fake.restart();
    let again = async {
        while !(world.fake.has_target("vol")
            && world.volumes.list().await.is_ok_and(|all| all.is_empty()))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again).await.expect("the image is mapped again");
    world.volumes.unmap(&name("vol")).await.unwrap();
    assert!(!world.fake.has_bdev("vol"), "the device of an image goes with its mapping");
}

/// An error of SPDK is not read as "there is none", and a daemon that is gone is not an error of the
/// request.
/// proves: VOL-05
#[tokio::test]
async fn errors_keep_their_meaning() {
    let world = world(scsi(), Delivery::Whole).await;
    world.fake.fail_next("bdev_malloc_create", -12, "Cannot allocate memory");
    assert_eq!(world.provision("a").await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(world.volumes.list().await.unwrap(), [], "nothing half done");
    world.fake.fail_next("bdev_get_bdevs", -5, "Input/output error");
    assert_eq!(world.provision("a").await.unwrap_err().code(), Code::Internal);
    world.provision("a").await.unwrap();
    world.fake.fail_next("vhost_scsi_controller_add_target", -32602, "File exists");
    assert_eq!(world.map("a").await.unwrap_err().code(), Code::AlreadyExists);
    world.map("a").await.unwrap();
    let on_disk = Request {
        name: name("disk"),
        size: Size::from_bytes(512).unwrap(),
        media: Media::File,
        source: None,
        labels: Labels::new(),
    };
    assert_eq!(world.volumes.create(on_disk).await.unwrap_err().code(), Code::FailedPrecondition);

    world.fake.stop();
    std::fs::remove_file(world.folder.path().join("spdk.sock")).unwrap();
    assert_eq!(world.provision("b").await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(code(Err::<(), _>(world.map("a").await.unwrap_err().into())), Code::Unavailable);
}

/// proves: VOL-07
#[tokio::test]
async fn an_image_is_looked_at_and_what_is_wrong_with_it_is_said() {
    let world = world(scsi(), Delivery::Whole).await;
    assert_eq!(world.volumes.look_at(&image()).await.unwrap().bytes(), 1 << 30);
    for (number, text, expect) in [
        (-2, "No such file or directory", Code::NotFound),
        (-13, "Permission denied", Code::PermissionDenied),
        (-1, "Operation not permitted", Code::PermissionDenied),
    ] {
        world.fake.fail_next("bdev_rbd_create", number, text);
        let error = world.volumes.look_at(&image()).await.unwrap_err();
        assert_eq!(error.code(), expect, "{error}");
        let said = error.to_string();
        assert!(said.contains("rbd/disk") && !said.contains("hunter2"), "{said}");
    }
    assert!(!world.fake.has_bdev("orrery-look"), "nothing is left behind");
}

/// It is restarted by the very call that it was asked for, with everything that it had.
///
/// proves: VOL-05
#[tokio::test]
async fn a_daemon_that_dies_in_the_middle_leaves_nothing_half_done() {
    for method in ["bdev_rbd_create", "vhost_get_controllers", "vhost_scsi_controller_add_target"] {
        let world = world(scsi(), Delivery::Whole).await;
        world.fake.die_at(method);
        let first = world.volumes.map(&name("vol"), ceph()).await;
        if let Err(error) = &first {
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let mapping = world.volumes.map(&name("vol"), ceph()).await.unwrap();
        assert_eq!(mapping.scsi, "0:0", "{method}");
        assert!(world.fake.has_target("vol"), "{method}");
        world.volumes.unmap(&name("vol")).await.unwrap();
        assert!(!world.fake.has_bdev("vol"), "{method}");
    }
}
