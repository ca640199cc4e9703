//! The two processes of this crate, from their options to their end: what `orrery storage-controller`
//! and `orrery csi` do after the command line is parsed.

mod options;

pub use options::{BackendKind, ControllerOptions, CsiOptions, StorageOptions};

use crate::{
    Clock, Pool, Volumes,
    backend::{
        Backend,
        loopback::{LoopConfig, Loopback},
        qemu::{Export, Qemu, QemuConfig},
        spdk::{Spdk, SpdkConfig, Vhost},
    },
    csi::{CsiConfig, driver},
    error::{Doing, Error, Result},
    host::ext::may_grow_mounted,
    service::{self, Endpoint, Listener, Registration, RemotePool, keep_registered, serve},
};
use options::{Place, check_id, pair, place};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::ErrorKind,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

/// What a process shows and whom it trusts; made by whoever knows about certificates.
#[derive(Clone, Default)]
pub struct Tls {
    /// For a controller's own port; only registries are let in.
    pub server: Option<Arc<rustls::ServerConfig>>,
    /// For calls to the registry.
    pub client: Option<Arc<rustls::ClientConfig>>,
}

/// Serves a storage controller and keeps it registered until `stop` is cancelled.
pub async fn run_controller(
    options: ControllerOptions,
    tls: Tls,
    stop: CancellationToken,
) -> Result<()> {
    check_id(&options.id)?;
    let _state = lock(&options.storage.state)?;
    let volumes = Arc::new(open(&options.storage).await?);
    let (listener, address) = listen(&options.listen, tls.server).await?;
    let registration = Registration {
        registry: Endpoint::new(&options.registry, tls.client),
        controller_id: options.id,
        address: options.address.unwrap_or(address),
        refresh_interval: Duration::from_secs(options.refresh_seconds),
        volumes: Some(volumes.clone()),
    };
    tracing::info!(
        backend = volumes.backend(),
        address = registration.address,
        "storage controller ready"
    );
    tokio::join!(
        serve(listener, service::controller(volumes.clone()), stop.clone()),
        keep_registered(registration, stop.clone()),
        volumes.follow_backend(stop),
    );
    Ok(())
}

/// Serves a CSI driver until `stop` is cancelled: on volumes of its own, or on those of a controller
/// behind a registry.
pub async fn run_csi(options: CsiOptions, tls: Tls, stop: CancellationToken) -> Result<()> {
    let listener = match place(&options.endpoint)? {
        Place::Unix(path) => Listener::Unix(bind_unix(&path)?),
        Place::Tcp(_) => {
            return Err(Error::Invalid("a CSI endpoint is a Unix socket: unix:///path".to_owned()));
        }
    };
    let mut config = CsiConfig::new(options.node_id);
    config.volumes_max = options.volumes_max;
    config.device_timeout = Duration::from_secs(options.device_timeout_seconds);
    config.grows_online = may_grow_mounted()?;
    if !config.grows_online {
        tracing::warn!(
            "this process lacks CAP_SYS_RESOURCE: volumes can only grow while they are not in use"
        );
    }
    if let Some(name) = options.driver_name {
        config.name = name;
    }
    let Some(registry) = options.registry else {
        let _state = lock(&options.storage.state)?;
        let volumes = Arc::new(open(&options.storage).await?);
        let (endpoint, backend) = (&options.endpoint, volumes.backend());
        tracing::info!(endpoint, backend, node = config.node_id, "CSI driver ready");
        let routes = driver(config, volumes.clone());
        tokio::join!(serve(listener, routes, stop.clone()), volumes.follow_backend(stop));
        return Ok(());
    };
    let (endpoint, node) = (&options.endpoint, &config.node_id);
    tracing::info!(endpoint, registry, node, "CSI driver ready");
    let registry = Endpoint::new(&registry, tls.client);
    let pool: Arc<dyn Pool> = Arc::new(RemotePool::new(&registry, &config.node_id)?);
    serve(listener, driver(config, pool), stop).await;
    Ok(())
}

