//! Where a proxy stands.
use crate::names::{Destination, PortName, ProxyName, ServiceName};
use std::net::SocketAddr;

/// Proxies with the same key get the same, and share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    pub service: ServiceName,
    /// What their certificates call them.
    pub name: ProxyName,
    /// `None` for streams that ask for endpoints only: they need no config.
    pub sides: Option<Sides>,
}

/// Where a proxy stands between its instance and the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sides {
    /// Takes the requests of the instance.
    pub outbound: SocketAddr,
    /// Take the traffic of others, where the proxy fronts the instance for them.
    pub inbound: Vec<Inbound>,
    /// Take the connections of the instance.
    pub connect: Vec<Connect>,
}

impl Sides {
    /// Of a proxy that takes requests of its instance and nothing else.
    pub fn outbound(at: SocketAddr) -> Self {
        Self { outbound: at, inbound: Vec::new(), connect: Vec::new() }
    }
}

/// What is done for one port of the service that a proxy fronts; `None` is the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbound {
    pub port: Option<PortName>,
    pub listen: SocketAddr,
    pub instance: SocketAddr,
}

/// Connections to an address go to a port of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connect {
    pub listen: SocketAddr,
    pub to: Destination,
}
