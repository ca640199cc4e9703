//! What people see of a connected proxy.
use crate::address::Placed;
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
    /// Where others reach the instance it fronts, by port, if it says so.
    pub endpoints: Vec<Placed>,
    pub kinds: Vec<KindStatus>,
    /// Types the proxy asked for that we do not serve.
    pub unknown_types: BTreeSet<String>,
    /// What it asks for that it cannot have, and why.
    pub findings: Vec<String>,
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
