//! Instances in a Kubernetes cluster, as its EndpointSlices list them.
use super::{EndpointsProvider, ProviderError};
use crate::address::{Endpoint, Ip, Placed, Port};
use crate::announce::{Announcements, Announcer};
use crate::kubernetes::{Told, follow};
use crate::names::{PortName, ServiceName};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use parking_lot::RwLock;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const GROUP: &str = "discovery.k8s.io";
const VERSIONS: [&str; 1] = ["v1"];
/// The label by which a slice says whose it is.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// How long the first questions wait for a cluster. One that is out of reach must not hold up a start.
const FIRST_WORD: Duration = Duration::from_secs(5);

/// By service, then by the name of the slice.
type Slices = BTreeMap<ServiceName, BTreeMap<String, Vec<Placed>>>;

#[derive(Default)]
struct State {
    slices: Slices,
    /// Why the cluster cannot be asked, while it cannot.
    failure: Option<String>,
}

/// One cluster. A namespace is a project, and a Service the service of that name.
pub struct KubernetesProvider {
    name: String,
    state: RwLock<State>,
    announcer: Announcer<ServiceName>,
    /// True once the cluster has told something, be it that it cannot.
    heard: watch::Sender<bool>,
    /// Until when questions wait for that; later ones are told that nothing was heard.
    patience: Instant,
}

impl KubernetesProvider {
    pub fn new(cluster: &str) -> Arc<Self> {
        let failure = Some("it has not been asked yet".to_owned());
        Arc::new(Self {
            name: format!("kubernetes/{cluster}"),
            state: RwLock::new(State { slices: Slices::new(), failure }),
            announcer: Announcer::default(),
            heard: watch::Sender::new(false),
            patience: Instant::now() + FIRST_WORD,
        })
    }

    /// Follows the cluster until told to stop.
    pub async fn run(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let following =
            follow(client, GROUP, &VERSIONS, "EndpointSlice", |_, told| self.take(told));
        tokio::select! {
            () = stop.cancelled() => {}
            () = following => {}
        }
    }

    fn take(&self, told: Told) {
        let changed = self.state.write().take(told);
        self.heard.send_replace(true);
        self.announcer.announce(changed);
    }
}

