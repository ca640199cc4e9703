//! Where things are. Providers and the catalog speak of this; the topology never does.
use crate::names::{PortName, ServiceName};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

/// The address of an Envoy, or of the instance itself where no Envoy fronts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ip(pub IpAddr);

/// A port somebody can connect to; zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(NonZeroU16);

impl Port {
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    pub fn number(self) -> u16 {
        self.0.get()
    }
}

/// One instance of a service, as its peers reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub ip: Ip,
    pub port: Port,
}

impl Endpoint {
    /// `None` for port zero.
    pub fn of(address: SocketAddr) -> Option<Self> {
        Some(Self { ip: Ip(address.ip()), port: Port::new(address.port())? })
    }

    pub fn socket_addr(&self) -> SocketAddr {
        SocketAddr::new(self.ip.0, self.port.number())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.socket_addr(), f)
    }
}

/// An endpoint, and which port of its service it stands for, as whoever knows it calls that port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placed {
    pub endpoint: Endpoint,
    pub port: Option<PortName>,
    /// Stands for the first port of the service where the service knows no port of that name.
    pub is_first: bool,
}

/// Of a service with one port, or of its first.
impl From<Endpoint> for Placed {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, port: None, is_first: true }
    }
}

/// A service that takes a share of another one's traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedService {
    pub service: ServiceName,
    pub weight: u32,
    pub endpoints: Vec<Endpoint>,
}
