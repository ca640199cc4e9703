//! The whole chain with certificates: a controller lets in registries only, registers as itself, and
//! is reached by its own host only.
use crate::world::Disk;
use orrery_proto::oim::v0::{RegisterControllerRequest, registry_client::RegistryClient};
use orrery_storage_node::{
    Pool,
    run::{BackendKind, ControllerOptions, StorageOptions, Tls, run_controller},
    service::{self, Endpoint, Listener, RemotePool},
};
use orrery_volumes::{ControllerDirectory, MemoryDirectory, ProxyConfig, ServeConfig, serve};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Code;

/// A certificate authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
        Self { issuer: Issuer::new(params, key), roots: Arc::new(roots) }
    }

    fn issue(&self, name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn server(&self, name: &str) -> Arc<ServerConfig> {
        let (chain, key) = self.issue(name);
        let verifier = WebPkiClientVerifier::builder(self.roots.clone()).build().unwrap();
        let config = ServerConfig::builder().with_client_cert_verifier(verifier);
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }

    fn client(&self, name: &str) -> Arc<ClientConfig> {
        let (chain, key) = self.issue(name);
        let config = ClientConfig::builder().with_root_certificates(self.roots.clone());
        Arc::new(config.with_client_auth_cert(chain, key).unwrap())
    }
}

struct World {
    authority: Authority,
    registry: String,
    directory: Arc<MemoryDirectory>,
    stop: CancellationToken,
    _stopped: DropGuard,
}

async fn world() -> World {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = listener.local_addr().unwrap().to_string();
    let directory = Arc::new(MemoryDirectory::default());
    let proxy =
        ProxyConfig { tls: Some(authority.client("component.registry")), ..Default::default() };
    let config = ServeConfig {
        tls: Some(authority.server("component.registry")),
        proxy,
        ..ServeConfig::default()
    };
    let stop = CancellationToken::new();
    tokio::spawn(serve(listener, config, directory.clone(), stop.clone()));
    World { authority, registry, directory, _stopped: stop.clone().drop_guard(), stop }
}

impl World {
    /// Starts a controller that shows the given name, and returns once it is registered.
    async fn controller(&self, disk: &Disk, id: &str, name: &str) {
        let options = ControllerOptions {
            id: id.to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            address: None,
            registry: self.registry.clone(),
            refresh_seconds: 60,
            storage: storage(disk),
        };
        let tls = Tls {
            server: Some(self.authority.server(name)),
            client: Some(self.authority.client(name)),
        };
        tokio::spawn(run_controller(options, tls, self.stop.clone()));
        let listed = async {
            while self.directory.list().await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), listed).await.expect("it registers");
    }

    fn pool(&self, address: &str, caller: &str) -> RemotePool {
        let endpoint = Endpoint::new(address, Some(self.authority.client(caller)));
        RemotePool::new(&endpoint, "host-1").unwrap()
    }
}

fn storage(disk: &Disk) -> StorageOptions {
    StorageOptions {
        state: disk.folder.path().to_owned(),
        memory: disk.memory().to_owned(),
        backend: BackendKind::Loop,
        devices_max: None,
        daemon_socket: None,
        slots: Vec::new(),
        scsi: None,
        nbd_socket: None,
    }
}

/// proves: VOL-09
#[tokio::test]
async fn only_its_host_reaches_a_controller_and_only_through_the_registry() {
    let (disk, world) = (Disk::new(), world().await);
    world.controller(&disk, "host-1", "controller.host-1").await;
    let own = world.pool(&world.registry, "host.host-1");
    assert_eq!(own.list().await.unwrap(), []);
    for stranger in ["host.host-2", "user.admin", "controller.host-1"] {
        let error = world.pool(&world.registry, stranger).list().await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{stranger}: {error}");
    }

    // The controller's own port is for registries, whoever else asks. The certificate there is the
    // controller's, so a client that expects a registry does not even finish its handshake.
    let entry = world.directory.list().await.unwrap().remove(0);
    let direct = world.pool(entry.address.as_str(), "host.host-1").list().await;
    assert_eq!(direct.unwrap_err().code(), Code::Unavailable);
}

/// proves: VOL-09
#[tokio::test]
async fn a_controllers_port_refuses_everybody_but_a_registry() {
    let (disk, authority) = (Disk::new(), Authority::new());
    let volumes = Arc::new(disk.volumes(None).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // It shows the name that clients here look for, so only its own check is left to refuse them.
    let listener = Listener::Tcp(listener, Some(authority.server("component.registry")));
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(service::serve(listener, service::controller(volumes), stop));
    let list = async |caller: &str| {
        let endpoint = Endpoint::new(&address, Some(authority.client(caller)));
        RemotePool::new(&endpoint, "host-1").unwrap().list().await
    };
    assert_eq!(list("component.registry").await.unwrap(), []);
    for stranger in ["host.host-1", "user.admin", "controller.host-1", "component.registry.evil"] {
        let error = list(stranger).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{stranger}: {error}");
    }
}

/// proves: VOL-09
#[tokio::test]
async fn a_controller_registers_only_itself() {
    let (disk, world) = (Disk::new(), world().await);
    world.controller(&disk, "host-1", "controller.host-1").await;
    let mut other = RegistryClient::new(
        Endpoint::new(&world.registry, Some(world.authority.client("controller.host-2"))).channel(),
    );
    let request = RegisterControllerRequest { controller_id: "host-1".into(), ..<_>::default() };
    let status = other.register_controller(request).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(world.directory.list().await.unwrap().len(), 1, "it is still there");
}
