//! What all proxies of one group are to have, endpoints aside.
use crate::catalog::Catalog;
use crate::envoy;
use crate::names::ServiceName;
use crate::topology::TrafficSettings;
use crate::xds::{Kind, Resource};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

/// Proxies with the same key get the same, and share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    pub service: ServiceName,
    /// `None` for streams that ask for endpoints only: they need no config.
    pub outbound: Option<SocketAddr>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Services whose endpoints these proxies must not learn.
    pub denied: BTreeSet<ServiceName>,
    pub resources: BTreeMap<Kind, BTreeMap<Arc<str>, Arc<Resource>>>,
}

/// Clusters are the same for every group: each is encoded when its settings change, and then shared.
pub type ClusterCache = HashMap<ServiceName, (TrafficSettings, Arc<Resource>)>;

impl Snapshot {
    pub fn build(catalog: &dyn Catalog, key: &GroupKey, clusters: &mut ClusterCache) -> Self {
        let plan = catalog.route_plan(&key.service);
        let mut snapshot = Self { denied: plan.denied.clone(), resources: BTreeMap::new() };
        let Some(outbound) = key.outbound else { return snapshot };
        let settings: BTreeMap<_, _> =
            plan.hosts.iter().map(|host| (&host.service, &host.traffic)).collect();
        for service in plan.destinations() {
            let traffic = settings.get(service).copied().cloned().unwrap_or_default();
            snapshot.put(Kind::Cluster, cached(clusters, service, traffic));
        }
        snapshot.put(Kind::Route, Arc::new(envoy::route_configuration(&key.service, &plan)));
        snapshot.put(Kind::Listener, Arc::new(envoy::outbound_listener(outbound)));
        if let Some(bundle) = catalog.certificate(&key.service) {
            let secrets = envoy::secrets(&bundle);
            secrets.into_iter().for_each(|one| snapshot.put(Kind::Secret, Arc::new(one)));
        }
        snapshot
    }

    fn put(&mut self, kind: Kind, resource: Arc<Resource>) {
        self.resources.entry(kind).or_default().insert(Arc::clone(&resource.name), resource);
    }
}

fn cached(
    clusters: &mut ClusterCache,
    service: &ServiceName,
    traffic: TrafficSettings,
) -> Arc<Resource> {
    if let Some((known, resource)) = clusters.get(service)
        && *known == traffic
    {
        return Arc::clone(resource);
    }
    let resource = Arc::new(envoy::cluster(service, &traffic));
    clusters.insert(service.clone(), (traffic, Arc::clone(&resource)));
    resource
}
