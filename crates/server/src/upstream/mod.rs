//! Kinds that another service keeps.
//!
//! ```text
//!   local callers ─> authorization (here) ─> Lineage ─> Cached ─> Remote ──gRPC Hub──> upstream: admission, store
//!                                                          ^         │
//!                                      notices: one watch ─┘<────────┘
//! ```
//! Owns: the accessor that speaks to an upstream, what is told of it at the start, which kinds can be kept there, the
//! other servers that share what is kept here.
//! Not in it: the cache itself (hub), who may do what (identity).
mod accessor;
mod eligible;
mod errors;
mod figures;
mod link;
mod notices;
mod options;
mod proof;
mod replicas;
pub(crate) mod requests;
mod watch;

pub(crate) use link::MESSAGE_BYTES_MAX;
pub use options::{CACHE_BYTES, CACHE_EXPIRY, KindFrom, UpstreamOptions};

use accessor::Remote;
use eligible::eligible;
use link::Link;
use orrery_api::{Kind, Scheme};
use orrery_hub::cache::{Cache, CacheOptions};
use orrery_hub::{Accessor, Hub, HubBuilder, Upstream};
use orrery_pki::LiveTls;
use orrery_runtime::{OnEnd, Tasks};
use prometheus_client::registry::Registry;
use proof::Proof;
use replicas::Servers;
use std::collections::HashMap;
use std::sync::Arc;

/// Why a server cannot serve a kind from where it was told to.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("--kind-from {given}: {why}")]
    Kind { given: String, why: String },
    #[error("--kind-from names {kind} twice; one service keeps the objects of a kind")]
    Twice { kind: String },
    #[error("--kind-from {given}: that is this server itself")]
    Itself { given: String },
    #[error("cannot use what upstreams are to be shown: {0}")]
    Files(#[from] orrery_pki::Error),
    #[error(
        "--kind-from {given}: https needs --upstream-root, and --upstream-certificate with --upstream-key or --upstream-token-file"
    )]
    Unproven { given: String },
    #[error("--kind-from {given}: {cause}")]
    Endpoint { given: String, cause: orrery_client::Error },
}

/// The services that keep some kinds of this server.
pub struct Upstreams {
    kinds: Vec<(Arc<Kind>, Arc<Link>)>,
    cache: Option<CacheOptions>,
    servers: Arc<Servers>,
}

impl Upstreams {
    /// Checks what was asked for. Nothing is connected: an upstream may be away when a server starts.
    pub fn open(
        options: &UpstreamOptions,
        scheme: &Scheme,
        server: &str,
        own: &str,
    ) -> Result<Self, UpstreamError> {
        let mut kinds: Vec<(Arc<Kind>, Arc<Link>)> = Vec::new();
        let mut links: HashMap<&str, Arc<Link>> = HashMap::new();
        for from in &options.kinds {
            let given = format!("{}={}", from.kind, from.server);
            if from.server == own {
                return Err(UpstreamError::Itself { given });
            }
            let kind = eligible(scheme, &from.kind);
            let kind = kind.map_err(|why| UpstreamError::Kind { given: given.clone(), why })?;
            if kinds.iter().any(|(known, _)| *known == kind) {
                return Err(UpstreamError::Twice { kind: kind.kind().to_owned() });
            }
            let link = match links.get(from.server.as_str()) {
                Some(link) => link.clone(),
                None => {
                    let (proof, way) = Proof::new(options, &from.server, given)?;
                    Arc::new(Link::new(proof, way))
                }
            };
            links.insert(&from.server, link.clone());
            kinds.push((kind, link));
        }
        let servers = Arc::new(Servers::new(server));
        Ok(Self { kinds, cache: options.cache, servers })
    }

    /// Has the hub serve the kinds from there.
    pub fn register(&self, mut builder: HubBuilder) -> HubBuilder {
        for (kind, link) in &self.kinds {
            let accessor: Arc<dyn Accessor> = Arc::new(Remote::new(kind.clone(), link.clone()));
            let cache = self.cache.map(|options| {
                Cache::new(accessor.clone(), options, builder.store(), self.servers.clone())
            });
            let address = link.address().to_owned();
            tracing::info!(kind = kind.kind(), upstream = address, "kept by another service");
            let upstream = Upstream { address, accessor, cache };
            builder = builder.upstream(kind.full_name(), upstream);
        }
        builder
    }

    /// Starts listening to the upstreams, and looking for the other servers.
    pub fn spawn(&self, hub: &Hub, tls: Option<LiveTls>, tasks: &mut Tasks) {
        let cached = hub.storages().filter(|storage| storage.cache().is_some());
        let names: Vec<String> = cached.map(|it| it.kind().qualified_plural()).collect();
        if names.is_empty() {
            return;
        }
        let stop = tasks.stop_token();
        let looking = self.servers.clone().follow(hub.clone(), tls, stop.clone());
        tasks.spawn("upstream-servers", OnEnd::StopAll, looking);
        for name in names {
            let listening = notices::listen(hub.clone(), name, stop.clone());
            tasks.spawn("upstream-notices", OnEnd::StopAll, listening);
        }
    }
}

/// Shows what is kept of upstreams.
pub fn register_figures(registry: &mut Registry, hub: &Hub) {
    figures::register(registry, hub);
}
