//! A real Ceph for a test: one monitor and one OSD whose data is in memory, on loopback.
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// A monitor and an OSD, ended with the test.
pub struct Cluster {
    folder: TempDir,
    pub port: u16,
    daemons: Vec<Child>,
}

impl Cluster {
    pub fn start() -> Self {
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

    pub fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let configuration = self.text("ceph.conf");
        succeed(program, &[&["-c", configuration.as_str()], arguments].concat())
    }

    /// Waits until the monitor answers.
    pub fn ceph(&self, arguments: &[&str]) -> String {
        self.tool("ceph", &[&["--connect-timeout", "60"], arguments].concat())
    }

    /// A user with these rights; returns its key.
    pub fn user(&self, name: &str, rights: &[&str]) -> String {
        let name = format!("client.{name}");
        let asked = [&["auth", "get-or-create-key", &name], rights].concat();
        self.ceph(&asked).trim().to_owned()
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
pub fn succeed(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}
