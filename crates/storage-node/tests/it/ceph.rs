//! An RBD image of a real Ceph through the qemu backend.
mod cluster;

use crate::qemu::{Daemon, name, volumes};
use crate::world::run;
use cluster::{Cluster, succeed};
use orrery_storage_node::{
    backend::qemu::Export,
    volume::{CephImage, Params, Secret},
};
use std::{fs, time::Duration};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::Code;

fn image(cluster: &Cluster, user: &str, secret: &str) -> CephImage {
    CephImage {
        user: user.to_owned(),
        secret: Secret::new(secret),
        monitors: format!("127.0.0.1:{}", cluster.port),
        pool: "rbd".to_owned(),
        image: "disk".to_owned(),
    }
}

fn io(uri: &str, command: &str) -> String {
    run("qemu-io", &["-f", "raw", "-c", command, uri])
}

/// proves: VOL-07
#[tokio::test]
async fn an_image_of_a_real_cluster_is_mapped_written_and_mapped_again() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    cluster.tool("rbd", &["create", "--size", "16", "disk"]);
    let key = cluster.user("orrery", &["mon", "profile rbd", "osd", "profile rbd"]);
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path()).await;
    let volumes =
        volumes(folder.path(), Export::Nbd { socket: folder.path().join("nbd.sock") }).await;
    let vol = name("vol");
    let map = async |image: CephImage| volumes.map(&vol, Params::Ceph(image)).await;

    let wrong = map(image(&cluster, "orrery", "hunter2")).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    let other = succeed("ceph-authtool", &["--gen-print-key"]).trim().to_owned();
    let refused = map(image(&cluster, "orrery", &other)).await.unwrap_err();
    for (said, key) in [(wrong.to_string(), "hunter2"), (refused.to_string(), other.as_str())] {
        assert!(!said.contains(key), "a key is in a message: {said}");
    }

    let mapping = map(image(&cluster, "orrery", &key)).await.unwrap();
    assert_eq!(map(image(&cluster, "orrery", &key)).await.unwrap(), mapping);
    let elsewhere = CephImage { image: "another".into(), ..image(&cluster, "orrery", &key) };
    assert_eq!(map(elsewhere).await.unwrap_err().code(), Code::AlreadyExists);
    assert!(io(&mapping.device, "write -P 0x5a 1M 4096").contains("wrote 4096"));

    // A new daemon is told everything again, the key included.
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let following = volumes.clone();
    tokio::spawn(async move { following.follow_backend(stop).await });
    drop(daemon);
    let _daemon = Daemon::start(folder.path()).await;
    let back = async {
        loop {
            let uri = mapping.device.clone();
            let read = tokio::task::spawn_blocking(move || io(&uri, "read -P 0x5a 1M 4096"));
            let read = read.await.unwrap();
            if read.contains("read 4096") && !read.contains("failed") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back).await.expect("it is mapped again");

    volumes.unmap(&vol).await.unwrap();
    volumes.unmap(&vol).await.unwrap();
    let exported = folder.path().join("exported");
    cluster.tool("rbd", &["export", "--no-progress", "disk", exported.to_str().unwrap()]);
    let bytes = fs::read(exported).unwrap();
    assert_eq!((bytes.len(), bytes[1 << 20], bytes[0]), (16 << 20, 0x5a, 0), "Ceph has the data");
}

/// proves: VOL-07
#[tokio::test]
async fn what_is_wrong_with_an_image_is_said_without_mapping_it() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    cluster.tool("rbd", &["create", "--size", "16", "disk"]);
    let key = cluster.user("orrery", &["mon", "profile rbd", "osd", "profile rbd"]);
    let weak = cluster.user("weak", &["mon", "profile rbd"]);
    let other = succeed("ceph-authtool", &["--gen-print-key"]).trim().to_owned();
    let folder = TempDir::new().unwrap();
    let _daemon = Daemon::start(folder.path()).await;
    let volumes =
        volumes(folder.path(), Export::Nbd { socket: folder.path().join("nbd.sock") }).await;

    let good = image(&cluster, "orrery", &key);
    assert_eq!(volumes.look_at(&good).await.unwrap().bytes(), 16 << 20);
    let no_image = CephImage { image: "nothing".into(), ..good.clone() };
    let no_pool = CephImage { pool: "nowhere".into(), ..good.clone() };
    let nobody = CephImage { monitors: "127.0.0.1:1".into(), ..good.clone() };
    for (wrong, expect, said) in [
        (no_image, Code::NotFound, ["rbd", "nothing"]),
        (no_pool, Code::NotFound, ["nowhere", "disk"]),
        (image(&cluster, "orrery", &other), Code::PermissionDenied, ["client.orrery", "key"]),
        (image(&cluster, "weak", &weak), Code::PermissionDenied, ["client.weak", "rights"]),
        (nobody, Code::DeadlineExceeded, ["127.0.0.1:1", "client.orrery"]),
    ] {
        let looked = volumes.look_at(&wrong).await.unwrap_err();
        assert_eq!(looked.code(), expect, "{looked}");
        let text = looked.to_string();
        assert!(said.iter().all(|part| text.contains(part)), "{text}");
        let key = wrong.secret.reveal().to_owned();
        assert!(!text.contains(&key), "a key is in a message: {text}");
        if expect != Code::DeadlineExceeded {
            let mapped = volumes.map(&name("vol"), Params::Ceph(wrong)).await.unwrap_err();
            assert_eq!(mapped.to_string(), text, "mapping it says the same");
        }
    }
    // Nothing was left behind, and an image that is mapped can be looked at.
    volumes.map(&name("vol"), Params::Ceph(good.clone())).await.unwrap();
    assert_eq!(volumes.look_at(&good).await.unwrap().bytes(), 16 << 20);
    volumes.unmap(&name("vol")).await.unwrap();
}