#[async_trait::async_trait]
impl EndpointsProvider for KubernetesProvider {
    fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the first word of the cluster: nothing known is not the same as nothing there.
    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Placed>, ProviderError> {
        let mut heard = self.heard.subscribe();
        // Whether in time or not, the state says what is known.
        let _ = tokio::time::timeout_at(self.patience, heard.wait_for(|heard| *heard)).await;
        let state = self.state.read();
        if let Some(reason) = &state.failure {
            let (provider, reason) = (self.name.clone(), reason.clone());
            return Err(ProviderError { provider, reason });
        }
        let slices = state.slices.get(service);
        let all: BTreeSet<Placed> =
            slices.into_iter().flat_map(BTreeMap::values).flatten().cloned().collect();
        Ok(all.into_iter().collect())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

impl State {
    /// Takes in what the cluster told; returns the services to ask for again.
    fn take(&mut self, told: Told) -> BTreeSet<ServiceName> {
        match told {
            Told::All(objects) => {
                let mut fresh = Slices::new();
                for (service, slice, endpoints) in objects.iter().filter_map(read) {
                    fresh.entry(service).or_default().insert(slice, endpoints);
                }
                self.failure = None;
                let old = std::mem::replace(&mut self.slices, fresh);
                old.into_keys().chain(self.slices.keys().cloned()).collect()
            }
            Told::Put(object) => {
                self.failure = None;
                let Some((service, slice, endpoints)) = read(&object) else {
                    return BTreeSet::new();
                };
                self.slices.entry(service.clone()).or_default().insert(slice, endpoints);
                [service].into()
            }
            Told::Gone(object) => {
                self.failure = None;
                let Some((service, slice, _)) = read(&object) else { return BTreeSet::new() };
                if let Some(slices) = self.slices.get_mut(&service) {
                    slices.remove(&slice);
                    if slices.is_empty() {
                        self.slices.remove(&service);
                    }
                }
                [service].into()
            }
            // What was known stays known; whoever asks is told that it may be old.
            Told::Failed(reason) => {
                self.failure = Some(reason);
                self.slices.keys().cloned().collect()
            }
        }
    }
}

/// Whose slice it is, its name, and where those of its instances are that are ready.
fn read(object: &DynamicObject) -> Option<(ServiceName, String, Vec<Placed>)> {
    let service = object.labels().get(SERVICE_LABEL)?;
    let service = ServiceName::new(object.namespace()?.as_str(), service).ok()?;
    Some((service, object.name_any(), endpoints(&object.data)))
}

/// Absent readiness is readiness, as the interface says. Every instance of a slice has the same ports.
fn endpoints(slice: &Value) -> Vec<Placed> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports: Vec<(Option<PortName>, Port)> =
        list(&slice["ports"]).iter().filter_map(port).collect();
    let ready =
        list(&slice["endpoints"]).into_iter().filter(|one| one["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|one| list(&one["addresses"]));
    let ips = addresses.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok());
    let placed = ips.flat_map(|ip| {
        ports.iter().enumerate().map(move |(index, (name, port))| Placed {
            endpoint: Endpoint { ip: Ip(ip), port: *port },
            port: name.clone(),
            is_first: index == 0,
        })
    });
    placed.collect()
}

/// The only port of a Service may have no name. Ports without a number mean all of them, which nobody
/// can be sent to; datagrams are not for us.
fn port(port: &Value) -> Option<(Option<PortName>, Port)> {
    if port["protocol"].as_str().is_some_and(|protocol| protocol != "TCP") {
        return None;
    }
    let number = Port::new(u16::try_from(port["port"].as_u64()?).ok()?)?;
    let name = port["name"].as_str().filter(|name| !name.is_empty()).map(PortName::from);
    Some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk(name: &str, service: &str, endpoints: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "shop", "labels": {SERVICE_LABEL: service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "metrics", "port": 9090},
                {"name": "any"},
            ],
        }))
        .expect("an object")
    }

    fn shown(state: &State, service: &str) -> Vec<String> {
        let slices = state.slices.get(&service.parse::<ServiceName>().unwrap());
        let placed = slices.into_iter().flat_map(BTreeMap::values).flatten();
        placed.filter(|one| one.is_first).map(|one| one.endpoint.to_string()).collect()
    }

    /// proves: MSH-05
    #[test]
    fn slices_come_and_go_and_only_what_is_ready_counts() {
        let mut state = State::default();
        let first = mk(
            "books-1",
            "books",
            json!([
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.3"]},
                {"addresses": ["host.example.org"]},
            ]),
        );
        state.take(Told::All(vec![first.clone(), mk("other", "bank", json!([]))]));
        assert_eq!(shown(&state, "shop/books"), ["10.0.0.1:8080", "10.0.0.3:8080"]);
        let all = state.slices.values().flat_map(BTreeMap::values).flatten();
        let metrics = all.filter(|one| one.port == Some("metrics".into()) && !one.is_first);
        assert_eq!(metrics.count(), 2, "every port of an instance is a place of its own");
        state.take(Told::Put(mk("books-2", "books", json!([{"addresses": ["10.0.0.9"]}]))));
        assert_eq!(shown(&state, "shop/books").len(), 3);
        let asked = state.take(Told::Failed("timeout".to_owned()));
        assert_eq!((asked.len(), state.failure.as_deref()), (2, Some("timeout")));
        assert_eq!(shown(&state, "shop/books").len(), 3, "what was known stays known");
        state.take(Told::Gone(first));
        assert_eq!((shown(&state, "shop/books").len(), &state.failure), (1, &None));
        let asked = state.take(Told::All(vec![]));
        assert!(asked.contains(&"shop/books".parse::<ServiceName>().unwrap()));
        assert!(state.slices.is_empty());
    }
}
