//! Commands and options about identities.
use super::Connection;
use super::values::{duration, some_time};
use clap::{Args, Subcommand, ValueEnum};
use orrery_pki::{Role, TrustDomain};
use orrery_server::{IdentityOptions, OidcOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Who signs the certificates, and what the server's own says.
#[derive(Clone, Debug, Default, Args)]
pub struct IdentityArguments {
    /// Take encrypted connections only, with certificates of an authority that the server keeps
    #[arg(long)]
    pub tls: bool,
    /// PEM file of an authority to sign with, instead of one that the server makes
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// PEM file of the authority's key; without it, nobody can join
    #[arg(long, value_name = "FILE", requires = "authority")]
    pub authority_key: Option<PathBuf>,
    /// Trust domain of the certificates [default: orrery.local]
    #[arg(long, value_name = "DOMAIN")]
    pub trust_domain: Option<TrustDomain>,
    /// Name or address by which the server is dialled; may be given more than once
    #[arg(long = "tls-name", value_name = "NAME", requires = "tls")]
    pub tls_names: Vec<String>,
    /// How long certificates are good for that the server signs: 12h, 7d [default: 7d]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    pub certificate_lifetime: Option<Duration>,
    #[command(flatten)]
    pub oidc: OidcArguments,
}

/// Machines renew after two thirds of a lifetime; they must have time for it.
const LIFETIME_MIN: Duration = Duration::from_secs(10);

fn lifetime(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    match found < LIFETIME_MIN {
        true => Err(format!("certificates live at least {LIFETIME_MIN:?}")),
        false => Ok(found),
    }
}

/// An issuer of OpenID Connect that knows people.
#[derive(Clone, Debug, Default, Args)]
pub struct OidcArguments {
    /// Issuer of OpenID Connect whose tokens are taken: https://...
    #[arg(long, value_name = "URL", requires = "oidc_audience")]
    pub oidc_issuer: Option<String>,
    /// Audience that the tokens must be made for
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    pub oidc_audience: Option<String>,
    /// Claim that holds a person's name
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    pub oidc_username_claim: String,
    /// Claim that holds a person's groups
    #[arg(long, value_name = "CLAIM", default_value = "groups")]
    pub oidc_groups_claim: String,
    /// Put before names and groups of the issuer
    #[arg(long, value_name = "PREFIX", default_value = "oidc:")]
    pub oidc_prefix: String,
    /// PEM file of the authority that the issuer's certificate comes from [default: public ones]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer")]
    pub oidc_root: Option<PathBuf>,
}

impl OidcArguments {
    fn options(&self) -> Option<OidcOptions> {
        Some(OidcOptions {
            issuer: self.oidc_issuer.clone()?,
            audience: self.oidc_audience.clone()?,
            username_claim: self.oidc_username_claim.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            prefix: self.oidc_prefix.clone(),
        })
    }
}

impl IdentityArguments {
    /// What the server is told.
    pub fn options(&self) -> IdentityOptions {
        let defaults = IdentityOptions::default();
        IdentityOptions {
            own: self.tls,
            authority: self.authority.clone(),
            authority_key: self.authority_key.clone(),
            trust_domain: self.trust_domain.clone(),
            names: self.tls_names.clone(),
            lifetime: self.certificate_lifetime.unwrap_or(defaults.lifetime),
            oidc: self.oidc.options(),
            oidc_root: self.oidc.oidc_root.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub struct TokenArguments {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it; the server keeps only a hash of it
    Create(TokenCreate),
}

#[derive(Debug, Args)]
pub struct TokenCreate {
    /// Join token: what a machine becomes with it
    #[arg(long, value_enum, requires = "name", required_unless_present = "user")]
    pub role: Option<Machine>,
    /// Name of the machine, or a pattern in which a star stands for any letters
    #[arg(long, value_name = "NAME", requires = "role")]
    pub name: Option<String>,
    /// Access token instead: the person or program that it stands for
    #[arg(long, value_name = "NAME", conflicts_with_all = ["role", "name", "uses"])]
    pub user: Option<String>,
    /// Group that the person belongs to; may be given more than once
    #[arg(long = "group", value_name = "GROUP", requires = "user")]
    pub groups: Vec<String>,
    /// How long it is good for: 30m, 24h
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = some_time)]
    pub ttl: Duration,
    /// How many machines may join with it [default: any number]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..))]
    pub uses: Option<i64>,
    #[command(flatten)]
    pub connection: Connection,
}

/// How a machine comes to a certificate of its own, instead of being given the files.
#[derive(Clone, Debug, Default, Args)]
pub struct Joining {
    /// Join token: a certificate is got with it, kept, and renewed before it ends
    #[arg(long, env = "ORRERY_JOIN_TOKEN", hide_env_values = true, conflicts_with = "certificate")]
    pub token: Option<String>,
    /// Server to join: https://HOST:PORT [default: port 7443 of the host that is connected to]
    #[arg(long, value_name = "URL", env = "ORRERY_SERVER")]
    pub join_server: Option<String>,
    /// Folder that the certificate is kept in [default: identity, in the folder of this process]
    #[arg(long, value_name = "FOLDER")]
    pub identity_dir: Option<PathBuf>,
}

/// The roles of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    Agent,
    Driver,
    Proxy,
    Controller,
    Host,
}

impl Machine {
    pub fn role(self) -> Role {
        match self {
            Self::Agent => Role::Agent,
            Self::Driver => Role::Driver,
            Self::Proxy => Role::Proxy,
            Self::Controller => Role::Controller,
            Self::Host => Role::Host,
        }
    }
}

#[derive(Debug, Args)]
pub struct JoinArguments {
    /// What this machine becomes
    #[arg(long, value_enum)]
    pub role: Machine,
    /// Name of this machine
    #[arg(long)]
    pub name: String,
    /// Server to join: https://HOST:PORT
    #[arg(long, env = "ORRERY_SERVER", value_name = "URL")]
    pub server: String,
    /// Join token; not needed when the folder holds a certificate already
    #[arg(long, env = "ORRERY_JOIN_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Folder for ca.pem, certificate.pem and key.pem
    #[arg(long, value_name = "FOLDER")]
    pub dir: PathBuf,
    /// Stay, and renew the certificate before it ends; whoever uses the files notices
    #[arg(long)]
    pub renew: bool,
}

#[derive(Debug, Args)]
pub struct PkiArguments {
    #[command(subcommand)]
    pub command: PkiCommand,
}

#[derive(Debug, Subcommand)]
pub enum PkiCommand {
    /// Make a certificate authority: ca.pem and ca-key.pem in a folder
    Init(PkiInit),
    /// Sign a certificate with the authority in a folder, with a key of its own
    Issue(PkiIssue),
    /// Show what PEM files hold
    Show {
        /// PEM files of certificates or keys
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Put a new authority in the place of the server's; both are trusted then
    Rotate(PkiRotate),
}

#[derive(Debug, Args)]
pub struct PkiInit {
    /// Folder for the authority; it must not hold one yet
    #[arg(long, value_name = "FOLDER", default_value = "pki")]
    pub dir: PathBuf,
    /// Trust domain of the certificates
    #[arg(long, value_name = "DOMAIN", default_value = "orrery.local")]
    pub trust_domain: TrustDomain,
    /// How long the authority is good for
    #[arg(long, value_name = "DURATION", default_value = "3650d", value_parser = some_time)]
    pub lifetime: Duration,
}

#[derive(Debug, Args)]
pub struct PkiIssue {
    /// What the holder is: server, user, agent, driver, proxy, controller or host
    #[arg(long)]
    pub role: Role,
    /// Name of the holder
    #[arg(long)]
    pub name: String,
    /// Folder of the authority
    #[arg(long, value_name = "FOLDER", default_value = "pki")]
    pub dir: PathBuf,
    /// Folder for the certificate [default: the folder of the authority]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Name under which the holder is dialled; may be given more than once
    #[arg(long = "dns", value_name = "NAME")]
    pub dns_names: Vec<String>,
    /// Address under which the holder is dialled; may be given more than once
    #[arg(long = "ip", value_name = "ADDRESS")]
    pub addresses: Vec<std::net::IpAddr>,
    /// Group of a person; members of orrery:admins may do everything
    #[arg(long)]
    pub group: Option<String>,
    /// How long the certificate is good for
    #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = some_time)]
    pub lifetime: Duration,
}

#[derive(Debug, Args)]
pub struct PkiRotate {
    /// Trust the old authority no longer; do it when every machine has renewed its certificate
    #[arg(long)]
    pub finish: bool,
    /// Also when machines are connected that have not renewed theirs: they have to join anew
    #[arg(long, requires = "finish")]
    pub force: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct AuthArguments {
    #[command(subcommand)]
    pub command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub enum AuthCommand {
    /// Show who the server takes you for
    Whoami(WhoAmI),
    /// Ask whether you may do something; exits with 1 when not
    CanI(CanI),
}

#[derive(Debug, Args)]
pub struct WhoAmI {
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct CanI {
    /// What: get, list, watch, create, update, patch, delete, deletecollection
    #[arg(required_unless_present = "list")]
    pub verb: Option<String>,
    /// With what: a kind, one of its parts, or one object: workloads, workloads/log, secret/db
    #[arg(value_name = "KIND[/NAME]", required_unless_present = "list")]
    pub resource: Option<String>,
    /// Show everything that you may do
    #[arg(long, conflicts_with_all = ["verb", "resource"])]
    pub list: bool,
    /// Project to ask about
    #[arg(short, long)]
    pub project: Option<String>,
    /// Ask about all projects at once
    #[arg(short = 'A', long, conflicts_with = "project")]
    pub all_projects: bool,
    /// Part of the resource: status, log, exec
    #[arg(long, value_name = "PART")]
    pub subresource: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}
