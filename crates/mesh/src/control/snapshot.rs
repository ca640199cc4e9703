//! What all proxies of one group are to have, endpoints aside.
use crate::catalog::RoutePlan;
use crate::envoy;
use crate::names::{Destination, ServiceName};
use crate::xds::{Kind, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By name.
pub type Resources = BTreeMap<Arc<str>, Arc<Resource>>;

/// What proxies have in common, wherever they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub route: Arc<Resource>,
    /// Of everything that takes requests.
    pub clusters: Arc<Resources>,
}

/// See the module.
#[derive(Debug)]
pub struct Snapshot {
    service: ServiceName,
    plan: Arc<RoutePlan>,
    /// `None` for those that ask for endpoints only.
    config: Option<Arc<Config>>,
    own: BTreeMap<Kind, Resources>,
    /// What a proxy asks for that it cannot have, and why.
    pub findings: Vec<String>,
}

impl Snapshot {
    /// Of a proxy that asks for endpoints.
    pub fn new(service: ServiceName, plan: Arc<RoutePlan>) -> Self {
        Self { service, plan, config: None, own: BTreeMap::new(), findings: Vec::new() }
    }

    pub fn with(mut self, config: Arc<Config>) -> Self {
        self.config = Some(config);
        self
    }

    pub fn put(&mut self, kind: Kind, resource: Arc<Resource>) {
        self.own.entry(kind).or_default().insert(Arc::clone(&resource.name), resource);
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>> {
        if let Some(own) = self.own.get(&kind).and_then(|own| own.get(name)) {
            return Some(Arc::clone(own));
        }
        let config = self.config.as_ref()?;
        match kind {
            Kind::Cluster => config.clusters.get(name).cloned(),
            Kind::Route => Some(&config.route).filter(|route| *route.name == *name).cloned(),
            Kind::Listener => self.api_listener(name),
            Kind::Secret | Kind::Endpoints => None,
        }
    }

    /// Of everything that those get who ask for all.
    pub fn names(&self, kind: Kind) -> Vec<Arc<str>> {
        let own = self.own.get(&kind).into_iter().flat_map(|own| own.keys().cloned());
        let shared = self.config.iter().flat_map(|config| match kind {
            Kind::Cluster => config.clusters.keys().cloned().collect(),
            Kind::Route => vec![Arc::clone(&config.route.name)],
            Kind::Secret | Kind::Endpoints | Kind::Listener => Vec::new(),
        });
        own.chain(shared).collect()
    }

    /// Whether these proxies must not learn the endpoints of it.
    pub fn is_closed(&self, at: &Destination) -> bool {
        self.plan.is_closed(at)
    }

    /// The kinds of which something may differ from before.
    pub fn changed_since(&self, before: &Self) -> BTreeSet<Kind> {
        let part = |one: &Self| one.config.as_ref().map(|config| Arc::clone(&config.clusters));
        let route = |one: &Self| one.config.as_ref().map(|config| Arc::clone(&config.route));
        let has_other_routes = route(self) != route(before);
        let is_changed = |kind: &Kind| {
            let has_other_own = self.own.get(kind) != before.own.get(kind);
            has_other_own
                || match kind {
                    Kind::Cluster => part(self) != part(before),
                    // The names that can be dialled are those in the routes.
                    Kind::Route | Kind::Listener => has_other_routes,
                    Kind::Endpoints => !self.plan.closes_as(&before.plan),
                    Kind::Secret => false,
                }
        };
        Kind::ALL.into_iter().filter(is_changed).collect()
    }

    /// The listener that a gRPC client asks for by the name it dials. Proxies, which ask for all
    /// listeners, never see one.
    fn api_listener(&self, asked: &str) -> Option<Arc<Resource>> {
        let host = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
        let (name, project) = host.split_once('.').unwrap_or((host, self.service.project()));
        let service = ServiceName::new(project, name).ok()?;
        self.plan.takes_requests(&service).then(|| Arc::new(envoy::api_listener(asked)))
    }
}
