//! A controller of its own for each test, which leaves no device and no mount behind.
use orrery_proto::oim::v0::{
    MallocParams, MapVolumeReply, MapVolumeRequest, ProvisionMallocBDevRequest, UnmapVolumeRequest,
    controller_client::ControllerClient, map_volume_request::Params,
};
use orrery_storage_node::{
    Clock, Volumes,
    backend::loopback::{LoopConfig, Loopback},
    service::{self, Listener},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Code, Status, transport::Channel};

pub const MIB: i64 = 1 << 20;

/// The folders of a controller. Whatever is still attached or mounted when it goes, is cleaned up.
pub struct Disk {
    pub folder: TempDir,
    memory: TempDir,
}

impl Disk {
    pub fn new() -> Self {
        let memory = tempfile::Builder::new().prefix("orrery-test").tempdir_in("/dev/shm").unwrap();
        Self { folder: TempDir::new().unwrap(), memory }
    }

    pub fn images(&self) -> PathBuf {
        self.folder.path().join("images")
    }

    pub fn memory(&self) -> &Path {
        self.memory.path()
    }

    pub async fn volumes(&self, devices_max: Option<usize>) -> Volumes {
        let config = LoopConfig {
            images: self.images(),
            memory: self.memory.path().to_owned(),
            devices_max,
        };
        let backend = Arc::new(Loopback::open(&config).unwrap());
        let books = self.folder.path().join("books");
        Volumes::open(&books, backend, Clock::system()).await.unwrap()
    }

    /// The loop devices with files of this controller.
    pub fn devices(&self) -> Vec<PathBuf> {
        let ours = |entry: &fs::DirEntry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file"));
            let folders = [self.folder.path(), self.memory.path()];
            file.is_ok_and(|file| folders.iter().any(|folder| Path::new(&file).starts_with(folder)))
        };
        let entries = fs::read_dir("/sys/block").unwrap().map(Result::unwrap);
        let node = |entry: fs::DirEntry| Path::new("/dev").join(entry.file_name());
        entries.filter(ours).map(node).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let places = mounts.lines().rev().filter_map(|line| line.split(' ').nth(4));
        for place in places.filter(|place| Path::new(place).starts_with(self.folder.path())) {
            run("umount", &[place]);
        }
        for device in self.devices() {
            run("losetup", &["-d", device.to_str().unwrap_or_default()]);
        }
    }
}

/// Runs a program for the test's own needs and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A controller that serves its port.
pub struct Controller {
    pub client: ControllerClient<Channel>,
    pub address: String,
    pub volumes: Arc<Volumes>,
    _stop: DropGuard,
}

pub async fn controller(disk: &Disk, devices_max: Option<usize>) -> Controller {
    let volumes = Arc::new(disk.volumes(devices_max).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let routes = service::controller(volumes.clone());
    tokio::spawn(service::serve(Listener::Tcp(listener, None), routes, stop.clone()));
    let client = ControllerClient::connect(format!("http://{address}")).await.unwrap();
    Controller { client, address, volumes, _stop: stop.drop_guard() }
}

impl Controller {
    pub async fn provision(&self, name: &str, size: i64) -> Result<(), Status> {
        let request = ProvisionMallocBDevRequest { bdev_name: name.to_owned(), size };
        self.client.clone().provision_malloc_b_dev(request).await.map(|_| ())
    }

    pub async fn map(&self, name: &str) -> Result<MapVolumeReply, Status> {
        let params = Some(Params::Malloc(MallocParams {}));
        self.map_with(name, params).await
    }

    pub async fn map_with(
        &self,
        name: &str,
        params: Option<Params>,
    ) -> Result<MapVolumeReply, Status> {
        let request = MapVolumeRequest { volume_id: name.to_owned(), params };
        Ok(self.client.clone().map_volume(request).await?.into_inner())
    }

    pub async fn unmap(&self, name: &str) -> Result<(), Status> {
        let request = UnmapVolumeRequest { volume_id: name.to_owned() };
        self.client.clone().unmap_volume(request).await.map(|_| ())
    }
}

/// The device node that a reply of `MapVolume` leads to, found as the specification says.
pub fn node(reply: &MapVolumeReply) -> PathBuf {
    assert_eq!(reply.scsi, "", "a loop device has no SCSI address");
    let target = |entry: fs::DirEntry| fs::read_link(entry.path()).ok();
    let links = fs::read_dir("/sys/dev/block").unwrap().map(Result::unwrap).filter_map(target);
    let matching: Vec<_> =
        links.filter(|link| link.to_str().unwrap().contains(&reply.device)).collect();
    assert_eq!(matching.len(), 1, "{reply:?} has to match one device: {matching:?}");
    Path::new("/dev").join(matching[0].file_name().unwrap())
}

#[track_caller]
pub fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.map_or_else(|status| status.code(), |_| Code::Ok)
}
