//! Finds the block device that a controller has made appear.
//!
//! A controller says which part of the link in `/sys/dev/block` to look for. The device may appear
//! later than the answer (hot-plug), so it is waited for: inotify says when something happened in
//! `/dev`, and since `/sys` does not report all of its changes, it is looked at from time to time too.
use crate::{
    error::{Doing, Error, Result},
    volume::Mapping,
};
use rustix::{
    fs::{FileType, Mode, inotify},
    io::Errno,
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::unix::pipe;

const LINKS: &str = "/sys/dev/block";
/// How long at most until a device is seen whose arrival nobody reported.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A block device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    pub major: u32,
    pub minor: u32,
    pub node: PathBuf,
}

impl BlockDevice {
    fn sysfs(&self, file: &str) -> PathBuf {
        format!("{LINKS}/{}:{}/{file}", self.major, self.minor).into()
    }

    pub fn size_bytes(&self) -> Result<u64> {
        let path = self.sysfs("size");
        let text = fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
        let sectors = text.trim().parse::<u64>();
        let sectors =
            sectors.map_err(|_| Error::Lost(format!("{} is no number", path.display())))?;
        Ok(sectors * crate::volume::SECTOR_BYTES)
    }

    /// Whether the kernel refuses to write to it.
    pub fn read_only(&self) -> Result<bool> {
        let path = self.sysfs("ro");
        let text = fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
        Ok(text.trim() == "1")
    }

    /// A read-only mount of a device's node does not keep anybody from writing to the device; this
    /// does, for all of its users.
    pub async fn set_read_only(&self, read_only: bool) -> Result<()> {
        let how = if read_only { "--setro" } else { "--setrw" };
        super::program::run("blockdev", &[how, self.node.to_string_lossy().as_ref()]).await
    }

    pub fn set_read_ahead(&self, kilobytes: u32) -> Result<()> {
        let path = self.sysfs("queue/read_ahead_kb");
        fs::write(&path, kilobytes.to_string()).doing(|| format!("write {}", path.display()))
    }

    /// Whether a path is a node of this device, as the target of a raw block volume is.
    pub fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| {
            found.file_type().is_block_device()
                && found.rdev() == rustix::fs::makedev(self.major, self.minor)
        })
    }
}

/// Waits for the device of a mapping. `nodes` is where a device node is made if `/dev` has none.
pub async fn wait_for(mapping: &Mapping, limit: Duration, nodes: &Path) -> Result<BlockDevice> {
    let wait = async {
        let news = News::new();
        loop {
            if let Some(device) = find(mapping, nodes)? {
                return Ok(device);
            }
            news.wait().await;
        }
    };
    tokio::time::timeout(limit, wait).await.unwrap_or_else(|_| {
        let scsi = if mapping.scsi.is_empty() { "" } else { " and the SCSI address " };
        Err(Error::Deadline(format!(
            "waited {limit:?} for a link in {LINKS} with {:?}{scsi}{}; none appeared",
            mapping.device, mapping.scsi
        )))
    })
}

/// The device of a mapping, if it is there.
pub fn find(mapping: &Mapping, nodes: &Path) -> Result<Option<BlockDevice>> {
    let mut best: Option<(String, String)> = None;
    for entry in fs::read_dir(LINKS).doing(|| format!("list {LINKS}"))? {
        // Devices come and go while we look; one that has gone is not the one.
        let Ok(entry) = entry else { continue };
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let (Some(target), Ok(numbers)) = (target.to_str(), entry.file_name().into_string()) else {
            continue;
        };
        let shorter = best.as_ref().is_none_or(|(known, _)| target.len() < known.len());
        if shorter && matches(target, mapping) {
            best = Some((target.to_owned(), numbers));
        }
    }
    let Some((target, numbers)) = best else { return Ok(None) };
    let parsed = numbers
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let Some((major, minor)) = parsed else { return Ok(None) };
    node(&target, major, minor, nodes).map(|node| Some(BlockDevice { major, minor, node }))
}

/// Whether the target of a link belongs to a mapping. Links of partitions contain those of their
/// disks, which is why the shortest match is taken.
fn matches(target: &str, mapping: &Mapping) -> bool {
    if mapping.device.is_empty() || !target.contains(&mapping.device) {
        return false;
    }
    let Some((id, lun)) = mapping.scsi.split_once(':') else { return mapping.scsi.is_empty() };
    target.split('/').any(|part| {
        let fields: Vec<&str> = part.split(':').collect();
        let numbers = fields.iter().all(|field| field.bytes().all(|byte| byte.is_ascii_digit()));
        fields.len() == 4 && numbers && fields[2] == id && fields[3] == lun
    })
}

