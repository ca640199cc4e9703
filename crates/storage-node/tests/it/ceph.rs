//! An RBD image of a real Ceph through the qemu backend.
mod cluster;

use crate::qemu::{Daemon, name, request, volumes};
use crate::world::run;
use cluster::{Cluster, succeed};
use orrery_storage_node::{
    Volumes,
    backend::qemu::Export,
    volume::{CephImage, Params, Secret, VolumeName},
};
use std::{fs, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// As long as a user whom Ceph does not know is tried.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Reads a volume again and again while something else is under way, and maps it anew for that.
/// Returns how long the slowest of these rounds took.
async fn rounds_while(
    volumes: &Arc<Volumes>,
    mine: &VolumeName,
    busy: impl Fn() -> bool,
) -> Duration {
    let mut slowest = Duration::ZERO;
    while busy() {
        let begin = Instant::now();
        volumes.unmap(mine).await.unwrap();
        let uri = volumes.map(mine, Params::Provisioned).await.unwrap().device;
        let read = tokio::task::spawn_blocking(move || io(&uri, "read 0 4096")).await.unwrap();
        assert!(read.contains("read 4096"), "{read}");
        slowest = slowest.max(begin.elapsed());
    }
    slowest
}

/// While Ceph is silent to a user whom it does not know, the daemon serves everybody else.
///
/// proves: VOL-06
/// proves: VOL-07
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_image_costs_other_volumes_nothing() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    cluster.tool("rbd", &["create", "--size", "16", "disk"]);
    cluster.user("orrery", &["mon", "profile rbd", "osd", "profile rbd"]);
    let other = succeed("ceph-authtool", &["--gen-print-key"]).trim().to_owned();
    let folder = TempDir::new().unwrap();
    let _daemon = Daemon::start(folder.path()).await;
    let export = Export::Nbd { socket: folder.path().join("nbd.sock") };
    let volumes = volumes(folder.path(), export).await;
    let (mine, theirs) = (name("mine"), name("theirs"));
    volumes.create(request("mine", 1 << 20)).await.unwrap();

    let refused = image(&cluster, "orrery", &other);
    let (one, two, again) = (volumes.clone(), volumes.clone(), Params::Ceph(refused.clone()));
    let refusals = [
        tokio::spawn(async move { one.look_at(&refused).await.map(|_| ()) }),
        tokio::spawn(async move { two.map(&theirs, again).await.map(|_| ()) }),
    ];
    let busy = || !refusals.iter().all(tokio::task::JoinHandle::is_finished);
    let slowest = rounds_while(&volumes, &mine, busy).await;
    for refusal in refusals {
        assert_eq!(refusal.await.unwrap().unwrap_err().code(), Code::PermissionDenied);
    }
    assert!(slowest < PATIENCE / 2, "{slowest:?}");
}

/// The same with a cluster whose disks stop to answer after an image of it was mapped.
///
/// proves: VOL-06
/// proves: VOL-07
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_falls_silent_costs_other_volumes_nothing() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    cluster.tool("rbd", &["create", "--size", "16", "disk"]);
    let key = cluster.user("orrery", &["mon", "profile rbd", "osd", "profile rbd"]);
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path()).await;
    let export = Export::Nbd { socket: folder.path().join("nbd.sock") };
    let volumes = volumes(folder.path(), export).await;
    // By their names, theirs comes first.
    let (mine, theirs) = (name("mine"), name("another"));
    volumes.create(request("mine", 1 << 20)).await.unwrap();
    let good = image(&cluster, "orrery", &key);
    volumes.map(&theirs, Params::Ceph(good.clone())).await.unwrap();

    cluster.ceph(&["osd", "pause"]);
    let (one, two, three) = (volumes.clone(), volumes.clone(), theirs.clone());
    let look = good.clone();
    let silences = [
        tokio::spawn(async move { one.look_at(&look).await.map(|_| ()) }),
        tokio::spawn(async move { two.unmap(&three).await }),
    ];
    let busy = || !silences.iter().all(tokio::task::JoinHandle::is_finished);
    let slowest = rounds_while(&volumes, &mine, busy).await;
    for silence in silences {
        let silence = silence.await.unwrap().unwrap_err();
        assert_eq!(silence.code(), Code::DeadlineExceeded, "{silence}");
        assert!(silence.to_string().contains("ceph health"), "{silence}");
    }
    assert!(slowest < PATIENCE / 2, "{slowest:?}");

    // A new daemon is told of what it can have without waiting for the rest.
    drop(daemon);
    let _daemon = Daemon::start(folder.path()).await;
    let recovering = volumes.clone();
    let recovered = tokio::spawn(async move { recovering.recover().await });
    let back = async { while volumes.get(&mine).await.unwrap().mapping.is_none() {} };
    tokio::time::timeout(PATIENCE / 2, back).await.expect("it is mapped again");
    assert!(!recovered.is_finished(), "the other image is still tried");

    cluster.ceph(&["osd", "unpause"]);
    recovered.await.unwrap().unwrap();
    volumes.map(&theirs, Params::Ceph(good)).await.unwrap();
    volumes.unmap(&theirs).await.unwrap();
    volumes.unmap(&theirs).await.unwrap();
}
