//! The mesh in this server: what it is told at its start, who issues its certificates, where it is
//! served.
use orrery_fleet::middleware;
use orrery_hub::{Clock, Error, Hub};
use orrery_mesh::control::Options;
use orrery_mesh::grpc::{AggregatedService, EndpointService};
use orrery_mesh::hub::{IssuedCertificate, Issuer, Mesh, MeshOptions};
use orrery_mesh::names::ServiceName;
use orrery_mesh::secrets::CertificateBundle;
use orrery_pki::{Authority, IssueRequest, Role, SpiffeId, TlsMaterial, TrustDomain, Validity};
use orrery_runtime::Tasks;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// How long the certificate of a proxy is good for. Short, because they renew themselves.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// What a server is told about its mesh.
#[derive(Clone, Debug, Default)]
pub struct MeshSettings {
    /// PEM files of the authority that signs the certificates of proxies, and of its key. Without it
    /// services cannot be encrypted.
    pub authority: Option<(PathBuf, PathBuf)>,
}

/// Why a server cannot serve a mesh as it was told to.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    #[error("cannot read {}: {cause}", .file.display())]
    Read { file: PathBuf, cause: std::io::Error },
    #[error("cannot use the authority in {}: {cause}", .file.display())]
    Authority { file: PathBuf, cause: orrery_pki::AuthorityError },
}

/// The settings, read and checked.
pub struct Prepared {
    trust_domain: Option<TrustDomain>,
    authority: Option<Arc<Authority>>,
}

impl Prepared {
    pub fn new(settings: MeshSettings, tls: Option<&TlsMaterial>) -> Result<Self, MeshError> {
        let authority = settings.authority.map(|(file, key)| authority(file, key)).transpose()?;
        let of_authority = authority.as_ref().map(|authority| authority.trust_domain().clone());
        let own = tls.and_then(|tls| tls.identity().spiffe.as_ref()).map(SpiffeId::trust_domain);
        Ok(Self { trust_domain: own.cloned().or(of_authority), authority: authority.map(Arc::new) })
    }

    /// Starts the mesh of the server with this id.
    pub fn spawn(&self, hub: &Hub, server: &str, tasks: &mut Tasks) -> Result<Arc<Mesh>, Error> {
        let issuer = self.authority.clone().map(|authority| {
            let clock = hub.clock().clone();
            Arc::new(AuthorityIssuer { authority, clock }) as Arc<dyn Issuer>
        });
        let control = Options { trust_domain: self.trust_domain.clone(), ..Options::default() };
        let options = MeshOptions { control, issuer, ..MeshOptions::default() };
        Mesh::spawn(hub, server, options, tasks)
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
    fn issue(&self, service: &ServiceName) -> Result<IssuedCertificate, String> {
        let seconds = u64::try_from(self.clock.now().seconds).unwrap_or_default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let name = format!("{}.{}", service.name(), service.project());
        let request = IssueRequest::new(Role::Proxy, name);
        let issued = self.authority.issue(&request, Validity::starting(now, LIFETIME));
        let issued = issued.map_err(|error| error.to_string())?;
        let lifetime = issued.identity().not_after.duration_since(now);
        let lifetime = lifetime.map_err(|_| "the authority's own certificate has ended")?;
        let bundle = CertificateBundle {
            certificate_chain: issued.certificate_pem().to_owned(),
            private_key: issued.key_pem().to_owned(),
            roots: issued.root_pem().to_owned(),
        };
        Ok(IssuedCertificate { bundle, lifetime })
    }
}
