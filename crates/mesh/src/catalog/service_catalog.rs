//! The catalog over a topology, providers and secrets, kept current by one loop per source.
//!
//! ```text
//!   provider announces ─> its loop asks it ─> State ─> Change::Endpoints
//!   topology announces ─> every provider's loop asks again; Change::Topology
//!   secrets announce   ─> Change::Certificate
//! ```
//! Each provider has a loop of its own, so a slow one holds up nobody.
use super::merge::{of_port, version};
use super::routing::Declared;
use super::state::State;
use super::{Catalog, Change, Listing, ProviderStatus, Registration};
use crate::address::{Endpoint, Placed, WeightedService};
use crate::announce::{Announcements, Announcer};
use crate::names::{Destination, ProxyName, ServiceName};
use crate::providers::EndpointsProvider;
use crate::secrets::{CertificateBundle, SecretsProvider};
use crate::topology::MeshTopology;
use futures::StreamExt as _;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A provider that takes longer than this for one service has failed.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
/// Questions to one provider at the same time; enough to fill a start quickly, few enough to be a
/// polite client of somebody's cloud.
const QUESTIONS_MAX: usize = 16;
/// When a failed question is asked again: after the first of these, then doubling up to the last.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// What a catalog is made of.
pub struct CatalogParts {
    pub topology: Arc<dyn MeshTopology>,
    pub providers: Vec<Arc<dyn EndpointsProvider>>,
    pub secrets: Arc<dyn SecretsProvider>,
}

/// See the module.
pub struct ServiceCatalog {
    parts: CatalogParts,
    state: Arc<Mutex<State>>,
    announcer: Announcer<Change>,
    declared: Mutex<Known>,
    /// How many providers were asked for everything once.
    loaded: watch::Sender<usize>,
}

/// What was declared when it was read last, and what was announced since: then it is read again.
struct Known {
    announcements: Announcements<ServiceName>,
    declared: Option<Arc<Declared>>,
}

impl ServiceCatalog {
    pub fn new(parts: CatalogParts) -> Arc<Self> {
        let names = parts.providers.iter().map(|provider| provider.name().to_owned());
        let announcements = parts.topology.announcements();
        Arc::new(Self {
            declared: Mutex::new(Known { announcements, declared: None }),
            state: Arc::new(Mutex::new(State::new(names))),
            announcer: Announcer::default(),
            loaded: watch::Sender::new(0),
            parts,
        })
    }

    /// Keeps the catalog current until told to stop.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut loops = JoinSet::new();
        // These listen before anything can be loaded, so that no change falls between.
        let topology = self.parts.topology.announcements();
        loops.spawn(Arc::clone(&self).pass_on(topology, Change::Topology));
        let secrets = self.parts.secrets.announcements();
        loops.spawn(Arc::clone(&self).pass_on(secrets, Change::Certificate));
        for index in 0..self.parts.providers.len() {
            loops.spawn(Arc::clone(&self).follow_provider(index));
        }
        stop.cancelled().await;
        loops.shutdown().await;
    }

    async fn pass_on<T: Ord>(
        self: Arc<Self>,
        mut heard: Announcements<T>,
        change: fn(T) -> Change,
    ) {
        loop {
            let names = heard.next().await;
            self.announcer.announce(names.into_iter().map(change));
        }
    }

    async fn follow_provider(self: Arc<Self>, index: usize) {
        let mut declared = self.parts.topology.announcements();
        let mut heard = self.parts.providers[index].announcements();
        let mut due: BTreeSet<ServiceName> =
            self.parts.topology.list_services().into_iter().collect();
        let mut retry = RETRY_FIRST;
        due = self.ask(index, due).await;
        self.loaded.send_modify(|count| *count += 1);
        loop {
            tokio::select! {
                names = heard.next() => due.extend(names),
                names = declared.next() => due.extend(names),
                () = tokio::time::sleep(retry), if !due.is_empty() => {}
            }
            due = self.ask(index, due).await;
            retry = if due.is_empty() { RETRY_FIRST } else { (retry * 2).min(RETRY_LAST) };
        }
    }

    /// Asks one provider for some services; answers with those it failed for.
    async fn ask(&self, index: usize, services: BTreeSet<ServiceName>) -> BTreeSet<ServiceName> {
        let questions = services.into_iter().map(|service| async move {
            let answer = self.question(index, &service).await;
            (service, answer)
        });
        let mut answers = futures::stream::iter(questions).buffer_unordered(QUESTIONS_MAX);
        let mut failed = BTreeSet::new();
        while let Some((service, answer)) = answers.next().await {
            if let Err(reason) = &answer {
                let provider = self.parts.providers[index].name();
                tracing::warn!(provider, %service, reason, "endpoints are stale");
                failed.insert(service.clone());
            }
            let changed = self.state.lock().answer(index, &service, answer);
            self.announcer.announce(changed.then_some(Change::Endpoints(service)));
        }
        failed
    }

    /// A service that is not declared has no endpoints, whatever a provider might find.
    async fn question(&self, index: usize, service: &ServiceName) -> Result<Vec<Placed>, String> {
        if self.parts.topology.get_service(service).is_none() {
            return Ok(Vec::new());
        }
        let asking = self.parts.providers[index].list_endpoints(service);
        match tokio::time::timeout(PROVIDER_TIMEOUT, asking).await {
            Ok(answer) => answer.map_err(|error| error.reason),
            Err(_) => Err(format!("no answer within {}s", PROVIDER_TIMEOUT.as_secs())),
        }
    }
}

