//! What snapshots are built from: what is declared, read once for all of them, and what many of them have in
//! common, made once for all of those.
//!
//! ```text
//!   one service as many see it ──> Piece: its virtual hosts, encoded, and its clusters
//!   pieces of all services ──────> Config: one for all of a project whom no target names, and one for each
//!                                          whom some does
//! ```
use super::sides::{Connect, GroupKey, Inbound};
use super::snapshot::{Config, Resources, Snapshot};
use crate::catalog::{Catalog, Declared, Host, RoutePlan, Seen};
use crate::envoy::{self, ClusterSettings};
use crate::names::{Destination, ServiceName};
use crate::topology::Revoked;
use crate::xds::{Kind, Resource};
use bytes::Bytes;
use orrery_pki::TrustDomain;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, Weak};

/// What all of it comes from.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    pub catalog: &'a dyn Catalog,
    pub trust_domain: Option<&'a TrustDomain>,
}

/// Clusters are the same for every group, but for those that say who calls: each is encoded when its settings
/// change, and then shared.
type ClusterCache = HashMap<(Destination, Option<ServiceName>), (ClusterSettings, Arc<Resource>)>;

/// A project, and a source that some target names.
type ConfigKey = (String, Option<ServiceName>);

/// One service as some see it.
struct Piece {
    /// With its short name and without.
    hosts: [OnceLock<Bytes>; 2],
    clusters: Vec<Arc<Resource>>,
}

/// See the module.
pub struct Prepared {
    declared: Arc<Declared>,
    /// By source; `None` is whom no target names.
    plans: HashMap<Option<ServiceName>, Arc<RoutePlan>>,
    configs: HashMap<ConfigKey, Arc<Config>>,
    /// Those of before: what did not change stays the same in memory, and so is found the same at once.
    earlier: HashMap<ConfigKey, Arc<Config>>,
    /// By the address of what was seen, which the plans keep alive.
    pieces: HashMap<usize, Arc<Piece>>,
    clusters: ClusterCache,
    /// Proxies of one service take the traffic of others alike, whatever their own names are. Nothing is kept that no
    /// snapshot has: they say where they listen, and come and go while nothing is declared differently.
    inbound: HashMap<(ServiceName, Inbound), Taking<Weak<Resource>>>,
    /// With so many of them, those that no snapshot has are forgotten.
    inbound_max: usize,
}

/// So few are not worth looking through.
const INBOUND_MIN: usize = 64;

/// What takes the traffic of others for one port.
struct Taking<R> {
    listener: R,
    /// The instance.
    cluster: R,
}

impl Prepared {
    /// What is declared now; nothing is made anew if that is what it was.
    pub fn renew(known: Option<Self>, origin: Origin<'_>) -> Self {
        let declared = origin.catalog.declared();
        let (earlier, clusters) = match known {
            Some(known) if Arc::ptr_eq(&known.declared, &declared) => return known,
            Some(known) => (known.configs, known.clusters),
            None => (HashMap::new(), ClusterCache::new()),
        };
        let (plans, configs, pieces) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (inbound, inbound_max) = (HashMap::new(), INBOUND_MIN);
        Self { declared, plans, configs, earlier, pieces, clusters, inbound, inbound_max }
    }

    /// Everything is built: what nobody has is forgotten.
    pub fn tidy(&mut self) {
        self.earlier.clear();
        self.clusters.retain(|_, (_, resource)| 1 < Arc::strong_count(resource));
        self.tidy_inbound();
    }

    /// Listeners for the traffic of others.
    #[cfg(test)]
    pub fn known(&self) -> usize {
        self.inbound.len()
    }

    /// Looked through again when there are twice as many, so that whoever comes pays for few of them.
    fn tidy_inbound(&mut self) {
        self.inbound.retain(|_, taking| taking.shared().is_some());
        self.inbound_max = INBOUND_MIN.max(2 * self.inbound.len());
    }

    pub fn build(&mut self, key: &GroupKey, origin: Origin<'_>) -> Snapshot {
        let plan = self.plan(&key.service);
        let snapshot = Snapshot::new(key.service.clone(), Arc::clone(&plan));
        let Some(sides) = &key.sides else { return snapshot };
        let mut snapshot = snapshot.with(self.config(&key.service, &plan, origin));
        snapshot.put(Kind::Listener, Arc::new(envoy::outbound_listener(sides.outbound)));
        for host in put_connections(&mut snapshot, &plan, &sides.connect) {
            for destination in host.destinations() {
                let mut settings = settings(&self.declared, destination);
                settings.caller = settings.encrypted.then(|| key.service.clone());
                let cluster = cached(&mut self.clusters, destination, settings, origin);
                snapshot.put(Kind::Cluster, cluster);
            }
        }
        for inbound in &sides.inbound {
            self.put_inbound(&mut snapshot, &key.service, inbound, origin);
        }
        for secret in origin.catalog.certificate(&key.name).iter().flat_map(envoy::secrets) {
            snapshot.put(Kind::Secret, Arc::new(secret));
        }
        snapshot
    }

    fn plan(&mut self, source: &ServiceName) -> Arc<RoutePlan> {
        let key = self.named(source);
        let make = || Arc::new(self.declared.plan(source));
        Arc::clone(self.plans.entry(key).or_insert_with(make))
    }

    fn named(&self, source: &ServiceName) -> Option<ServiceName> {
        self.declared.is_named(source).then(|| source.clone())
    }