/// Takes a folder for this process alone, for as long as the file is open: two that act on the same
/// books would undo each other's work.
fn lock(state: &Path) -> Result<File> {
    let path = state.join("lock");
    let doing = || format!("lock {}", path.display());
    fs::create_dir_all(state).doing(doing)?;
    let file = File::create(&path).doing(doing)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(Error::InUse(format!(
            "another storage controller or CSI driver uses {}: stop it, or name another folder with \
             --state",
            state.display()
        ))),
        Err(error) => Err(Error::io(doing(), error.into())),
    }
}

/// The volumes of the backend that the options describe.
async fn open(options: &StorageOptions) -> Result<Volumes> {
    let backend = backend(options)?;
    Volumes::open(&options.state.join("books"), backend, Clock::system()).await
}

fn backend(options: &StorageOptions) -> Result<Arc<dyn Backend>> {
    let (images, memory) = (options.state.join("images"), options.memory.clone());
    let daemon = || {
        let socket = options.daemon_socket.clone();
        socket.ok_or_else(|| Error::Invalid("this backend needs --daemon-socket".to_owned()))
    };
    Ok(match options.backend {
        BackendKind::Loop => {
            let config = LoopConfig { images, memory, devices_max: options.devices_max };
            Arc::new(Loopback::open(&config)?)
        }
        BackendKind::Qemu => {
            let export = qemu_export(options)?;
            Arc::new(Qemu::open(QemuConfig { socket: daemon()?, images, memory, export })?)
        }
        BackendKind::Spdk => {
            Arc::new(Spdk::new(SpdkConfig { socket: daemon()?, vhost: spdk_vhost(options)? }))
        }
    })
}

fn qemu_export(options: &StorageOptions) -> Result<Export> {
    if let Some(socket) = &options.nbd_socket {
        return Ok(Export::Nbd { socket: socket.clone() });
    }
    let slot = |text: &String| {
        let (socket, device) = pair(text)?;
        Ok(crate::backend::qemu::Slot { socket: socket.into(), device: device.into() })
    };
    let slots = options.slots.iter().map(slot).collect::<Result<Vec<_>>>()?;
    if slots.is_empty() {
        return Err(Error::Invalid("the qemu backend needs --slot or --nbd-socket".to_owned()));
    }
    Ok(Export::VhostUserBlk { slots })
}

fn spdk_vhost(options: &StorageOptions) -> Result<Vhost> {
    if let Some(scsi) = &options.scsi {
        let (controller, device) = pair(scsi)?;
        return Ok(Vhost::Scsi { controller: controller.into(), device: device.into() });
    }
    let slot = |text: &String| {
        let (controller, device) = pair(text)?;
        Ok(crate::backend::spdk::Slot { controller: controller.into(), device: device.into() })
    };
    let slots = options.slots.iter().map(slot).collect::<Result<Vec<_>>>()?;
    if slots.is_empty() {
        return Err(Error::Invalid("the spdk backend needs --scsi or --slot".to_owned()));
    }
    Ok(Vhost::Blk { slots })
}

/// Opens the controller's port, and says under which address it can be reached.
async fn listen(text: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Result<(Listener, String)> {
    let address = match place(text)? {
        Place::Unix(path) => return Ok((Listener::Unix(bind_unix(&path)?), text.to_owned())),
        Place::Tcp(address) => address,
    };
    let listener = TcpListener::bind(&address).await.doing(|| format!("listen on {address}"))?;
    let local = listener.local_addr().doing(|| format!("listen on {address}"))?;
    if tls.is_none() && !local.ip().is_loopback() {
        return Err(Error::Invalid(format!(
            "{local} can be reached from elsewhere, which needs certificates; without them listen on \
             a loopback address"
        )));
    }
    Ok((Listener::Tcp(listener, tls), local.to_string()))
}

/// Listens on a Unix socket, in place of one that a process left behind.
fn bind_unix(path: &Path) -> Result<UnixListener> {
    let doing = || format!("listen on {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).doing(doing)?;
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            return Err(Error::InUse(format!("another process listens on {}", path.display())));
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).doing(doing)?;
        }
        // There is none, which is how it should be; anything else shows when we bind.
        Err(_) => {}
    }
    UnixListener::bind(path).doing(doing)
}