impl ServiceCatalog {
    /// The same as [`Catalog::endpoints_of`], by what was declared when `declared` was read.
    fn endpoints(&self, declared: &Declared, at: &Destination) -> Arc<[Endpoint]> {
        let ports = declared.service(&at.service).map(|service| service.ports.as_slice());
        let all = self.state.lock().endpoints(&at.service);
        of_port(ports.unwrap_or_default(), at.port.as_ref(), &all)
    }
}

#[async_trait::async_trait]
impl Catalog for ServiceCatalog {
    fn list_endpoints(&self, service: &ServiceName, seen: Option<u64>) -> Listing {
        let declared = self.declared();
        let plan = declared.plan(service);
        let one = |at: &Destination| (at.clone(), self.endpoints(&declared, at));
        let endpoints = plan.destinations().into_iter().map(one).collect();
        let version = version(&endpoints);
        Listing { endpoints, version, changed: seen != Some(version) }
    }

    fn endpoints_of(&self, destination: &Destination) -> Arc<[Endpoint]> {
        let service = self.parts.topology.get_service(&destination.service);
        let ports = service.map(|service| service.ports).unwrap_or_default();
        let all = self.state.lock().endpoints(&destination.service);
        of_port(&ports, destination.port.as_ref(), &all)
    }

    fn weighted_services(&self, root: &ServiceName) -> Vec<WeightedService> {
        let declared = self.declared();
        let weighted = declared.shares(root).into_iter().map(|share| WeightedService {
            endpoints: self.endpoints(&declared, &share.destination).to_vec(),
            service: share.destination.service,
            weight: share.weight,
        });
        weighted.collect()
    }

    fn is_declared(&self, service: &ServiceName) -> bool {
        self.parts.topology.get_service(service).is_some()
    }

    fn may_call(&self, source: &ServiceName, destination: &ServiceName) -> bool {
        self.declared().may_call(source, destination)
    }

    fn declared(&self) -> Arc<Declared> {
        let mut known = self.declared.lock();
        let is_old = !known.announcements.take().is_empty();
        if let Some(declared) = known.declared.as_ref().filter(|_| !is_old) {
            return Arc::clone(declared);
        }
        let declared = Arc::new(Declared::read(&*self.parts.topology));
        known.declared = Some(Arc::clone(&declared));
        declared
    }

    fn certificate(&self, proxy: &ProxyName) -> Option<CertificateBundle> {
        self.parts.secrets.certificate(proxy)
    }

    fn register_proxy(&self, service: &ServiceName, at: Placed) -> Registration {
        let (id, changed) = self.state.lock().join(service, at);
        self.announcer.announce(changed.then(|| Change::Endpoints(service.clone())));
        let (state, announcer) = (Arc::clone(&self.state), self.announcer.clone());
        let service = service.clone();
        Registration::new(move || {
            let changed = state.lock().leave(&service, id);
            announcer.announce(changed.then_some(Change::Endpoints(service)));
        })
    }

    fn list_providers(&self) -> Vec<ProviderStatus> {
        self.state.lock().providers()
    }

    fn announcements(&self) -> Announcements<Change> {
        self.announcer.listen()
    }

    async fn loaded(&self) {
        let all = self.parts.providers.len();
        let mut loaded = self.loaded.subscribe();
        // The sender lives as long as the catalog, so this can only end with the count reached.
        let _ = loaded.wait_for(|count| all <= *count).await;
    }
}

#[cfg(test)]
mod tests;