    fn config(
        &mut self,
        source: &ServiceName,
        plan: &RoutePlan,
        origin: Origin<'_>,
    ) -> Arc<Config> {
        let key = (source.project().to_owned(), self.named(source));
        if let Some(known) = self.configs.get(&key) {
            return Arc::clone(known);
        }
        let (mut hosts, mut clusters) = (Vec::new(), Resources::new());
        for seen in &plan.seen {
            let piece = self.piece(seen, origin);
            let is_short = seen.service.project() == source.project();
            let encode = || envoy::virtual_hosts(seen, is_short);
            hosts.push(piece.hosts[usize::from(is_short)].get_or_init(encode).clone());
            let own = piece.clusters.iter().map(|one| (Arc::clone(&one.name), Arc::clone(one)));
            clusters.extend(own);
        }
        let mut config = Config {
            route: Arc::new(envoy::route_configuration(&hosts)),
            clusters: Arc::new(clusters),
        };
        if let Some(earlier) = self.earlier.remove(&key) {
            keep(&mut config.route, &earlier.route);
            keep(&mut config.clusters, &earlier.clusters);
        }
        let config = Arc::new(config);
        self.configs.insert(key, Arc::clone(&config));
        config
    }

    fn piece(&mut self, seen: &Arc<Seen>, origin: Origin<'_>) -> Arc<Piece> {
        let Self { pieces, clusters, declared, .. } = self;
        let make = || {
            let with_requests = seen.hosts.iter().filter(|host| host.port.protocol.has_requests());
            let needed: BTreeSet<&Destination> =
                with_requests.flat_map(Host::destinations).collect();
            let cluster = |destination| {
                cached(clusters, destination, settings(declared, destination), origin)
            };
            let clusters = needed.into_iter().map(cluster).collect();
            Arc::new(Piece { hosts: [OnceLock::new(), OnceLock::new()], clusters })
        };
        Arc::clone(pieces.entry(Arc::as_ptr(seen).addr()).or_insert_with(make))
    }

    fn put_inbound(
        &mut self,
        snapshot: &mut Snapshot,
        service: &ServiceName,
        inbound: &Inbound,
        origin: Origin<'_>,
    ) {
        let at = Destination { service: service.clone(), port: inbound.port.clone() };
        let Some(Taking { listener, cluster }) = self.taking(&at, inbound, origin) else {
            let listen = inbound.listen;
            snapshot.findings.push(format!("nothing is taken at {listen}: there is no port {at}"));
            return;
        };
        snapshot.put(Kind::Listener, listener);
        snapshot.put(Kind::Cluster, cluster);
    }

    /// `None` if there is no such port.
    fn taking(
        &mut self,
        at: &Destination,
        inbound: &Inbound,
        origin: Origin<'_>,
    ) -> Option<Taking<Arc<Resource>>> {
        let key = (at.service.clone(), inbound.clone());
        if let Some(known) = self.inbound.get(&key).and_then(Taking::shared) {
            return Some(known);
        }
        let plan = self.declared.inbound(at)?;
        let Inbound { port, listen, instance } = inbound;
        let listener = envoy::inbound_listener(*listen, port.as_ref(), &plan, origin.trust_domain);
        let cluster = envoy::local_cluster(*instance, port.as_ref(), plan.protocol);
        let (listener, cluster) = (Arc::new(listener), Arc::new(cluster));
        let (to_listener, to_cluster) = (Arc::downgrade(&listener), Arc::downgrade(&cluster));
        if self.inbound_max <= self.inbound.len() {
            self.tidy_inbound();
        }
        self.inbound.insert(key, Taking { listener: to_listener, cluster: to_cluster });
        Some(Taking { listener, cluster })
    }
}

impl Taking<Weak<Resource>> {
    fn shared(&self) -> Option<Taking<Arc<Resource>>> {
        Some(Taking { listener: self.listener.upgrade()?, cluster: self.cluster.upgrade()? })
    }
}

/// The one of before, if it is the same.
fn keep<T: Eq>(fresh: &mut Arc<T>, earlier: &Arc<T>) {
    if *fresh == *earlier {
        *fresh = Arc::clone(earlier);
    }
}

fn cached(
    cache: &mut ClusterCache,
    destination: &Destination,
    settings: ClusterSettings,
    origin: Origin<'_>,
) -> Arc<Resource> {
    let key = (destination.clone(), settings.caller.clone());
    if let Some((known, resource)) = cache.get(&key)
        && *known == settings
    {
        return Arc::clone(resource);
    }
    let resource = Arc::new(envoy::cluster(destination, &settings, origin.trust_domain));
    cache.insert(key, (settings, Arc::clone(&resource)));
    resource
}

/// As the destination was declared, whoever calls.
fn settings(declared: &Declared, at: &Destination) -> ClusterSettings {
    let Some(service) = declared.service(&at.service) else { return ClusterSettings::default() };
    let revoked = declared.revoked().only(&at.service);
    ClusterSettings {
        revoked: if service.encrypted { revoked } else { Revoked::default() },
        encrypted: service.encrypted,
        caller: None,
        protocol: declared.protocol(at).unwrap_or_default(),
        traffic: service.traffic.clone(),
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
                snapshot.put(Kind::Listener, Arc::new(listener));
            }
            Err(why) => snapshot.findings.push(format!("nothing is taken at {listen}: {why}")),
        }
    }
    connected
}
