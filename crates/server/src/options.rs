//! What a server is told at its start.
use crate::identity::IdentityOptions;
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

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// REST, gRPC, agents and commanders.
    pub listen: SocketAddr,
    pub store: StoreOptions,
    /// All three PEM files, or none for plain connections.
    pub tls: TlsFiles,
    /// Plain connections are taken from this machine only, unless this is set.
    pub allow_plain: bool,
    /// The ending of our groups: `apps.<suffix>`.
    pub group_suffix: String,
    /// The authority, joining, and what the server's own certificate says.
    pub identity: IdentityOptions,
}
