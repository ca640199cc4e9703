//! `oim.v0.Controller` on the loop backend.
use crate::world::{Disk, MIB, code, controller, node};
use orrery_proto::oim::v0::{CephParams, CheckMallocBDevRequest, map_volume_request::Params};
use orrery_storage_node::{
    Request,
    volume::{Labels, Media, Size, Source, VolumeName},
};
use std::{
    fs,
    os::unix::fs::{FileExt, FileTypeExt},
};
use tonic::Code;

fn name(text: &str) -> VolumeName {
    VolumeName::parse(text).unwrap()
}

fn size(bytes: i64) -> Size {
    Size::from_bytes(bytes).unwrap()
}

/// proves: VOL-05
/// proves: VOL-06
#[tokio::test]
async fn data_survives_unmapping_and_mapping_again() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    controller.provision("vol-1", 8 * MIB).await.unwrap();
    controller.provision("vol-1", 8 * MIB).await.unwrap();

    let reply = controller.map("vol-1").await.unwrap();
    assert_eq!(controller.map("vol-1").await.unwrap(), reply, "mapping again changes nothing");
    assert_eq!(disk.devices().len(), 1);
    let path = node(&reply);
    assert!(fs::metadata(&path).unwrap().file_type().is_block_device());
    let device = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    device.write_all_at(b"still here", 4 << 20).unwrap();
    device.sync_all().unwrap();
    drop(device);

    assert_eq!(
        code(controller.provision("vol-1", 0).await),
        Code::FailedPrecondition,
        "it is mapped"
    );
    controller.unmap("vol-1").await.unwrap();
    controller.unmap("vol-1").await.unwrap();
    assert_eq!(disk.devices(), [] as [std::path::PathBuf; 0]);

    let again = node(&controller.map("vol-1").await.unwrap());
    let mut found = [0; 10];
    fs::File::open(again).unwrap().read_exact_at(&mut found, 4 << 20).unwrap();
    assert_eq!(&found, b"still here");
    controller.unmap("vol-1").await.unwrap();
    controller.provision("vol-1", 0).await.unwrap();
    controller.provision("vol-1", 0).await.unwrap();
    assert_eq!(fs::read_dir(disk.memory()).unwrap().count(), 0, "nothing is left");
}

/// proves: VOL-06
#[tokio::test]
async fn existence_can_be_checked() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    let check = async |name: &str| {
        let request = CheckMallocBDevRequest { bdev_name: name.to_owned() };
        code(controller.client.clone().check_malloc_b_dev(request).await)
    };
    assert_eq!(check("vol-1").await, Code::NotFound);
    controller.provision("vol-1", 512).await.unwrap();
    assert_eq!(check("vol-1").await, Code::Ok);
    assert_eq!(check("vol/1").await, Code::InvalidArgument);
    fs::remove_file(disk.memory().join("vol-1.img")).unwrap();
    assert_eq!(check("vol-1").await, Code::NotFound, "its bytes are gone");
    controller.provision("vol-1", 0).await.unwrap();
    assert_eq!(check("vol-1").await, Code::NotFound);
}

/// proves: VOL-05
/// proves: VOL-06
#[tokio::test]
async fn bad_requests_have_their_codes_and_change_nothing() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    let cases: [(&str, i64, Code); 9] = [
        ("vol-1", 513, Code::InvalidArgument),
        ("vol-1", -512, Code::InvalidArgument),
        ("vol-1", i64::MIN, Code::InvalidArgument),
        ("vol-1", 1 << 60, Code::ResourceExhausted),
        ("", 512, Code::InvalidArgument),
        ("../vol", 512, Code::InvalidArgument),
        ("vol.1", 512, Code::InvalidArgument),
        ("vol/1", 0, Code::InvalidArgument),
        ("-vol", 512, Code::InvalidArgument),
    ];
    for (name, size, expect) in cases {
        assert_eq!(code(controller.provision(name, size).await), expect, "{name:?} {size}");
    }
    assert_eq!(code(controller.map("vol-1").await), Code::NotFound);
    assert_eq!(code(controller.map("vol/1").await), Code::InvalidArgument);
    assert_eq!(code(controller.map_with("vol-1", None).await), Code::InvalidArgument);
    assert_eq!(code(controller.unmap("vol-1").await), Code::Ok);
    assert_eq!(code(controller.unmap("vol..1").await), Code::InvalidArgument);
    assert_eq!(controller.volumes.list().await.unwrap(), []);
    assert_eq!(fs::read_dir(disk.memory()).unwrap().count(), 0);
}

