//! The kinds of resources we serve.
use std::fmt;

/// In the order in which they are pushed on one stream: what is referred to comes before what
/// refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Secret,
    Cluster,
    Endpoints,
    Listener,
    Route,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::Secret, Self::Cluster, Self::Endpoints, Self::Listener, Self::Route];

    pub fn type_url(self) -> &'static str {
        match self {
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    pub fn of(type_url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == type_url)
    }

    /// Whether a state-of-the-world answer must hold everything the client subscribed to, because
    /// what it leaves out is taken as deleted. Of the other kinds, what changed is enough.
    pub fn is_whole(self) -> bool {
        match self {
            Self::Cluster | Self::Listener => true,
            Self::Secret | Self::Endpoints | Self::Route => false,
        }
    }
}

impl Kind {
    /// Whether it names clusters, which have to be there before it and must not go while it is in force.
    pub fn refers(self) -> bool {
        match self {
            Self::Listener | Self::Route => true,
            Self::Secret | Self::Cluster | Self::Endpoints => false,
        }
    }
}

/// As people call them.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "secrets",
            Self::Cluster => "clusters",
            Self::Endpoints => "endpoints",
            Self::Listener => "listeners",
            Self::Route => "routes",
        })
    }
}
