//! What all proxies of one group are to have, endpoints aside.
use crate::catalog::{Catalog, Declared, RoutePlan};
use crate::envoy::{self, ClusterSettings};
use crate::names::ServiceName;
use crate::xds::{Kind, Resource};
use orrery_pki::TrustDomain;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

/// Proxies with the same key get the same, and share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    pub service: ServiceName,
    /// `None` for streams that ask for endpoints only: they need no config.
    pub sides: Option<Sides>,
}

/// Where a proxy stands between its instance and the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sides {
    /// Takes the requests of the instance.
    pub outbound: SocketAddr,
    /// Takes the requests of others, if the proxy fronts the instance for them.
    pub inbound: Option<Inbound>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inbound {
    pub listen: SocketAddr,
    pub instance: SocketAddr,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Services whose endpoints these proxies must not learn.
    pub denied: BTreeSet<ServiceName>,
    /// The names that a client without a proxy may dial.
    pub dialled: BTreeSet<String>,
    pub resources: BTreeMap<Kind, BTreeMap<Arc<str>, Arc<Resource>>>,
}

/// Clusters are the same for every group: each is encoded when its settings change, and then shared.
pub type ClusterCache = HashMap<ServiceName, (ClusterSettings, Arc<Resource>)>;

/// What snapshots are built from. What is declared is read once for all of them.
pub struct Source<'a> {
    pub catalog: &'a dyn Catalog,
    pub declared: Declared,
    pub trust_domain: Option<&'a TrustDomain>,
}

impl Source<'_> {
    pub fn build(&self, key: &GroupKey, clusters: &mut ClusterCache) -> Snapshot {
        let plan = self.declared.plan(&key.service);
        let mut snapshot = Snapshot { denied: plan.denied.clone(), ..Snapshot::default() };
        let Some(sides) = key.sides else { return snapshot };
        let domains =
            plan.hosts.iter().flat_map(|host| envoy::domains(&key.service, &host.service));
        snapshot.dialled = domains.collect();
        self.put_clusters(&mut snapshot, &plan, clusters);
        snapshot.put(Kind::Route, envoy::route_configuration(&key.service, &plan));
        snapshot.put(Kind::Listener, envoy::outbound_listener(sides.outbound));
        if let Some(inbound) = sides.inbound {
            let plan = self.declared.inbound(&key.service);
            let listener = envoy::inbound_listener(inbound.listen, &plan, self.trust_domain);
            snapshot.put(Kind::Listener, listener);
            snapshot.put(Kind::Cluster, envoy::local_cluster(inbound.instance));
        }
        if let Some(bundle) = self.catalog.certificate(&key.service) {
            envoy::secrets(&bundle).into_iter().for_each(|one| snapshot.put(Kind::Secret, one));
        }
        snapshot
    }

    fn put_clusters(&self, snapshot: &mut Snapshot, plan: &RoutePlan, cache: &mut ClusterCache) {
        let settings = plan.hosts.iter().map(|host| {
            let (encrypted, traffic) = (host.encrypted, host.traffic.clone());
            (&host.service, ClusterSettings { encrypted, traffic })
        });
        let mut settings: BTreeMap<_, _> = settings.collect();
        for service in plan.destinations() {
            let settings = settings.remove(service).unwrap_or_default();
            let resource = self.cached(cache, service, settings);
            snapshot.put_shared(Kind::Cluster, resource);
        }
    }

    fn cached(
        &self,
        cache: &mut ClusterCache,
        service: &ServiceName,
        settings: ClusterSettings,
    ) -> Arc<Resource> {
        if let Some((known, resource)) = cache.get(service)
            && *known == settings
        {
            return Arc::clone(resource);
        }
        let resource = Arc::new(envoy::cluster(service, &settings, self.trust_domain));
        cache.insert(service.clone(), (settings, Arc::clone(&resource)));
        resource
    }
}

impl Snapshot {
    /// The listener that a gRPC client asks for by the name it dials. Proxies, which ask for all
    /// listeners, never see one.
    pub fn api_listener(&self, asked: &str) -> Option<Arc<Resource>> {
        let host = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
        self.dialled.contains(host).then(|| Arc::new(envoy::api_listener(asked)))
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>> {
        self.resources.get(&kind)?.get(name).cloned()
    }

    fn put(&mut self, kind: Kind, resource: Resource) {
        self.put_shared(kind, Arc::new(resource));
    }

    fn put_shared(&mut self, kind: Kind, resource: Arc<Resource>) {
        self.resources.entry(kind).or_default().insert(Arc::clone(&resource.name), resource);
    }
}
