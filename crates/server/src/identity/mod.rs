//! Who the server is, and who signs: the wiring of `access` and TLS.
//!
//! ```text
//!   three PEM files ──┐
//!   the authority ────┴─> LiveTls ─> every handshake, on every port, with what is current
//!        └──> roots: whom the server trusts
//! ```
mod authenticate;
mod cut;
mod ending;
mod farewell;
mod fetch;
mod files;
mod guard;
mod lasting;
mod own;

pub use authenticate::{authenticate, proven};
pub use cut::Cut;
pub use ending::{Ending, GOOD_NO_LONGER, LastWords, Lasts};
pub use farewell::farewell;
pub use guard::{Borrowed, Guard, asked_of_part, asked_of_resource};
pub use lasting::{Lasting, Uses};

use fetch::HttpFetch;
use orrery_access::oidc::{Oidc, OidcOptions};
use orrery_access::{Access, Authorities, AuthorityProblem, Current};
use orrery_hub::Hub;
use orrery_pki::{
    AuthorityError, CertificateRequest, Identity, IssueRequest, Issued, LiveTls, Refuses,
    Requested, Role, Signed, SpiffeId, TlsFiles, TrustDomain, Validity,
};
use orrery_runtime::{OnEnd, Tasks};
use own::Own;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

const TRUST_DOMAIN_DEFAULT: &str = "orrery.local";

/// What a server is told about identities.
#[derive(Clone, Debug)]
pub struct IdentityOptions {
    /// Make an authority unless there is one, and sign the server's own certificate with it.
    pub own: bool,
    /// PEM file of an authority of the user's, and of its key.
    pub authority: Option<PathBuf>,
    pub authority_key: Option<PathBuf>,
    pub trust_domain: Option<TrustDomain>,
    /// Names and addresses by which the server is dialled, beside localhost.
    pub names: Vec<String>,
    /// Of the certificates that are signed for machines, and of the server's own.
    pub lifetime: Duration,
    /// An issuer of OpenID Connect that knows people, and the root of its certificate.
    pub oidc: Option<OidcOptions>,
    pub oidc_root: Option<PathBuf>,
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            own: false,
            authority: None,
            authority_key: None,
            trust_domain: None,
            names: Vec::new(),
            lifetime: orrery_access::joining::LIFETIME_DEFAULT,
            oidc: None,
            oidc_root: None,
        }
    }
}

