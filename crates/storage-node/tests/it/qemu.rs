//! The qemu backend with a real `qemu-storage-daemon`.
use crate::world::run;
use orrery_storage_node::{
    Clock, Request, Volumes,
    backend::qemu::{Export, Qemu, QemuConfig, Slot},
    volume::{Labels, Media, Params, Size, Source, VolumeName},
};
use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// A daemon that ends with the test.
pub struct Daemon(Child);

impl Daemon {
    pub async fn start(folder: &Path) -> Self {
        let socket = monitor(folder);
        _ = fs::remove_file(&socket);
        let chardev = format!("socket,path={},server=on,wait=off,id=monitor", socket.display());
        let child = Command::new("qemu-storage-daemon")
            .args(["--chardev", &chardev, "--monitor", "chardev=monitor"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self(child);
        let ready = async {
            while UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ready).await.expect("the daemon starts");
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A daemon that is far away, so that calls of several volumes come between each other.
struct Slow {
    relay: tokio::task::JoinHandle<()>,
    _daemon: Daemon,
}

impl Slow {
    const TIME: Duration = Duration::from_millis(20);
    /// Far more than are ever on the way.
    const LINES_MAX: usize = 1000;

    async fn start(folder: &Path) -> Self {
        let inner = folder.join("daemon");
        fs::create_dir(&inner).unwrap();
        let daemon = Daemon::start(&inner).await;
        let listener = UnixListener::bind(monitor(folder)).unwrap();
        let relay = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(Self::relay(client, monitor(&inner)));
            }
        });
        Self { relay, _daemon: daemon }
    }

    async fn relay(client: UnixStream, socket: PathBuf) {
        let server = UnixStream::connect(socket).await.unwrap();
        let (requests, to_client) = client.into_split();
        let (answers, to_server) = server.into_split();
        // The end of either is the end of the connection.
        tokio::select! {
            () = Self::pass_on(requests, to_server) => {}
            () = Self::pass_on(answers, to_client) => {}
        }
    }

    /// Each line arrives later, and none holds up the next.
    async fn pass_on(from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let (sender, mut on_the_way) = tokio::sync::mpsc::channel(Self::LINES_MAX);
        let read = async {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send((Instant::now() + Self::TIME, line)).await.unwrap();
            }
        };
        let write = async {
            while let Some((arrives, line)) = on_the_way.recv().await {
                tokio::time::sleep_until(arrives).await;
                if to.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = read => {}
            () = write => {}
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

fn monitor(folder: &Path) -> PathBuf {
    folder.join("qmp.sock")
}

pub async fn volumes(folder: &Path, export: Export) -> Arc<Volumes> {
    let config = QemuConfig {
        socket: monitor(folder),
        images: folder.join("images"),
        memory: folder.join("memory"),
        export,
    };
    let backend = Arc::new(Qemu::open(config).unwrap());
    Arc::new(Volumes::open(&folder.join("books"), backend, Clock::system()).await.unwrap())
}

pub fn name(text: &str) -> VolumeName {
    VolumeName::parse(text).unwrap()
}

pub fn request(volume: &str, bytes: i64) -> Request {
    Request {
        name: name(volume),
        size: Size::from_bytes(bytes).unwrap(),
        media: Media::File,
        source: None,
        labels: Labels::new(),
    }
}

/// Reads or writes through NBD, as any client would.
fn io(uri: &str, command: &str) -> String {
    run("qemu-io", &["-f", "raw", "-c", command, uri])
}

/// proves: VOL-05
/// proves: VOL-06
#[tokio::test]
async fn a_volume_is_written_through_nbd_and_keeps_its_data() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path()).await;
    let socket = folder.path().join("nbd.sock");
    let first = volumes(folder.path(), Export::Nbd { socket: socket.clone() }).await;
    let long = "a-very-long-name-that-is-longer-than-any-name-of-a-node-can-be";
    first.create(request(long, 4 << 20)).await.unwrap();
    let mapping = first.map(&name(long), Params::Provisioned).await.unwrap();
    assert_eq!(first.map(&name(long), Params::Provisioned).await.unwrap(), mapping);
    assert!(io(&mapping.device, "write -P 0x5a 1M 4096").contains("wrote 4096"));
    let refused = first.resize(&name(long), Size::from_bytes(8 << 20).unwrap()).await;
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition, "it is exported");

    // A copy of a volume in use is of one moment.
    let source = Some(Source::Volume(name(long)));
    first.create(Request { source, ..request("copy", 8 << 20) }).await.unwrap();
    let copy = fs::read(folder.path().join("images/copy.img")).unwrap();
    assert_eq!((copy.len(), copy[1 << 20], copy[0]), (8 << 20, 0x5a, 0));
    first.create_snapshot(&name("snap"), &name(long), Labels::new()).await.unwrap();

    // Another controller finds everything as it was.
    drop(first);
    let second = volumes(folder.path(), Export::Nbd { socket }).await;
    assert_eq!(second.get(&name(long)).await.unwrap().mapping, Some(mapping.clone()));
    second.unmap(&name(long)).await.unwrap();
    second.unmap(&name(long)).await.unwrap();
    assert!(!io(&mapping.device, "read -P 0x5a 1M 4096").contains("read 4096"), "it is gone");
    second.resize(&name(long), Size::from_bytes(8 << 20).unwrap()).await.unwrap();
    let again = second.map(&name(long), Params::Provisioned).await.unwrap();
    assert_eq!(again, mapping);
    let read = io(&again.device, "read -P 0x5a 1M 4096");
    assert!(read.contains("read 4096") && !read.contains("failed"), "{read}");

    // A new daemon is told everything again.
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let following = second.clone();
    tokio::spawn(async move { following.follow_backend(stop).await });
    drop(daemon);
    let _daemon = Daemon::start(folder.path()).await;
    let back = async {
        loop {
            let uri = mapping.device.clone();
            let read = tokio::task::spawn_blocking(move || io(&uri, "read -P 0x5a 1M 4096"));
            if read.await.unwrap().contains("read 4096") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), back).await.expect("it is mapped again");
    second.unmap(&name(long)).await.unwrap();
    second.delete(&name(long)).await.unwrap();
}

/// proves: VOL-05
#[tokio::test]
async fn machines_get_sockets_with_vhost_user_blk() {
    let folder = TempDir::new().unwrap();
    let _daemon = Daemon::start(folder.path()).await;
    let slot = |number: u32| Slot {
        socket: folder.path().join(format!("vhost{number}.sock")),
        device: format!("/devices/pci0000:00/0000:00:{number}.0/"),
    };
    let export = Export::VhostUserBlk { slots: vec![slot(15), slot(16)] };
    let volumes = volumes(folder.path(), export).await;
    for volume in ["a", "b", "c"] {
        volumes.create(request(volume, 1 << 20)).await.unwrap();
    }
    let map = async |volume: &str| {
        volumes.map(&name(volume), Params::Provisioned).await.map(|mapping| mapping.device)
    };
    assert_eq!(map("a").await.unwrap(), "/devices/pci0000:00/0000:00:15.0/");
    assert!(fs::metadata(slot(15).socket).unwrap().file_type().is_socket());
    assert_eq!(map("b").await.unwrap(), slot(16).device);
    assert_eq!(map("c").await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(volumes.get(&name("c")).await.unwrap().mapping, None, "nothing half done");
    volumes.unmap(&name("a")).await.unwrap();
    assert_eq!(map("c").await.unwrap(), slot(15).device);
    assert_eq!(map("b").await.unwrap(), slot(16).device);
    for volume in ["b", "c"] {
        volumes.unmap(&name(volume)).await.unwrap();
    }
}

/// Makes volumes and maps them all at once; returns where they are.
async fn map_at_once(volumes: &Arc<Volumes>, count: usize) -> Vec<String> {
    let mut mapping = tokio::task::JoinSet::new();
    for number in 0..count {
        let volume = format!("v{number}");
        volumes.create(request(&volume, 1 << 20)).await.unwrap();
        let volumes = volumes.clone();
        mapping.spawn(async move { volumes.map(&name(&volume), Params::Provisioned).await });
    }
    mapping.join_all().await.into_iter().map(|mapped| mapped.unwrap().device).collect()
}

/// proves: VOL-05
#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_are_mapped_at_once_get_slots_of_their_own() {
    let folder = TempDir::new().unwrap();
    let _daemon = Slow::start(folder.path()).await;
    let slot = |number: usize| Slot {
        socket: folder.path().join(format!("vhost{number}.sock")),
        device: format!("/devices/pci0000:00/0000:00:{number}.0/"),
    };
    let slots: Vec<Slot> = (10..18).map(slot).collect();
    let expect: Vec<String> = slots.iter().map(|slot| slot.device.clone()).collect();
    let sockets: Vec<PathBuf> = slots.iter().map(|slot| slot.socket.clone()).collect();
    let volumes = volumes(folder.path(), Export::VhostUserBlk { slots }).await;
    let mut found = map_at_once(&volumes, expect.len()).await;
    found.sort();
    assert_eq!(found, expect);
    assert!(sockets.iter().all(|socket| socket.exists()), "each has its socket");
}

/// The first of them starts the server that all of them share.
///
/// proves: VOL-05
#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_are_mapped_at_once_share_one_server() {
    let folder = TempDir::new().unwrap();
    let _daemon = Slow::start(folder.path()).await;
    let export = Export::Nbd { socket: folder.path().join("nbd.sock") };
    let volumes = volumes(folder.path(), export).await;
    for uri in map_at_once(&volumes, 8).await {
        let read = tokio::task::spawn_blocking(move || io(&uri, "read 0 4096")).await.unwrap();
        assert!(read.contains("read 4096"), "{read}");
    }
}

