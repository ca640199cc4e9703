//! An RBD image of a real Ceph through the qemu backend: one monitor and one OSD whose data is in
//! memory, on loopback, started and ended by the test.
use crate::qemu::{Daemon, name, volumes};
use crate::world::run;
use orrery_storage_node::{
    backend::qemu::Export,
    volume::{CephImage, Params, Secret},
};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// A monitor and an OSD, ended with the test.
struct Cluster {
    folder: TempDir,
    port: u16,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("orrery-ceph").tempdir_in("/dev/shm").unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut cluster = Self { folder, port: free, daemons: Vec::new() };
        fs::create_dir(cluster.path("mon")).unwrap();
        fs::create_dir(cluster.path("osd")).unwrap();
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
        cluster.start_monitor(id.trim());
        cluster.start_osd();
        cluster.ceph(&["osd", "pool", "create", "rbd", "8"]);
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn start_monitor(&mut self, id: &str) {
        fs::write(self.path("ceph.conf"), configuration(id, self.folder.path(), self.port))
            .unwrap();
        let (keys, admin, map) =
            (self.text("mon.keyring"), self.text("admin.keyring"), self.text("monmap"));
        let all = ["--cap", "mon", "allow *", "--cap", "osd", "allow *"];
        let make = |file: &str, user: &str| {
            let create = ["--create-keyring", file, "--gen-key", "-n", user];
            succeed("ceph-authtool", &[&create[..], &all].concat());
        };
        make(&keys, "mon.");
        make(&admin, "client.admin");
        succeed("ceph-authtool", &[&keys, "--import-keyring", &admin]);
        let address = format!("[v1:127.0.0.1:{}]", self.port);
        succeed("monmaptool", &["--create", "--fsid", id, "--addv", "a", &address, &map]);
        let made = ["--mkfs", "-i", "a", "--monmap", &map, "--keyring", &keys];
        self.tool("ceph-mon", &made);
        self.spawn("ceph-mon", &["-i", "a"]);
    }

    fn start_osd(&mut self) {
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
        let key = succeed("ceph-authtool", &["--gen-print-key"]);
        let secrets = format!("{{\"cephx_secret\": \"{}\"}}", key.trim());
        fs::write(self.path("osd.json"), secrets).unwrap();
        self.ceph(&["osd", "new", id.trim(), "-i", &self.text("osd.json")]);
        let keys = self.text("osd/keyring");
        let add = ["--create-keyring", &keys, "-n", "osd.0", "--add-key", key.trim()];
        succeed("ceph-authtool", &add);
        let made = ["-i", "0", "--mkfs", "--osd-uuid", id.trim(), "--keyring", &keys];
        self.tool("ceph-osd", &made);
        self.spawn("ceph-osd", &["-i", "0", "--keyring", &keys]);
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let configuration = self.text("ceph.conf");
        succeed(program, &[&["-c", configuration.as_str()], arguments].concat())
    }

    /// Waits until the monitor answers.
    fn ceph(&self, arguments: &[&str]) -> String {
        self.tool("ceph", &[&["--connect-timeout", "60"], arguments].concat())
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) {
        let child = Command::new(program)
            .arg("-c")
            .arg(self.path("ceph.conf"))
            .args(arguments)
            .arg("--foreground")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(child.unwrap());
    }

    fn image(&self, user: &str, secret: &str) -> CephImage {
        CephImage {
            user: user.to_owned(),
            secret: Secret::new(secret),
            monitors: format!("127.0.0.1:{}", self.port),
            pool: "rbd".to_owned(),
            image: "disk".to_owned(),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            _ = daemon.kill();
            _ = daemon.wait();
        }
    }
}

/// Everything in one folder; one copy of each object is enough.
fn configuration(id: &str, folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "[global]
fsid = {id}
mon_host = v1:127.0.0.1:{port}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr2 = false
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = {folder}/admin.keyring
run_dir = {folder}
log_file = {folder}/$name.log
admin_socket = {folder}/$name.asok
pid_file = {folder}/$name.pid
mon_data = {folder}/mon
mon_data_avail_crit = 0
mon_data_avail_warn = 0
mon_allow_pool_size_one = true
osd_data = {folder}/osd
osd_objectstore = memstore
memstore_device_bytes = 268435456
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
"
    )
}

/// What a program that must succeed prints.
#[track_caller]
fn succeed(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}

fn io(uri: &str, command: &str) -> String {
    run("qemu-io", &["-f", "raw", "-c", command, uri])
}

/// proves: VOL-07
#[tokio::test]
async fn an_image_of_a_real_cluster_is_mapped_written_and_mapped_again() {
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    cluster.tool("rbd", &["create", "--size", "16", "disk"]);
    let grant =
        ["auth", "get-or-create-key", "client.orrery", "mon", "profile rbd", "osd", "profile rbd"];
    let key = cluster.ceph(&grant).trim().to_owned();
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path()).await;
    let volumes =
        volumes(folder.path(), Export::Nbd { socket: folder.path().join("nbd.sock") }).await;
    let vol = name("vol");
    let map = async |image: CephImage| volumes.map(&vol, Params::Ceph(image)).await;

    let wrong = map(cluster.image("orrery", "hunter2")).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    let other = succeed("ceph-authtool", &["--gen-print-key"]).trim().to_owned();
    let refused = map(cluster.image("orrery", &other)).await.unwrap_err();
    for (said, key) in [(wrong.to_string(), "hunter2"), (refused.to_string(), other.as_str())] {
        assert!(!said.contains(key), "a key is in a message: {said}");
    }

    let mapping = map(cluster.image("orrery", &key)).await.unwrap();
    assert_eq!(map(cluster.image("orrery", &key)).await.unwrap(), mapping);
    let elsewhere = CephImage { image: "another".into(), ..cluster.image("orrery", &key) };
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
