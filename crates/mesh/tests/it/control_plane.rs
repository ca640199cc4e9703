//! A control plane in this process: real TLS on a real port, declarations and endpoints in memory.
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use orrery_mesh::Peer;
use orrery_mesh::address::{Endpoint, Placed};
use orrery_mesh::catalog::{Catalog as _, CatalogParts, ServiceCatalog};
use orrery_mesh::control::{Control, Options, ProxyStatus};
use orrery_mesh::envoy::{Bootstrap, Mode, PortBootstrap, TlsPaths};
use orrery_mesh::grpc::{AggregatedService, EndpointService};
use orrery_mesh::names::{ProxyName, ServiceName};
use orrery_mesh::providers::MemoryProvider;
use orrery_mesh::secrets::{CertificateBundle, MemorySecrets};
use orrery_mesh::topology::{
    AppProtocol, Backend, MemoryTopology, Service, ServicePort, TrafficSettings, TrafficSplit,
};
use orrery_mesh::xds::Kind;
use orrery_pki::{
    Authority, ClientAuth, Identity, IssueRequest, Issued, Role, TlsMaterial, Validity,
};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

const TRUST_DOMAIN: &str = "mesh.test";
const SERVER: &str = "spiffe://mesh.test/server/one";

pub fn name(text: &str) -> ServiceName {
    text.parse().expect("a service name")
}

/// Outlives the servers that are started on it.
pub struct Mesh {
    pub topology: Arc<MemoryTopology>,
    pub provider: Arc<MemoryProvider>,
    pub secrets: Arc<MemorySecrets>,
    authority: Authority,
    folder: TempDir,
}

