//! What can be said on the command line.
use crate::error::{Error, Result};
use std::path::PathBuf;

/// Options of `orrery storage-controller`.
#[derive(Clone, Debug, clap::Args)]
pub struct ControllerOptions {
    /// Id of this controller; the name of the host is a good choice.
    #[arg(long)]
    pub id: String,
    /// Where to serve: host:port, or unix:path.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Address to register, if it is not the one that is listened on.
    #[arg(long)]
    pub address: Option<String>,
    /// Where the registry is: host:port, or unix:path.
    #[arg(long, default_value = "127.0.0.1:8999")]
    pub registry: String,
    /// How often the registration is repeated, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub refresh_seconds: u64,
    #[command(flatten)]
    pub storage: StorageOptions,
}

/// Options of `orrery csi`.
#[derive(Clone, Debug, clap::Args)]
pub struct CsiOptions {
    /// Socket to serve: unix:///path.
    #[arg(long, env = "CSI_ENDPOINT")]
    pub endpoint: String,
    /// Id of this node, which is that of the controller whose volumes are served.
    #[arg(long)]
    pub node_id: String,
    /// Use a controller behind this registry (host:port, or unix:path) instead of volumes of our own.
    #[arg(long)]
    pub registry: Option<String>,
    /// Name of the driver.
    #[arg(long)]
    pub driver_name: Option<String>,
    /// The most volumes on this node at once; 0 leaves it to the orchestrator.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub volumes_max: i64,
    /// How long a mapped device may take to appear, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub device_timeout_seconds: u64,
    #[command(flatten)]
    pub storage: StorageOptions,
}

/// Where volumes are kept and how they become devices.
#[derive(Clone, Debug, clap::Args)]
pub struct StorageOptions {
    /// Folder for images and for what is known about them.
    #[arg(long, default_value = "/var/lib/orrery/storage")]
    pub state: PathBuf,
    /// Folder for images in memory, on a tmpfs.
    #[arg(long, default_value = "/dev/shm/orrery")]
    pub memory: PathBuf,
    /// What makes devices of images.
    #[arg(long, value_enum, default_value_t = BackendKind::Loop)]
    pub backend: BackendKind,
    /// The most devices at once (loop backend); the kernel's own limit if not given.
    #[arg(long)]
    pub devices_max: Option<usize>,
    /// Socket of the daemon: the monitor of qemu-storage-daemon, or SPDK's RPC socket.
    #[arg(long)]
    pub daemon_socket: Option<PathBuf>,
    /// A device of the machine, as socket=device (qemu: vhost-user-blk) or controller=device (spdk:
    /// vhost-blk), where device is its PCI function in /sys. May be repeated.
    #[arg(long = "slot", value_name = "SLOT=DEVICE")]
    pub slots: Vec<String>,
    /// The vhost-scsi controller of the machine, as controller=device (spdk).
    #[arg(long, value_name = "CONTROLLER=DEVICE", conflicts_with = "slots")]
    pub scsi: Option<String>,
    /// Serve volumes by NBD on this socket (qemu).
    #[arg(long, conflicts_with = "slots")]
    pub nbd_socket: Option<PathBuf>,
}

/// The data planes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendKind {
    /// The kernel's loop driver; needs nothing else.
    Loop,
    /// A qemu-storage-daemon, for virtual machines.
    Qemu,
    /// SPDK, for virtual machines.
    Spdk,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(String),
    Unix(PathBuf),
}

pub(super) fn place(text: &str) -> Result<Place> {
    let Some(path) = text.strip_prefix("unix:") else { return Ok(Place::Tcp(text.to_owned())) };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.starts_with('/') {
        return Ok(Place::Unix(path.into()));
    }
    Err(Error::Invalid(format!("{text:?} needs an absolute path, as in unix:///run/csi.sock")))
}

/// The longest id of a controller.
const ID_LENGTH_MAX: usize = 63;

/// Says at once what every registry would answer to this id.
pub(super) fn check_id(id: &str) -> Result<()> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = [id.bytes().next(), id.bytes().last()];
    let valid = (1..=ID_LENGTH_MAX).contains(&id.len())
        && id.bytes().all(inside)
        && ends.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric())
        && !id.contains("..");
    let message = || {
        format!(
            "{id:?} cannot be the id of a controller: use 1 to {ID_LENGTH_MAX} letters, digits, '-', \
             '_' or '.', with a letter or digit at both ends and no two dots in a row"
        )
    };
    if valid { Ok(()) } else { Err(Error::Invalid(message())) }
}

/// Takes `left=right` apart.
pub(super) fn pair(text: &str) -> Result<(&str, &str)> {
    let parts = text.split_once('=').filter(|(left, right)| !left.is_empty() && !right.is_empty());
    parts.ok_or_else(|| {
        let example = "blk0=/devices/pci0000:00/0000:00:15.0/";
        Error::Invalid(format!("{text:?} is not of the form {example}"))
    })
}

#[cfg(test)]
mod tests {
    use super::{Place, check_id, pair, place};

    #[test]
    fn places_and_pairs_are_read() {
        assert_eq!(place("127.0.0.1:1").unwrap(), Place::Tcp("127.0.0.1:1".into()));
        assert_eq!(place("unix:/a").unwrap(), Place::Unix("/a".into()));
        assert_eq!(place("unix:///a/b").unwrap(), Place::Unix("/a/b".into()));
        assert!(place("unix:a").is_err() && place("unix://a").is_err() && place("unix:").is_err());
        assert_eq!(pair("a=/b=c").unwrap(), ("a", "/b=c"));
        assert!(pair("a").is_err() && pair("=b").is_err() && pair("a=").is_err());
    }

    #[test]
    fn ids_are_those_that_a_registry_takes() {
        for good in ["a", "host-1", "Host_1.site", &"x".repeat(63)] {
            assert!(check_id(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a/b", "-a", "a.", "a..b", "a b", "ü", &"x".repeat(64)] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
    }
}
