//! What a server is told at its start.
use crate::identity::IdentityOptions;
use crate::mesh::MeshSettings;
use crate::operations::Operations;
use crate::side::Listen;
use orrery_pki::TlsFiles;
use orrery_store::EtcdOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where everything is kept.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// The embedded engine, in this folder.
    Embedded(PathBuf),
    /// An etcd cluster, which several servers can share.
    Etcd(EtcdOptions),
    /// Nothing is kept; for tests.
    Memory,
}

impl StoreOptions {
    /// Where the embedded engine keeps its files.
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Embedded(folder) => Some(folder.clone()),
            Self::Etcd(_) | Self::Memory => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// REST, gRPC, agents and commanders.
    pub listen: SocketAddr,
    /// Machine drivers.
    pub drivers: Listen,
    pub store: StoreOptions,
    /// All three PEM files, or none for plain connections.
    pub tls: TlsFiles,
    /// Plain connections are taken from this machine only, unless this is set.
    pub allow_plain: bool,
    /// Where other servers reach this one; the address that it listens on when absent.
    pub advertise: Option<String>,
    /// The ending of our groups: `apps.<suffix>`.
    pub group_suffix: String,
    /// The authority, joining, and what the server's own certificate says.
    pub identity: IdentityOptions,
    /// What operators decide beside that.
    pub operations: Operations,
    pub mesh: MeshSettings,
    /// The registry of storage controllers and the proxy to them.
    pub storage: Listen,
}
