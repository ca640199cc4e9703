//! What people see of a connected proxy.
use crate::address::Endpoint;
use crate::names::ServiceName;
use crate::xds::session::KindStatus;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// One stream: wanted, sent, acknowledged and refused, per kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyStatus {
    pub service: ServiceName,
    pub instance: String,
    pub address: Option<SocketAddr>,
    pub connected_for: Duration,
    /// Where others reach the instance it fronts, if it says so.
    pub endpoint: Option<Endpoint>,
    pub kinds: Vec<KindStatus>,
    /// Types the proxy asked for that we do not serve.
    pub unknown_types: BTreeSet<String>,
}

impl ProxyStatus {
    /// Whether it runs with exactly what it should.
    pub fn is_current(&self) -> bool {
        self.kinds.iter().all(|kind| {
            let acked = kind.progress.acked == Some(kind.wanted);
            acked && kind.progress.nacked.is_none()
        })
    }
}
