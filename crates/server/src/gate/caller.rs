//! Who asks, and from where.
use axum::http::{HeaderMap, header};
use orrery_fleet::middleware::Peer;

/// Bytes of what a client calls itself that are kept; the longest that are known have half as many.
const USER_AGENT_MAX: usize = 256;

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
    /// What its program calls itself; empty when it does not say.
    pub user_agent: String,
}

impl Caller {
    pub fn new(transport: Transport, peer: Peer, headers: &HeaderMap) -> Self {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let user_agent = agent.unwrap_or_default().chars().take(USER_AGENT_MAX).collect();
        Self { transport, peer, user_agent }
    }

    /// Its name and groups.
    pub fn subject(&self) -> (String, Vec<String>) {
        let subject = self.peer.subject();
        (subject.name, subject.groups)
    }
}