/// Why a server does not know who it is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityProblem {
    #[error(transparent)]
    Tls(#[from] orrery_pki::Error),
    #[error(transparent)]
    Authority(#[from] AuthorityProblem),
    #[error("--authority-key is the key of an authority: give --authority too")]
    KeyWithoutAuthority,
    #[error("{name:?} is no name or address by which a server can be dialled")]
    Name { name: String },
    #[error("the issuer of OpenID Connect cannot be used: {problem}")]
    Issuer { problem: String },
    #[error("cannot tell the address of the listener: {0}")]
    Address(#[from] std::io::Error),
}

/// The identities of one server.
#[derive(Clone)]
pub struct Identities {
    authorities: Authorities,
    lifetime: Duration,
    live: Option<LiveTls>,
    own: Option<Own>,
    oidc: Option<Arc<Oidc>>,
}

impl Identities {
    /// The server's own PEM files; all three, or none.
    pub fn files(files: &TlsFiles) -> Result<Option<LiveTls>, IdentityProblem> {
        Ok(LiveTls::from_files(files)?)
    }

    /// Reads or makes the authority, and the server's own certificate where no files hold it.
    pub async fn open(
        hub: &Hub,
        options: IdentityOptions,
        files: Option<LiveTls>,
        listener: &TcpListener,
    ) -> Result<Self, IdentityProblem> {
        let oidc = issuer(&options)?;
        let authorities = Authorities::open(hub).await?;
        bring(&authorities, &options).await?;
        if options.own {
            let default = || TRUST_DOMAIN_DEFAULT.parse().expect("it is well-formed");
            let domain = options.trust_domain.clone().unwrap_or_else(default);
            authorities.ensure(&domain).await?;
        }
        let own = match files {
            None if options.own => {
                let request = own::request(&options.names, listener.local_addr()?.ip())?;
                Some(Own::issue(authorities.clone(), request, options.lifetime)?)
            }
            None | Some(_) => None,
        };
        if let Some(live) = &files {
            files::trust(live, &authorities);
        }
        let live = files.or_else(|| own.as_ref().map(Own::live));
        Ok(Self { authorities, lifetime: options.lifetime, live, own, oidc })
    }

    /// What the server shows and trusts, on every port; `None` for plain connections.
    pub fn live(&self) -> Option<&LiveTls> {
        self.live.as_ref()
    }

    pub fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// A certificate with a key, for those who can reach into the server: the person who runs it.
    pub fn issue(
        &self,
        request: &IssueRequest,
        lifetime: Duration,
    ) -> Result<Issued, AuthorityProblem> {
        let current: Arc<Current> = self.authorities.signer()?;
        let validity = Validity::starting(self.authorities.now(), lifetime);
        Ok(current.authority()?.issue(request, validity)?)
    }

    /// The next certificate for a key that is there.
    pub fn renew(
        &self,
        key_pem: &str,
        wanted: &IssueRequest,
        lifetime: Duration,
    ) -> Result<Signed, AuthorityProblem> {
        let current: Arc<Current> = self.authorities.signer()?;
        let validity = Validity::starting(self.authorities.now(), lifetime);
        let request = Requested::for_key(key_pem, &wanted.name)?;
        let request = CertificateRequest::from_der(request.der());
        let request = request.map_err(|error| AuthorityError::Request(error.to_string()))?;
        let signed = current.authority()?.sign(&request, wanted, validity)?;
        self.authorities.note_renewed(&signed.identity);
        Ok(signed)
    }

    /// Keeps the certificate good, and refuses who is disabled. What is returned decides for all.
    pub fn spawn(&self, hub: &Hub, tasks: &mut Tasks) -> Result<Access, orrery_hub::Error> {
        let access = Access::spawn(hub, self.oidc.clone(), tasks)?;
        let stop = tasks.stop_token();
        tasks.spawn("authority", OnEnd::StopAll, self.authorities.clone().run(stop.clone()));
        let Some(live) = &self.live else { return Ok(access) };
        live.refuse(self.refusing(live, access.clone()));
        match &self.own {
            Some(own) => tasks.spawn("own-certificate", OnEnd::StopAll, own.clone().run(stop)),
            None => {
                let following = files::follow(live.clone(), self.authorities.clone(), stop);
                tasks.spawn("own-certificate", OnEnd::StopAll, following);
            }
        }
        Ok(access)
    }
}

impl Identities {
    /// Who is refused though an authority of ours has signed their certificate.
    fn refusing(&self, live: &LiveTls, access: Access) -> Refuses {
        let own = live.current().0.identity().spiffe.as_ref().map(SpiffeId::trust_domain).cloned();
        let authorities = self.authorities.clone();
        Arc::new(move |identity| {
            let current = authorities.current();
            let shared = current.as_ref().and_then(|current| current.trust_domain());
            if is_foreign(identity, &[own.as_ref(), shared]) {
                let id = identity.spiffe.as_ref().map(ToString::to_string);
                tracing::warn!(id, "refused: it is of another trust domain");
                return true;
            }
            access.refuses(identity)
        })
    }
}

/// Whether somebody belongs to another trust domain than those that are known here: an authority of the
/// user's may sign for several, and a name means something in its own only.
fn is_foreign(identity: &Identity, known: &[Option<&TrustDomain>]) -> bool {
    let Some(id) = &identity.spiffe else { return false };
    let mut known = known.iter().flatten().peekable();
    known.peek().is_some() && !known.any(|domain| *domain == id.trust_domain())
}

/// The request for a certificate of a server.
pub fn server_request(name: &str) -> IssueRequest {
    IssueRequest::new(Role::Server, name)
}

fn issuer(options: &IdentityOptions) -> Result<Option<Arc<Oidc>>, IdentityProblem> {
    let Some(oidc) = &options.oidc else { return Ok(None) };
    fetch::check_url(&oidc.issuer).map_err(|problem| IdentityProblem::Issuer { problem })?;
    let fetch = HttpFetch::new(options.oidc_root.as_deref())?;
    Ok(Some(Arc::new(Oidc::new(oidc.clone(), Arc::new(fetch)))))
}

async fn bring(
    authorities: &Authorities,
    options: &IdentityOptions,
) -> Result<(), IdentityProblem> {
    let Some(authority) = &options.authority else {
        return match options.authority_key {
            Some(_) => Err(IdentityProblem::KeyWithoutAuthority),
            None => Ok(()),
        };
    };
    let certificate = read(authority)?;
    let key = options.authority_key.as_deref().map(read).transpose()?;
    let domain = options.trust_domain.clone();
    authorities.bring(&certificate, key.as_ref().map(|key| key.as_str()), domain).await?;
    Ok(())
}

fn read(file: &Path) -> Result<zeroize::Zeroizing<String>, IdentityProblem> {
    Ok(orrery_pki::read_pem_file(file)?)
}
