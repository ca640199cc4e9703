//! The mesh in this server: what it is told at its start, who issues its certificates, where it is
//! served.
use orrery_access::Authorities;
use orrery_fleet::middleware;
use orrery_hub::{Clock, Error, Hub};
use orrery_mesh::control::Options;
use orrery_mesh::grpc::{AggregatedService, EndpointService};
use orrery_mesh::hub::{
    HubBindings, IssuedCertificate, Issuer, KubernetesSource, Mesh, MeshOptions, SidecarIssuer,
    SidecarTrust,
};
use orrery_mesh::kubernetes::Client;
use orrery_mesh::names::ProxyName;
use orrery_mesh::providers::KubernetesProvider;
use orrery_mesh::providers::azure::{AzureProvider, Credentials, Manager};
use orrery_mesh::secrets::CertificateBundle;
use orrery_pki::{Authority, IssueRequest, Role, SpiffeId, TlsMaterial, TrustDomain, Validity};
use orrery_runtime::{OnEnd, Tasks};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long the certificate of a proxy is good for. Short, because they renew themselves.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The same for what a sidecar shows to the servers: with the next one it starts anew, so that is seldom. Whoever is
/// disabled is refused by name, however long this is good for.
const SIDECAR_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a server is told about its mesh.
#[derive(Clone, Debug, Default)]
pub struct MeshSettings {
    /// PEM files of the authority that signs the certificates of proxies, and of its key. Without it the
    /// server's own authority does; without either, services cannot be encrypted.
    pub authority: Option<(PathBuf, PathBuf)>,
    /// Kubernetes clusters by name: their kubeconfigs. Declarations and instances are read there.
    pub clusters: Vec<(String, PathBuf)>,
    /// Azure subscriptions by name: JSON files with their credentials.
    pub azure: Vec<(String, PathBuf)>,
}

/// Why a server cannot serve a mesh as it was told to.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    #[error("cannot read {}: {cause}", .file.display())]
    Read { file: PathBuf, cause: std::io::Error },
    #[error("cannot use the authority in {}: {cause}", .file.display())]
    Authority { file: PathBuf, cause: orrery_pki::AuthorityError },
    #[error("cannot use the kubeconfig {}: {cause}", .file.display())]
    Kubeconfig { file: PathBuf, cause: String },
    #[error("cannot use the credentials in {}: {cause}", .file.display())]
    Credentials { file: PathBuf, cause: serde_json::Error },
}

/// The settings, read and checked.
pub struct Prepared {
    /// What the SPIFFE ids of servers begin with, where connections are encrypted.
    servers: Option<String>,
    trust_domain: Option<TrustDomain>,
    authority: Option<Arc<Authority>>,
    clusters: Vec<(String, Client)>,
    azure: Vec<(String, Credentials)>,
}

impl Prepared {
    pub async fn new(settings: MeshSettings, tls: Option<&TlsMaterial>) -> Result<Self, MeshError> {
        let mut clusters = Vec::new();
        for (name, file) in settings.clusters {
            let client = orrery_mesh::kubernetes::client(&file).await;
            let client = client.map_err(|cause| MeshError::Kubeconfig { file, cause })?;
            clusters.push((name, client));
        }
        let azure = settings.azure.into_iter().map(|(name, file)| Ok((name, credentials(file)?)));
        let azure = azure.collect::<Result<_, MeshError>>()?;
        let authority = settings.authority.map(|(file, key)| authority(file, key)).transpose()?;
        let of_authority = authority.as_ref().map(|authority| authority.trust_domain().clone());
        let own = tls.and_then(|tls| tls.identity().spiffe.as_ref()).map(SpiffeId::trust_domain);
        let servers = own.map(|domain| format!("spiffe://{domain}/{}/", Role::Server));
        let servers = tls.map(|_| servers.unwrap_or_default());
        let trust_domain = own.cloned().or(of_authority);
        Ok(Self { servers, trust_domain, authority: authority.map(Arc::new), clusters, azure })
    }

