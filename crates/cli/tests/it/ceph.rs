//! Volumes that are images of a real Ceph, through a storage controller with a qemu-storage-daemon.
#[path = "../../../storage-node/tests/it/ceph/cluster.rs"]
mod cluster;

use crate::harness::{Process, until};
use crate::storage::Site;
use cluster::{Cluster, succeed};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

impl Site {
    /// A daemon and a controller that makes NBD exports in it.
    fn qemu(&self, id: &str) -> (Process, Process) {
        let (monitor, exports) = (self.home.path("qmp.sock"), self.home.path("nbd.sock"));
        let chardev = format!("socket,path={},server=on,wait=off,id=monitor", monitor.display());
        let mut daemon = Command::new("qemu-storage-daemon");
        daemon.args(["--chardev", &chardev, "--monitor", "chardev=monitor"]);
        let daemon = Process(daemon.stdin(Stdio::null()).spawn().unwrap());
        until("the daemon listens", || UnixStream::connect(&monitor).ok().map(drop));
        let (monitor, exports) = (monitor.to_str().unwrap(), exports.to_str().unwrap());
        let more = ["--backend", "qemu", "--daemon-socket", monitor, "--nbd-socket", exports];
        (daemon, self.controller_with(id, &more))
    }
}

/// An image, and whose key it takes.
fn volume(cluster: &Cluster, name: &str, image: &str, secret: &str) -> String {
    let port = cluster.port;
    format!(
        "
---
apiVersion: storage.orrery.dev/v1
kind: Volume
metadata: {{name: {name}, project: shop}}
spec:
  placement: now
  ceph: {{monitors: ['127.0.0.1:{port}'], pool: rbd, image: {image}, user: orrery, secret: {secret}}}
"
    )
}

fn secret(name: &str, key: &str) -> String {
    format!(
        "
---
apiVersion: core.orrery.dev/v1
kind: Secret
metadata: {{name: {name}, project: shop}}
spec: {{stringData: {{key: '{key}'}}}}
"
    )
}

/// proves: VOL-07
#[test]
fn a_volume_is_an_image_of_a_real_cluster() {
    let cluster = Cluster::start();
    cluster.tool("rbd", &["create", "--size", "16", "disk"]);
    let key = cluster.user("orrery", &["mon", "profile rbd", "osd", "profile rbd"]);
    let other = succeed("ceph-authtool", &["--gen-print-key"]).trim().to_owned();
    let site = Site::start();
    let _running = site.qemu("host-1");
    let project = "apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata: {name: shop}\n";
    let volumes = [("good", "disk", "ceph"), ("none", "gone", "ceph"), ("kept", "disk", "other")];
    let volumes = volumes.map(|(name, image, secret)| volume(&cluster, name, image, secret));
    let secrets = secret("ceph", &key) + &secret("other", &other);
    let lost = volume(&cluster, "lost", "disk", "nothing");
    site.apply(&[project, &secrets, &volumes.concat(), &lost].concat());

    site.reads("volume/good", ".status.state", "Ready");
    site.reads("volume/good", ".status.size", "16Mi");
    site.reads("volume/none", ".status.reason", "NotFound");
    site.reads("volume/kept", ".status.reason", "AccessDenied");
    site.reads("volume/lost", ".status.reason", "SecretMissing");
    let said = site.run(&["get", "volumes", "-o", "wide"]);
    for part in
        ["no image gone: make it with rbd create rbd/gone", "client.orrery", "no secret nothing"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let whole = site.run(&["get", "volumes", "-o", "yaml"]);
    assert!(!whole.contains(&key) && !whole.contains(&other), "{whole}");

    let attachment = "
apiVersion: storage.orrery.dev/v1
kind: VolumeAttachment
metadata: {name: mine, project: shop}
spec: {volume: good, node: host-1}
";
    site.apply(attachment);
    site.reads("volumeattachment/mine", ".status.state", "Attached");
    let device = site.run(&["get", "va", "mine", "-o", "jsonpath={.status.device}"]);
    let write = ["-f", "raw", "-c", "write -P 0x5a 1M 4096", device.trim()];
    assert!(succeed("qemu-io", &write).contains("wrote 4096"));
    site.run(&["delete", "volumeattachment", "mine"]);
    let impact = site.run(&["get", "volume", "good", "-o", "jsonpath={.status.impact}"]);
    assert!(impact.contains("leaves the image rbd/disk in Ceph"), "{impact}");
    site.run(&["delete", "volume", "good", "none", "kept", "lost"]);

    let exported = site.home.path("exported");
    cluster.tool("rbd", &["export", "--no-progress", "disk", exported.to_str().unwrap()]);
    let bytes = std::fs::read(exported).unwrap();
    assert_eq!((bytes.len(), bytes[1 << 20]), (16 << 20, 0x5a), "Ceph has the data");
}

/// proves: VOL-07
#[test]
fn an_image_of_ceph_has_nothing_that_could_be_asked_for() {
    let site = Site::start();
    let spec =
        "{size: 1Gi, snapshots: [{name: a}], ceph: {monitors: ['mon 1'], pool: rbd, image: disk}}";
    let text = format!(
        "apiVersion: storage.orrery.dev/v1\nkind: Volume\nmetadata: {{name: a, project: system}}\n\
         spec: {spec}\n"
    );
    let file = site.home.write("manifest.yaml", &text);
    let apply = ["apply", "-f", file.to_str().unwrap(), "--server", &site.url];
    let said = site.home.orrery(&apply).bad(1);
    for part in ["spec.size", "spec.snapshots", "spec.ceph.monitors[0]", "used as it is"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}