/// The node in `/dev`, or one of our own where there is none or another device's.
fn node(target: &str, major: u32, minor: u32, nodes: &Path) -> Result<PathBuf> {
    let name = target.rsplit('/').next().unwrap_or(target);
    let usual = Path::new("/dev").join(name);
    let device = BlockDevice { major, minor, node: usual.clone() };
    if device.is_at(&usual) {
        return Ok(usual);
    }
    let own = nodes.join(format!("{major}:{minor}"));
    let doing = || format!("make the device node {}", own.display());
    fs::create_dir_all(nodes).doing(doing)?;
    let number = rustix::fs::makedev(major, minor);
    let mode = Mode::from(0o600);
    match rustix::fs::mknodat(rustix::fs::CWD, &own, FileType::BlockDevice, mode, number) {
        Ok(()) | Err(Errno::EXIST) => Ok(own),
        Err(error) => Err(Error::io(doing(), error.into())),
    }
}

/// Wakes when something happens in `/dev` or `/sys/dev/block`, and from time to time anyway. An inotify
/// descriptor is read like a pipe, so it is wrapped as one.
struct News(Option<pipe::Receiver>);

impl News {
    /// Without inotify there is still the looking from time to time.
    fn new() -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let opened = inotify::init(flags).and_then(|watch| {
            for folder in ["/dev", LINKS] {
                let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB;
                inotify::add_watch(&watch, folder, events)?;
            }
            Ok(watch)
        });
        Self(opened.ok().and_then(|watch| pipe::Receiver::from_owned_fd_unchecked(watch).ok()))
    }

    async fn wait(&self) {
        let Some(watch) = &self.0 else { return tokio::time::sleep(LOOK_AGAIN).await };
        if let Ok(Ok(())) = tokio::time::timeout(LOOK_AGAIN, watch.readable()).await {
            let mut events = [0; 4096];
            // What happened does not matter, only that it did.
            while watch.try_read(&mut events).is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{find, matches, wait_for};
    use crate::{error::Error, volume::Mapping};
    use std::time::Duration;

    #[track_caller]
    fn check(target: &str, device: &str, scsi: &str, expect: bool) {
        let mapping = Mapping { device: device.into(), scsi: scsi.into() };
        assert_eq!(matches(target, &mapping), expect, "{target} {mapping:?}");
    }

    /// proves: VOL-05
    #[test]
    fn links_are_matched_by_path_and_scsi_address() {
        let virtio = "../../devices/pci0000:00/0000:00:15.0/virtio0/block/vda";
        check(virtio, "/devices/pci0000:00/0000:00:15.0/", "", true);
        check(virtio, "/devices/pci0000:00/0000:00:16.0/", "", false);
        check(virtio, "/devices/pci0000:00/0000:00:15.0/", "0:0", false);
        check(virtio, "", "", false);
        let scsi =
            "../../devices/pci0000:00/0000:00:15.0/virtio3/host0/target0:0:7/0:0:7:1/block/sda";
        check(scsi, "/devices/pci0000:00/0000:00:15.0/", "7:1", true);
        check(scsi, "/devices/pci0000:00/0000:00:15.0/", "7:0", false);
        check(scsi, "/devices/pci0000:00/0000:00:15.0/", "0:7", false);
        check(scsi, "/devices/pci0000:00/0000:00:15.0/", "", true);
        check(scsi, "/devices/pci0000:00/0000:00:15.0/", "nonsense", false);
    }

    #[tokio::test]
    async fn a_device_that_never_appears_has_a_deadline_that_says_what_was_waited_for() {
        let mapping = Mapping { device: "/devices/none/".into(), scsi: "1:2".into() };
        let nodes = std::env::temp_dir();
        assert_eq!(find(&mapping, &nodes).unwrap(), None);
        let error = wait_for(&mapping, Duration::from_millis(50), &nodes).await.unwrap_err();
        assert!(matches!(&error, Error::Deadline(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("/devices/none/") && text.contains("1:2"), "{text}");
    }
}