    /// Starts the mesh of the server with this id.
    pub fn spawn(
        &self,
        hub: &Hub,
        server: &str,
        authorities: &Authorities,
        tasks: &mut Tasks,
    ) -> Result<Arc<Mesh>, Error> {
        let issuer = self.issuer(hub, authorities, tasks);
        let control = Options { trust_domain: self.trust_domain.clone(), ..Options::default() };
        let sidecars = self.sidecars(authorities, tasks);
        let mut options = MeshOptions { control, issuer, sidecars, ..MeshOptions::default() };
        self.follow_clusters(hub, &mut options, tasks);
        self.follow_azure(hub, &mut options, tasks)?;
        Mesh::spawn(hub, server, options, tasks)
    }

    /// The authority that was given as files, else the one that is stored, if there is one.
    fn issuer(
        &self,
        hub: &Hub,
        authorities: &Authorities,
        tasks: &mut Tasks,
    ) -> Option<Arc<dyn Issuer>> {
        if let Some(authority) = self.authority.clone() {
            return Some(Arc::new(AuthorityIssuer { authority, clock: hub.clock().clone() }));
        }
        authorities.current()?;
        let rotated = Arc::new(Notify::new());
        let following = tell(authorities.clone(), rotated.clone(), tasks.stop_token());
        tasks.spawn("mesh-authority", OnEnd::StopAll, never_fails(following));
        Some(Arc::new(StoredIssuer { authorities: authorities.clone(), rotated }))
    }

    /// Sidecars show to servers what the servers' own authority signed, whoever signs what they show to each other.
    fn sidecars(&self, authorities: &Authorities, tasks: &mut Tasks) -> SidecarTrust {
        let Some(servers) = self.servers.clone() else { return SidecarTrust::Plain };
        let rotated = Arc::new(Notify::new());
        let following = tell(authorities.clone(), rotated.clone(), tasks.stop_token());
        tasks.spawn("mesh-sidecar-authority", OnEnd::StopAll, never_fails(following));
        let issuer = Arc::new(SidecarAuthority { authorities: authorities.clone(), rotated });
        SidecarTrust::Proven { issuer, servers }
    }

    fn follow_clusters(&self, hub: &Hub, options: &mut MeshOptions, tasks: &mut Tasks) {
        for (name, client) in &self.clusters {
            let provider = KubernetesProvider::new(name);
            let source = KubernetesSource::new(name, hub.scheme().clone());
            let following = provider.clone().run(client.clone(), tasks.stop_token());
            tasks.spawn("mesh-cluster-endpoints", OnEnd::StopAll, never_fails(following));
            let following = source.clone().run(client.clone(), tasks.stop_token());
            tasks.spawn("mesh-cluster-declarations", OnEnd::StopAll, never_fails(following));
            options.providers.push(provider);
            options.sources.push(source);
        }
    }

    fn follow_azure(
        &self,
        hub: &Hub,
        options: &mut MeshOptions,
        tasks: &mut Tasks,
    ) -> Result<(), Error> {
        if self.azure.is_empty() {
            return Ok(());
        }
        let bindings = HubBindings::spawn(hub, tasks)?;
        for (name, credentials) in &self.azure {
            let manager = Manager::new(credentials.clone());
            let provider = AzureProvider::new(name, manager, bindings.clone());
            let asking = provider.clone().run(tasks.stop_token());
            tasks.spawn("mesh-azure", OnEnd::StopAll, never_fails(asking));
            options.providers.push(provider);
        }
        Ok(())
    }
}

/// Passes on that the authority changed, until told to stop.
async fn tell(authorities: Authorities, rotated: Arc<Notify>, stop: CancellationToken) {
    let mut changes = authorities.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => match changed {
                Ok(()) => rotated.notify_one(),
                // Nothing will change any more; what was issued is still renewed.
                Err(_) => return stop.cancelled().await,
            },
        }
    }
}

async fn never_fails(task: impl Future<Output = ()>) -> Result<(), Infallible> {
    task.await;
    Ok(())
}

