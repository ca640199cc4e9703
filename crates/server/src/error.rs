//! Why a server does not start.
use crate::identity::IdentityProblem;
use crate::side::SidePort;
use crate::{mesh, sealing, upstream};
use orrery_api::SchemeError;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {cause}")]
    Listen { address: SocketAddr, cause: std::io::Error },
    #[error(
        "{address} can be reached from other machines, and without certificates everybody there could do everything; give --tls, or --root, --certificate and --key, listen on 127.0.0.1, or say --allow-plain if the network is safe"
    )]
    PlainBeyondLoopback { address: SocketAddr },
    #[error(
        "cannot listen for {} on {address}: {cause}; name another address with {option}, or say {option} off",
        .side.peers, option = .side.option
    )]
    SideListen { side: SidePort, address: SocketAddr, cause: std::io::Error },
    #[error(
        "{address} can be reached from other machines, and without certificates any machine there could {}; give --tls, or --root, --certificate and --key, or say {} 127.0.0.1:{}",
        .side.danger, .side.option, .side.port
    )]
    PlainSide { side: SidePort, address: SocketAddr },
    #[error(transparent)]
    Identity(#[from] IdentityProblem),
    #[error("the kinds cannot be registered: {0}")]
    Scheme(#[from] SchemeError),
    #[error(transparent)]
    OpenStore(#[from] orrery_store::OpenError),
    #[error("cannot read the store: {0}")]
    Store(#[from] orrery_store::Error),
    #[error("cannot prepare the hub: {0}")]
    Hub(#[from] orrery_hub::Error),
    #[error("cannot open the audit log {}: {cause}", .path.display())]
    Audit { path: PathBuf, cause: std::io::Error },
    #[error(transparent)]
    Encryption(#[from] sealing::Error),
    #[error(transparent)]
    Mesh(#[from] mesh::MeshError),
    #[error(transparent)]
    Upstream(#[from] upstream::UpstreamError),
}