/// A running server; stopped by [`Server::stop`] or when dropped.
pub struct Server {
    pub address: SocketAddr,
    pub catalog: Arc<ServiceCatalog>,
    pub control: Arc<Control>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Mesh {
    pub fn new(services: &[&str]) -> Self {
        let domain = TRUST_DOMAIN.parse().expect("a trust domain");
        let mesh = Self {
            topology: Arc::new(MemoryTopology::default()),
            provider: Arc::new(MemoryProvider::new("fleet")),
            secrets: Arc::default(),
            authority: Authority::generate(&domain, validity()).expect("an authority"),
            folder: tempfile::tempdir().expect("make a folder"),
        };
        services.iter().for_each(|service| mesh.declare(service));
        mesh
    }

    pub fn declare(&self, service: &str) {
        self.declare_as(service, false);
    }

    pub fn declare_as(&self, service: &str, encrypted: bool) {
        self.topology.put_service(Service {
            name: name(service),
            ports: ["http".into()].into(),
            encrypted,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        });
    }

    /// With these ports; `5432!` takes anything.
    pub fn declare_ports(&self, service: &str, encrypted: bool, ports: &[&str]) {
        let port = |text: &&str| match text.strip_suffix('!') {
            Some(tcp) => ServicePort { protocol: AppProtocol::Tcp, ..tcp.into() },
            None => (*text).into(),
        };
        self.topology.put_service(Service {
            name: name(service),
            ports: ports.iter().map(port).collect(),
            encrypted,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        });
    }

    pub fn declare_with(&self, service: &str, traffic: TrafficSettings) {
        self.topology.put_service(Service {
            name: name(service),
            ports: vec!["http".into()],
            encrypted: false,
            traffic,
            declared_s: 0,
        });
    }

    /// One endpoint for each of these ports; the first of them is the service's first.
    pub fn place_ports(&self, service: &str, placed: &[(&str, Endpoint)]) {
        let placed = placed.iter().enumerate().map(|(index, (port, endpoint))| Placed {
            endpoint: *endpoint,
            port: Some((*port).into()),
            is_first: index == 0,
        });
        self.provider.set_ports(&name(service), placed.collect());
    }

    pub fn place(&self, service: &str, endpoints: &[Endpoint]) {
        self.provider.set(&name(service), endpoints.to_vec());
    }

    pub fn split(&self, root: &str, backends: &[(&str, u32)]) {
        let backend =
            |(service, weight): &(&str, u32)| Backend { service: name(service), weight: *weight };
        self.topology.put_split(TrafficSplit {
            name: "split".to_owned(),
            root: name(root),
            backends: backends.iter().map(backend).collect(),
            matches: Vec::new(),
        });
    }

    pub fn issue(&self, role: Role, name: &str) -> Issued {
        // Callers speak their own name or the one that they dial, and a plain client of TLS holds the answer to the
        // name it spoke.
        let request = IssueRequest::new(role, name).ip([127, 0, 0, 1]);
        let request = request.dns("web.shop").dns("bank.shop").dns("store.shop");
        self.authority.issue(&request, validity()).expect("a certificate")
    }

    /// As another authority's tools may write one: with a common name, and no SPIFFE id.
    pub fn issue_plain(&self, common_name: &str) -> TlsMaterial {
        let (root, ca_key) = (self.authority.root_pem(), self.authority.key_pem());
        let ca_key = KeyPair::from_pem(&ca_key).expect("the key of the authority");
        let issuer = Issuer::from_ca_cert_pem(root, ca_key).expect("the authority");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        let key = key.serialize_pem();
        TlsMaterial::from_pem(root.as_bytes(), certificate.as_bytes(), key.as_bytes())
            .expect("usable material")
    }

    /// Gives the proxies of a service a fresh certificate, and returns it.
    pub fn certify(&self, service: &str) -> Issued {
        let proxy = ProxyName::of(&name(service));
        let issued = self.issue(Role::Proxy, proxy.as_str());
        self.secrets.set(&proxy, bundle(&issued));
        issued
    }

    /// What `orrery mesh bootstrap` would print for a proxy of `service`.
    pub fn bootstrap(&self, service: &str, server: SocketAddr, mode: Mode) -> Bootstrap {
        let service = name(service);
        let identity = format!("{}.{}", service.name(), service.project());
        let files =
            self.issue(Role::Proxy, &identity).write_to(self.folder.path()).expect("written");
        let path = |path: Option<std::path::PathBuf>| path.expect("write_to fills all three");
        Bootstrap {
            instance: format!("{identity}.one"),
            service,
            control_plane: server.into(),
            tls: Some(TlsPaths {
                root: path(files.root),
                certificate: path(files.certificate),
                key: path(files.key),
                followed: None,
                server_name: SERVER.to_owned(),
            }),
            outbound: ([127, 0, 0, 1], 0).into(),
            first: PortBootstrap::default(),
            ports: BTreeMap::new(),
            connect: BTreeMap::new(),
            admin: None,
            mode,
        }
    }

    pub async fn serve(&self) -> Server {
        self.serve_at(([127, 0, 0, 1], 0).into(), Options::default()).await
    }

    pub async fn serve_at(&self, address: SocketAddr, options: Options) -> Server {
        let catalog = ServiceCatalog::new(CatalogParts {
            topology: self.topology.clone(),
            providers: vec![self.provider.clone()],
            secrets: self.secrets.clone(),
        });
        let (control, publisher) = Control::new(catalog.clone(), with_trust(options));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(catalog.clone().run(stop.clone()));
        tasks.spawn(publisher.run(stop.clone()));
        catalog.loaded().await;
        let address = self.expose(address, &control, &stop, &mut tasks).await;
        Server { address, catalog, control, stop, tasks }
    }

    /// Serves a control plane until it is told to stop; returns where.
    pub async fn expose(
        &self,
        address: SocketAddr,
        control: &Arc<Control>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> SocketAddr {
        let mut routes = tonic::service::Routes::builder();
        routes.add_service(EndpointService::new(control.clone(), stop.clone()));
        routes.add_service(AggregatedService::new(control.clone(), stop.clone()));
        let listener = TcpListener::bind(address).await.expect("bind");
        let address = listener.local_addr().expect("a bound address");
        let material = self.issue(Role::Server, "one").material().expect("usable material");
        let tls = TlsAcceptor::from(material.server_config(ClientAuth::Optional));
        tasks.spawn(accept(listener, tls, routes.routes().into_axum_router(), stop.clone()));
        address
    }
}

/// Of the mesh's own trust domain.
pub fn with_trust(options: Options) -> Options {
    Options {
        trust_domain: Some(TRUST_DOMAIN.parse().expect("a domain")),
        // On a busy machine an Envoy takes its time.
        warming_max: Duration::from_secs(60),
        ..options
    }
}

/// What a proxy is given of a certificate.
pub fn bundle(issued: &Issued) -> CertificateBundle {
    CertificateBundle {
        certificate_chain: issued.certificate_pem().to_owned(),
        private_key: issued.key_pem().to_owned(),
        roots: issued.root_pem().to_owned(),
    }
}

impl Server {
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// True if there are proxies and each runs with exactly what it should.
    /// What every proxy should have of a kind now.
    pub fn wanted(&self, kind: Kind) -> Vec<u64> {
        let status = self.control.status();
        let kinds = status.iter().flat_map(|proxy| &proxy.kinds);
        kinds.filter(|of| of.kind == kind).map(|of| of.wanted).collect()
    }

    pub fn all_current(&self) -> bool {
        let status = self.control.status();
        !status.is_empty() && status.iter().all(ProxyStatus::is_current)
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => {
                let (stream, address) = accepted.expect("accept");
                connections.spawn(serve_one(stream, address, tls.clone(), router.clone()));
            }
        }
    }
    // Streams end by the same token; connections are then closed.
    connections.shutdown().await;
}

/// What the server's listener does for every connection: the peer goes with each request.
async fn serve_one(stream: TcpStream, address: SocketAddr, tls: TlsAcceptor, router: Router) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let chain = stream.get_ref().1.peer_certificates();
    let identity = chain.and_then(|chain| Identity::from_chain(chain).ok());
    let peer = Peer { identity, encrypted: true, address: Some(address) };
    let service = router.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request.map(axum::body::Body::new)
    });
    let connection = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .into_owned();
    // A proxy that goes away is no failure of the server.
    let _ = connection.await;
}

#[allow(clippy::disallowed_methods, reason = "Envoy checks certificates against the real clock")]
fn validity() -> Validity {
    Validity::starting(SystemTime::now(), Duration::from_secs(3600))
}
