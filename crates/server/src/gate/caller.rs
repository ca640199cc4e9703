//! Who asks, and which way.
use orrery_fleet::middleware::{Impersonation, Peer};
use orrery_pki::Subject;

/// The way by which a request came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    Rest,
    Grpc,
    Commander,
}

impl Transport {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Grpc => "grpc",
            Self::Commander => "commander",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub transport: Transport,
    pub peer: Peer,
}

impl Caller {
    pub fn new(transport: Transport, peer: Peer) -> Self {
        Self { transport, peer }
    }

    /// The peer of a request, as its headers describe it.
    pub fn of<T>(transport: Transport, request: &axum::http::Request<T>) -> Self {
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let headers = request.headers();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self { transport, peer: peer.described(header) }
    }

    /// Its name and groups.
    pub fn subject(&self) -> (String, Vec<String>) {
        let subject = self.peer.asker();
        (subject.name, subject.groups)
    }

    /// As whom it asks, where that is somebody else.
    pub fn impersonated(&self) -> Option<(Subject, &Impersonation)> {
        let impersonation = self.peer.impersonation.as_deref()?;
        Some((self.peer.subject(), impersonation))
    }
}
