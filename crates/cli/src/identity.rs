//! How a machine of ours comes to its certificate: files of the person's, or joined.
use crate::args::AgentArguments;
use anyhow::Context as _;
use orrery_client::Endpoint;
use orrery_client::identity::{Renewal, join};
use orrery_pki::{ADMINS, IssueRequest, JoinToken, LiveTls, Role, TlsFiles, renewal_at};
use orrery_server::Identities;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The folder below a machine's own that holds what it joined with.
const FOLDER: &str = "identity";

/// Name of the person who runs the server, and the folder of their certificate.
const ADMIN: &str = "admin";
/// Of the certificate of the person who runs the server; it is made anew at a later start.
const ADMIN_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// The certificate of the person who runs the server, with which everything is allowed.
pub fn admin(identities: &Identities, data: &Path) -> anyhow::Result<TlsFiles> {
    let request = IssueRequest::new(Role::User, ADMIN).group(ADMINS);
    kept(identities, &request, ADMIN_LIFETIME, &data.join("pki").join(ADMIN))
}

/// A certificate that is kept in a folder, made anew when it has little life left or another authority
/// signs now.
fn kept(
    identities: &Identities,
    request: &IssueRequest,
    lifetime: Duration,
    folder: &Path,
) -> anyhow::Result<TlsFiles> {
    let files = TlsFiles::in_folder(folder);
    let there = files.certificate.as_deref().is_some_and(Path::exists);
    if there && let Some(material) = files.load()? {
        let identity = material.identity();
        let fresh = now() < renewal_at(identity.not_before, identity.not_after, 0.5);
        let current = identities.authorities().current();
        if fresh && current.is_some_and(|current| current.has_signed(identity)) {
            return Ok(files);
        }
    }
    let issued = identities.issue(request, lifetime)?;
    files.write(issued.root_pem(), issued.certificate_pem(), Some(issued.key_pem()))?;
    Ok(files)
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the time of day")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// A server, and what keeps our certificate good, where we got it by joining.
pub struct Linked {
    pub endpoint: Endpoint,
    pub renewal: Option<Renewal>,
}

impl From<Endpoint> for Linked {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, renewal: None }
    }
}

impl Linked {
    /// For an agent that is started beside its server, and needs no token.
    pub fn beside(
        identities: &Identities,
        server: &str,
        name: &str,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let request = IssueRequest::new(Role::Agent, name);
        let files = kept(identities, &request, identities.lifetime(), &folder.join(FOLDER))?;
        Self::joined(server, files)
    }

    /// With what was joined with; it renews itself.
    fn joined(server: &str, files: TlsFiles) -> anyhow::Result<Self> {
        let live = LiveTls::from_files(&files)?.context("read the certificate joined with")?;
        let endpoint = Endpoint::live(server, Some(live.clone()))?;
        let renewal = Renewal::new(endpoint.clone(), files, live);
        Ok(Self { endpoint, renewal: Some(renewal) })
    }

    /// With the files that were given; else with what was joined with before; else by joining.
    pub async fn find(arguments: &AgentArguments, folder: &Path) -> anyhow::Result<Self> {
        let given = arguments.tls.files();
        if !given.is_empty() {
            let live = LiveTls::from_files(&given)?;
            return Ok(Endpoint::live(&arguments.server, live)?.into());
        }
        let folder = folder.join(FOLDER);
        let files = TlsFiles::in_folder(&folder);
        let joined = files.certificate.as_deref().is_some_and(Path::exists);
        let encrypted = arguments.server.starts_with("https:");
        match &arguments.token {
            Some(token) if !joined => {
                let token: JoinToken = token.parse()?;
                join(&arguments.server, &token, Role::Agent, &arguments.name, &folder).await?;
                tracing::info!(folder = %folder.display(), "joined, and keeping the certificate");
            }
            Some(_) => tracing::info!("joined already; the token is not needed any more"),
            None if joined && encrypted => {}
            None => return Ok(Endpoint::new(&arguments.server, None)?.into()),
        }
        Self::joined(&arguments.server, files)
    }
}