/// proves: VOL-05
#[tokio::test]
async fn the_same_id_with_other_parameters_is_refused() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    controller.provision("vol-1", MIB).await.unwrap();
    assert_eq!(code(controller.provision("vol-1", 2 * MIB).await), Code::AlreadyExists);
    controller.map("vol-1").await.unwrap();
    let ceph = CephParams { monitors: "m:1".into(), pool: "rbd".into(), ..Default::default() };
    let other = controller.map_with("vol-1", Some(Params::Ceph(ceph.clone()))).await;
    assert_eq!(code(other), Code::AlreadyExists);
    let unknown = controller.map_with("vol-2", Some(Params::Ceph(ceph))).await;
    assert_eq!(code(unknown), Code::FailedPrecondition, "the loop backend has no Ceph client");
    controller.unmap("vol-1").await.unwrap();
}

/// proves: VOL-05
#[tokio::test]
async fn a_ninth_volume_on_eight_devices_is_refused_with_nothing_half_done() {
    let disk = Disk::new();
    let controller = controller(&disk, Some(8)).await;
    for index in 1..=9 {
        controller.provision(&format!("vol-{index}"), MIB).await.unwrap();
    }
    let first = futures::future::join_all((1..=8).map(|index| {
        let controller = &controller;
        async move { controller.map(&format!("vol-{index}")).await.unwrap() }
    }))
    .await;
    let mut nodes: Vec<_> = first.iter().map(node).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 8, "every volume has a device of its own");

    assert_eq!(code(controller.map("vol-9").await), Code::ResourceExhausted);
    assert_eq!(disk.devices().len(), 8);
    assert_eq!(controller.volumes.get(&name("vol-9")).await.unwrap().mapping, None);
    controller.unmap("vol-3").await.unwrap();
    controller.map("vol-9").await.unwrap();
    for index in 1..=9 {
        controller.unmap(&format!("vol-{index}")).await.unwrap();
    }
}

/// proves: VOL-05
#[tokio::test]
async fn a_mounted_volume_is_not_unmapped() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    controller.provision("vol-1", 16 * MIB).await.unwrap();
    let device = node(&controller.map("vol-1").await.unwrap());
    crate::world::run("mkfs.ext4", &["-q", device.to_str().unwrap()]);
    let place = disk.folder.path().join("mnt");
    fs::create_dir(&place).unwrap();
    crate::world::run("mount", &[device.to_str().unwrap(), place.to_str().unwrap()]);

    let status = controller.unmap("vol-1").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains(place.to_str().unwrap()), "{status}");
    crate::world::run("umount", &[place.to_str().unwrap()]);
    controller.unmap("vol-1").await.unwrap();
}

/// proves: VOL-05
#[tokio::test]
async fn a_restarted_controller_finds_everything_as_it_was() {
    let disk = Disk::new();
    let first = disk.volumes(None).await;
    let request = |media| Request {
        name: name(if media == Media::File { "on-disk" } else { "in-memory" }),
        size: size(MIB),
        media,
        source: None,
        labels: Labels::from([("owner".to_owned(), "test".to_owned())]),
    };
    first.create(request(Media::File)).await.unwrap();
    first.create(request(Media::Memory)).await.unwrap();
    let mapping =
        first.map(&name("on-disk"), orrery_storage_node::volume::Params::Provisioned).await;
    let before = first.list().await.unwrap();
    drop(first);

    let second = disk.volumes(None).await;
    assert_eq!(second.list().await.unwrap(), before);
    assert_eq!(second.get(&name("on-disk")).await.unwrap().mapping, mapping.ok());

    // After a restart of the machine there are no devices and nothing in memory.
    drop(second);
    for device in disk.devices() {
        crate::world::run("losetup", &["-d", device.to_str().unwrap()]);
    }
    fs::remove_file(disk.memory().join("in-memory.img")).unwrap();
    let third = disk.volumes(None).await;
    let left = third.list().await.unwrap();
    assert_eq!(left.len(), 1, "what was in memory is gone, and so is its entry");
    assert!(left[0].mapping.is_some(), "what was mapped is mapped again");
    third.unmap(&name("on-disk")).await.unwrap();
}

