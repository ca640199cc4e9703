//! How a machine of ours comes to its certificate: files of the person's, or joined.
use crate::args::{AgentArguments, Joining, Tls};
use orrery_client::Endpoint;
use orrery_client::identity::{Joiner, Member, Renewal, server_on};
use orrery_pki::{ADMINS, IssueRequest, LiveTls, Role, TlsFiles, read_pem_file, renewal_at};
use orrery_runtime::{OnEnd, Tasks};
use orrery_server::Identities;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

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

/// Keeps certificates of [`admin`] and [`beside`] good while the server runs: an authority that goes must not lock out
/// the person who runs the server, nor the agent beside it.
pub fn spawn_keeping(
    identities: &Identities,
    data: &Path,
    agent: Option<(String, PathBuf)>,
    tasks: &mut Tasks,
) {
    let keeping = keep(identities.clone(), data.to_owned(), agent, tasks.stop_token());
    tasks.spawn("kept-certificates", OnEnd::StopAll, keeping);
}

async fn keep(
    identities: Identities,
    data: PathBuf,
    agent: Option<(String, PathBuf)>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut authority = identities.authorities().subscribe();
    loop {
        let kept = admin(&identities, &data).and_then(|_| match &agent {
            Some((name, folder)) => of_agent_beside(&identities, name, folder).map(|_| ()),
            None => Ok(()),
        });
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot renew the certificates that the server keeps");
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = authority.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// A certificate that is kept in a folder, renewed when it has little life left or another authority signs now, with
/// whom to trust beside it.
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
        let current = identities.authorities().signer()?;
        if fresh && current.has_signed(identity) {
            return trusting(files, current.roots_pem());
        }
        // The key stays: whoever reads the files meanwhile finds two that belong together.
        let key = files.key.as_deref().map(read_pem_file).transpose()?.unwrap_or_default();
        let signed = identities.renew(&key, request, lifetime)?;
        files.write(current.roots_pem(), &signed.certificate_pem, None)?;
        return Ok(files);
    }
    let issued = identities.issue(request, lifetime)?;
    files.write(issued.root_pem(), issued.certificate_pem(), Some(issued.key_pem()))?;
    Ok(files)
}

/// Writes down whom to trust, unless that stands there.
fn trusting(files: TlsFiles, roots: &str) -> anyhow::Result<TlsFiles> {
    let root = files.root.as_deref().map(read_pem_file).transpose()?;
    if root.is_some_and(|root| root.as_str() != roots) {
        files.write_root(roots)?;
    }
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

impl From<Member> for Linked {
    fn from(member: Member) -> Self {
        Self { endpoint: member.endpoint, renewal: Some(member.renewal) }
    }
}

/// For an agent that is started beside its server, and needs no token.
pub fn beside(
    identities: &Identities,
    server: &str,
    name: &str,
    folder: &Path,
) -> anyhow::Result<Linked> {
    let files = of_agent_beside(identities, name, folder)?;
    let (server, name) = (server.to_owned(), name.to_owned());
    let joiner = Joiner { server, token: None, role: Role::Agent, name, files };
    Ok(joiner.open()?.into())
}

fn of_agent_beside(identities: &Identities, name: &str, folder: &Path) -> anyhow::Result<TlsFiles> {
    let request = IssueRequest::new(Role::Agent, name);
    kept(identities, &request, identities.lifetime(), &folder.join(FOLDER))
}

/// An agent's server: with the files that were given; else with what was joined with before; else by
/// joining.
pub async fn of_agent(arguments: &AgentArguments, folder: &Path) -> anyhow::Result<Linked> {
    let given = arguments.tls.files();
    if !given.is_empty() {
        let live = LiveTls::from_files(&given)?;
        return Ok(Endpoint::live(&arguments.server, live)?.into());
    }
    if arguments.token.is_none() && !arguments.server.starts_with("https:") {
        return Ok(Endpoint::new(&arguments.server, None)?.into());
    }
    let joiner = Joiner {
        server: arguments.server.clone(),
        token: arguments.token.clone(),
        role: Role::Agent,
        name: arguments.name.clone(),
        files: TlsFiles::in_folder(&folder.join(FOLDER)),
    };
    match joiner.member().await? {
        Some(member) => Ok(member.into()),
        None => Ok(Endpoint::new(&arguments.server, None)?.into()),
    }
}

/// The certificate of a process that is no agent.
#[derive(Default)]
pub struct Own {
    /// `None` for plain connections.
    pub live: Option<LiveTls>,
    renewal: Option<Renewal>,
}

/// A process that wants a certificate.
pub struct Wanting<'a> {
    pub role: Role,
    pub name: &'a str,
    /// The port of the server that it works with: the API is on the same host.
    pub beside: &'a str,
    /// Of the process; the certificate is kept below it.
    pub folder: &'a Path,
}

impl Own {
    /// From the files that were given; else what was joined with before, or by joining. Without a token
    /// nothing is looked for unless it was joined before.
    pub async fn find(tls: &Tls, joining: &Joining, who: Wanting<'_>) -> anyhow::Result<Self> {
        let given = tls.files();
        if !given.is_empty() {
            return Ok(Self { live: LiveTls::from_files(&given)?, renewal: None });
        }
        let folder = match &joining.identity_dir {
            Some(folder) => folder.clone(),
            None => who.folder.join(FOLDER),
        };
        let server = joining.join_server.clone();
        let joiner = Joiner {
            server: server.unwrap_or_else(|| server_on(who.beside)),
            token: joining.token.clone(),
            role: who.role,
            name: who.name.to_owned(),
            files: TlsFiles::in_folder(&folder),
        };
        Ok(match Box::pin(joiner.member()).await? {
            Some(Member { live, renewal, .. }) => Self { live: Some(live), renewal: Some(renewal) },
            None => Self::default(),
        })
    }

    /// Renews the certificate before it ends, for as long as `work` goes on.
    pub async fn kept_during<T>(self, work: impl Future<Output = T>) -> T {
        let Some(renewal) = self.renewal else { return Box::pin(work).await };
        let renewing = Box::pin(renewal.run(CancellationToken::new()));
        tokio::select! {
            outcome = Box::pin(work) => outcome,
            // It goes on for ever.
            Ok(()) = renewing => std::future::pending().await,
        }
    }
}