fn credentials(file: PathBuf) -> Result<Credentials, MeshError> {
    match std::fs::read(&file) {
        Ok(text) => {
            serde_json::from_slice(&text).map_err(|cause| MeshError::Credentials { file, cause })
        }
        Err(cause) => Err(MeshError::Read { file, cause }),
    }
}

fn authority(file: PathBuf, key: PathBuf) -> Result<Authority, MeshError> {
    let read = |file: &PathBuf| {
        std::fs::read_to_string(file).map_err(|cause| MeshError::Read { file: file.clone(), cause })
    };
    let (certificate, key) = (read(&file)?, read(&key)?);
    Authority::from_pem(&certificate, &key, None)
        .map_err(|cause| MeshError::Authority { file, cause })
}

/// Adds the services that proxies ask.
pub fn serve(routes: &mut tonic::service::RoutesBuilder, mesh: &Mesh, stop: &CancellationToken) {
    routes
        .add_service(EndpointService::new(mesh.control.clone(), stop.clone()))
        .add_service(AggregatedService::new(mesh.control.clone(), stop.clone()));
}

/// Whom the transport talks to, in the words of the mesh.
pub fn peer(peer: &middleware::Peer) -> orrery_mesh::Peer {
    orrery_mesh::Peer {
        identity: peer.identity.clone(),
        encrypted: peer.encrypted,
        address: peer.address,
    }
}

/// Issues in the name of the authority that this server has the key of.
struct AuthorityIssuer {
    authority: Arc<Authority>,
    clock: Arc<dyn Clock>,
}

impl Issuer for AuthorityIssuer {
    fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String> {
        let seconds = u64::try_from(self.clock.now().seconds).unwrap_or_default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        issue(&self.authority, self.authority.certificate_pem(), proxy, now, LIFETIME)
    }
}

/// Issues in the name of the authority that all servers share; while it rotates, proxies trust the old
/// root and the new one.
struct StoredIssuer {
    authorities: Authorities,
    rotated: Arc<Notify>,
}

impl Issuer for StoredIssuer {
    fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String> {
        let current = self.authorities.signer().map_err(|problem| problem.to_string())?;
        let authority = current.authority().map_err(|problem| problem.to_string())?;
        issue(authority, current.roots_pem(), proxy, self.authorities.now(), LIFETIME)
    }

    fn rotated(&self) -> Option<Arc<Notify>> {
        Some(self.rotated.clone())
    }
}

/// Issues what sidecars show to the servers.
struct SidecarAuthority {
    authorities: Authorities,
    rotated: Arc<Notify>,
}

impl SidecarIssuer for SidecarAuthority {
    fn roots(&self) -> Result<String, String> {
        let current = self.authorities.signer().map_err(|problem| problem.to_string())?;
        Ok(current.roots_pem().to_owned())
    }

    fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String> {
        let current = self.authorities.signer().map_err(|problem| problem.to_string())?;
        let authority = current.authority().map_err(|problem| problem.to_string())?;
        let (roots, now) = (current.roots_pem(), self.authorities.now());
        issue(authority, roots, proxy, now, SIDECAR_LIFETIME)
    }

    fn rotated(&self) -> Arc<Notify> {
        self.rotated.clone()
    }
}

fn issue(
    authority: &Authority,
    roots: &str,
    proxy: &ProxyName,
    now: SystemTime,
    lifetime: Duration,
) -> Result<IssuedCertificate, String> {
    let request = IssueRequest::new(Role::Proxy, proxy.as_str());
    let issued = authority.issue(&request, Validity::starting(now, lifetime));
    let issued = issued.map_err(|error| error.to_string())?;
    let lifetime = issued.identity().not_after.duration_since(now);
    let lifetime = lifetime.map_err(|_| "the authority's own certificate has ended")?;
    let bundle = CertificateBundle {
        certificate_chain: issued.certificate_pem().to_owned(),
        private_key: issued.key_pem().to_owned(),
        roots: roots.to_owned(),
    };
    Ok(IssuedCertificate { bundle, lifetime })
}
