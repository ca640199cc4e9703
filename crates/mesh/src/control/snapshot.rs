//! What all proxies of one group are to have, endpoints aside.
use crate::catalog::{Catalog, Declared, Host, RoutePlan};
use crate::envoy::{self, ClusterSettings};
use crate::names::{Destination, PortName, ServiceName};
use crate::xds::{Kind, Resource};
use orrery_pki::TrustDomain;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// Proxies with the same key get the same, and share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    pub service: ServiceName,
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What these proxies must not learn the endpoints of.
    pub denied: BTreeSet<Destination>,
    /// The names that a client without a proxy may dial.
    pub dialled: BTreeSet<String>,
    pub resources: BTreeMap<Kind, BTreeMap<Arc<str>, Arc<Resource>>>,
    /// What a proxy asks for that it cannot have, and why.
    pub findings: Vec<String>,
}

/// Clusters are the same for every group: each is encoded when its settings change, and then shared.
pub type ClusterCache = HashMap<Destination, (ClusterSettings, Arc<Resource>)>;

/// What snapshots are built from. What is declared is read once for all of them, and what all proxies of a
/// service have in common is made once for all of those.
pub struct Source<'a> {
    catalog: &'a dyn Catalog,
    declared: Declared,
    trust_domain: Option<&'a TrustDomain>,
    planned: HashMap<ServiceName, Arc<Planned>>,
}

/// What proxies of a service have in common, wherever they stand.
struct Planned {
    plan: RoutePlan,
    /// Made for the first that asks for more than endpoints.
    config: OnceLock<Config>,
}

struct Config {
    dialled: BTreeSet<String>,
    route: Arc<Resource>,
    /// Of everything that takes requests.
    clusters: Vec<Arc<Resource>>,
}

impl<'a> Source<'a> {
    pub fn new(catalog: &'a dyn Catalog, trust_domain: Option<&'a TrustDomain>) -> Self {
        let declared = catalog.declared();
        Self { catalog, declared, trust_domain, planned: HashMap::new() }
    }

    pub fn build(&mut self, key: &GroupKey, clusters: &mut ClusterCache) -> Snapshot {
        let planned = self.planned(&key.service);
        let plan = &planned.plan;
        let mut snapshot = Snapshot { denied: plan.denied.clone(), ..Snapshot::default() };
        let Some(sides) = &key.sides else { return snapshot };
        let config = planned.config.get_or_init(|| self.config(&key.service, plan, clusters));
        snapshot.dialled.clone_from(&config.dialled);
        snapshot.put_shared(Kind::Route, Arc::clone(&config.route));
        snapshot.put(Kind::Listener, envoy::outbound_listener(sides.outbound));
        for cluster in &config.clusters {
            snapshot.put_shared(Kind::Cluster, Arc::clone(cluster));
        }
        for host in put_connections(&mut snapshot, plan, &sides.connect) {
            for destination in host.destinations() {
                let settings = plan.host(destination).map(settings).unwrap_or_default();
                let cluster = self.cached(clusters, destination, settings);
                snapshot.put_shared(Kind::Cluster, cluster);
            }
        }
        for inbound in &sides.inbound {
            self.put_inbound(&mut snapshot, &key.service, inbound);
        }
        if let Some(bundle) = self.catalog.certificate(&key.service) {
            envoy::secrets(&bundle).into_iter().for_each(|one| snapshot.put(Kind::Secret, one));
        }
        snapshot
    }

    fn planned(&mut self, service: &ServiceName) -> Arc<Planned> {
        let Self { planned, declared, .. } = self;
        let make = || Arc::new(Planned { plan: declared.plan(service), config: OnceLock::new() });
        Arc::clone(planned.entry(service.clone()).or_insert_with(make))
    }

    fn config(&self, service: &ServiceName, plan: &RoutePlan, cache: &mut ClusterCache) -> Config {
        let with_requests = || plan.hosts.iter().filter(|host| host.port.protocol.has_requests());
        let domains =
            with_requests().flat_map(|host| envoy::domains(service, &host.destination.service));
        let mut all: BTreeMap<&Destination, ClusterSettings> =
            plan.hosts.iter().map(|host| (&host.destination, settings(host))).collect();
        let needed: BTreeSet<&Destination> =
            with_requests().flat_map(|host| host.destinations()).collect();
        let clusters = needed.into_iter().map(|destination| {
            let settings = all.remove(destination).unwrap_or_default();
            self.cached(cache, destination, settings)
        });
        Config {
            dialled: domains.collect(),
            clusters: clusters.collect(),
            route: Arc::new(envoy::route_configuration(service, plan)),
        }
    }

    fn put_inbound(&self, snapshot: &mut Snapshot, service: &ServiceName, inbound: &Inbound) {
        let Inbound { port, listen, instance } = inbound;
        let at = Destination { service: service.clone(), port: port.clone() };
        let Some(plan) = self.declared.inbound(&at) else {
            snapshot.findings.push(format!("nothing is taken at {listen}: there is no port {at}"));
            return;
        };
        let listener = envoy::inbound_listener(*listen, port.as_ref(), &plan, self.trust_domain);
        snapshot.put(Kind::Listener, listener);
        let local = envoy::local_cluster(*instance, port.as_ref(), plan.protocol);
        snapshot.put(Kind::Cluster, local);
    }

    fn cached(
        &self,
        cache: &mut ClusterCache,
        destination: &Destination,
        settings: ClusterSettings,
    ) -> Arc<Resource> {
        if let Some((known, resource)) = cache.get(destination)
            && *known == settings
        {
            return Arc::clone(resource);
        }
        let resource = Arc::new(envoy::cluster(destination, &settings, self.trust_domain));
        cache.insert(destination.clone(), (settings, Arc::clone(&resource)));
        resource
    }
}

fn settings(host: &Host) -> ClusterSettings {
    ClusterSettings {
        encrypted: host.encrypted,
        protocol: host.port.protocol,
        traffic: host.traffic.clone(),
    }
}

/// Returns the ports whose clusters the listeners need.
fn put_connections<'a>(
    snapshot: &mut Snapshot,
    plan: &'a RoutePlan,
    connects: &[Connect],
) -> Vec<&'a Host> {
    let mut connected = Vec::new();
    for Connect { listen, to } in connects {
        let listener = match plan.host(to) {
            None => Err(format!("there is no port {to} (yet)")),
            Some(host) if host.port.protocol.has_requests() => Err(format!(
                "{to} takes requests, which go through the other listener by the name of their host"
            )),
            Some(host) => match envoy::connection_listener(*listen, to, host) {
                Some(listener) => Ok((host, listener)),
                None => Err(format!("{to} is closed by policy")),
            },
        };
        match listener {
            Ok((host, listener)) => {
                connected.push(host);
                snapshot.put(Kind::Listener, listener);
            }
            Err(why) => snapshot.findings.push(format!("nothing is taken at {listen}: {why}")),
        }
    }
    connected
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