#[tokio::test]
async fn interrupted_operations_are_finished_or_undone_at_the_next_start() {
    let disk = Disk::new();
    let volumes = disk.volumes(None).await;
    let request = |name: &str| Request {
        name: VolumeName::parse(name).unwrap(),
        size: size(MIB),
        media: Media::File,
        source: None,
        labels: Labels::new(),
    };
    for name in ["creating", "growing", "deleting"] {
        volumes.create(request(name)).await.unwrap();
    }
    drop(volumes);
    let edit = |name: &str, phase: &str| {
        let path = disk.folder.path().join(format!("books/volumes/{name}.json"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("\"ready\"", phase)).unwrap();
    };
    edit("creating", "\"creating\"");
    edit("growing", "{\"growing\": 2097152}");
    edit("deleting", "\"deleting\"");
    fs::write(disk.images().join("other.img.partial"), "half").unwrap();

    let volumes = disk.volumes(None).await;
    let left = volumes.list().await.unwrap();
    let left: Vec<_> =
        left.iter().map(|volume| (volume.name.as_str(), volume.size.to_i64())).collect();
    assert_eq!(left, [("growing", 2 * MIB)]);
    assert_eq!(
        fs::read_dir(disk.images()).unwrap().count(),
        1,
        "only the image of one volume is left"
    );
}

#[tokio::test]
async fn volumes_grow_while_they_are_mapped_and_never_shrink() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    controller.provision("vol-1", MIB).await.unwrap();
    let device = node(&controller.map("vol-1").await.unwrap());
    let volume = controller.volumes.resize(&name("vol-1"), size(4 * MIB)).await.unwrap();
    assert_eq!(volume.size.to_i64(), 4 * MIB);
    let sectors =
        format!("/sys/class/block/{}/size", device.file_name().unwrap().to_str().unwrap());
    assert_eq!(fs::read_to_string(sectors).unwrap().trim(), "8192");
    controller.volumes.resize(&name("vol-1"), size(4 * MIB)).await.unwrap();
    let smaller = controller.volumes.resize(&name("vol-1"), size(MIB)).await;
    assert_eq!(smaller.unwrap_err().code(), Code::OutOfRange);
    controller.unmap("vol-1").await.unwrap();
}

#[tokio::test]
async fn snapshots_and_clones_keep_what_was_there() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    let volumes = &controller.volumes;
    controller.provision("vol-1", MIB).await.unwrap();
    let device = node(&controller.map("vol-1").await.unwrap());
    let device = fs::OpenOptions::new().read(true).write(true).open(device).unwrap();
    device.write_all_at(b"before", 0).unwrap();
    let snapshot =
        volumes.create_snapshot(&name("snap"), &name("vol-1"), Labels::new()).await.unwrap();
    device.write_all_at(b"after!", 0).unwrap();
    drop(device);
    let again =
        volumes.create_snapshot(&name("snap"), &name("vol-1"), Labels::new()).await.unwrap();
    assert_eq!(again, snapshot, "the same snapshot again is the one that exists");

    let from = |source| Request {
        name: name("copy"),
        size: size(2 * MIB),
        media: Media::File,
        source: Some(source),
        labels: Labels::new(),
    };
    let missing = volumes.create(from(Source::Snapshot(name("none")))).await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
    let small = Request { size: size(512), ..from(Source::Snapshot(name("snap"))) };
    assert_eq!(volumes.create(small).await.unwrap_err().code(), Code::OutOfRange);
    volumes.create(from(Source::Snapshot(name("snap")))).await.unwrap();
    let text = fs::read(disk.images().join("copy.img")).unwrap();
    assert_eq!((&text[..6], text.len()), (&b"before"[..], 2 << 20));
    let other = volumes.create(from(Source::Volume(name("vol-1")))).await;
    assert_eq!(other.unwrap_err().code(), Code::AlreadyExists, "another source is another volume");

    volumes.delete_snapshot(&name("snap")).await.unwrap();
    volumes.delete_snapshot(&name("snap")).await.unwrap();
    assert_eq!(volumes.list_snapshots().await.unwrap(), []);
    volumes
        .create(Request { name: name("clone"), ..from(Source::Volume(name("vol-1"))) })
        .await
        .unwrap();
    let text = fs::read(disk.images().join("clone.img")).unwrap();
    assert_eq!(&text[..6], b"after!", "a clone of a mapped volume has what was written last");
    controller.unmap("vol-1").await.unwrap();
}

#[tokio::test]
async fn labels_are_replaced_only_by_those_who_saw_them() {
    let disk = Disk::new();
    let volumes = disk.volumes(None).await;
    let labels = |text: &str| Labels::from([("k".to_owned(), text.to_owned())]);
    let request = Request {
        name: name("a"),
        size: size(512),
        media: Media::Memory,
        source: None,
        labels: labels("1"),
    };
    volumes.create(request).await.unwrap();
    let changed = volumes.set_labels(&name("a"), &labels("1"), labels("2")).await.unwrap();
    assert_eq!(changed.labels, labels("2"));
    let late = volumes.set_labels(&name("a"), &labels("1"), labels("3")).await;
    assert_eq!(late.unwrap_err().code(), Code::Aborted);
}