/// proves: VOL-05
#[tokio::test]
async fn a_daemon_that_is_not_there_is_unavailable() {
    let folder = TempDir::new().unwrap();
    let export = Export::Nbd { socket: folder.path().join("nbd.sock") };
    let volumes = volumes(folder.path(), export).await;
    volumes.create(request("a", 1 << 20)).await.unwrap();
    let error = volumes.map(&name("a"), Params::Provisioned).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.to_string().contains("qmp.sock"), "{error}");
}

/// The daemon stands still while it is asked, and then dies.
///
/// proves: VOL-05
#[tokio::test]
async fn a_daemon_that_dies_in_the_middle_of_a_copy_leaves_no_copy() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path()).await;
    let export = Export::Nbd { socket: folder.path().join("nbd.sock") };
    let volumes = volumes(folder.path(), export).await;
    volumes.create(request("a", 4 << 20)).await.unwrap();
    let mapping = volumes.map(&name("a"), Params::Provisioned).await.unwrap();
    assert!(io(&mapping.device, "write -P 0x5a 1M 4096").contains("wrote 4096"));
    let id = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
    let taking = volumes.clone();
    let taking = tokio::spawn(async move {
        taking.create_snapshot(&name("snap"), &name("a"), Labels::new()).await
    });
    // What it is about to do is written down before it is done.
    let intent = folder.path().join("books/snapshots/snap.json");
    let begun = async {
        while !intent.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), begun).await.expect("it begins");
    drop(daemon);
    let failed = taking.await.unwrap().unwrap_err();
    assert_eq!(failed.code(), Code::Unavailable, "{failed}");
    assert_eq!(volumes.list_snapshots().await.unwrap(), []);
    assert!(!intent.exists() && !folder.path().join("images/a.snap").exists());

    let _daemon = Daemon::start(folder.path()).await;
    volumes.recover().await.unwrap();
    let snapshot = volumes.create_snapshot(&name("snap"), &name("a"), Labels::new()).await;
    assert_eq!(snapshot.unwrap().size.bytes(), 4 << 20);
    let copy = fs::read(folder.path().join("images/snap.snap")).unwrap();
    assert_eq!((copy.len(), copy[1 << 20]), (4 << 20, 0x5a));
    volumes.unmap(&name("a")).await.unwrap();
}
