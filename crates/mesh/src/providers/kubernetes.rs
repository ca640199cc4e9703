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

/// By service, then by the name of the slice. A service and its slices are in one namespace.
type Slices = BTreeMap<ServiceName, BTreeMap<String, Vec<Listed>>>;

/// One port of one instance in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    placed: Placed,
    /// It is about to end and still answers: used where no instance is ready.
    is_ending: bool,
}

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
        Ok(state.endpoints(service))
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
                // It may have been of another service before, or is of none any more.
                let mut concerned = self.remove(&object);
                if let Some((service, slice, endpoints)) = read(&object) {
                    self.slices.entry(service.clone()).or_default().insert(slice, endpoints);
                    concerned.insert(service);
                }
                concerned
            }
            Told::Gone(object) => {
                self.failure = None;
                self.remove(&object)
            }
            // What was known stays known; whoever asks is told that it may be old.
            Told::Failed(reason) => {
                self.failure = Some(reason);
                self.slices.keys().cloned().collect()
            }
        }
    }

    /// Returns whose it was.
    fn remove(&mut self, object: &DynamicObject) -> BTreeSet<ServiceName> {
        let (namespace, slice) = (object.namespace().unwrap_or_default(), object.name_any());
        let mut owners = BTreeSet::new();
        for (service, slices) in &mut self.slices {
            if service.project() == namespace && slices.remove(&slice).is_some() {
                owners.insert(service.clone());
            }
        }
        self.slices.retain(|_, slices| !slices.is_empty());
        owners
    }

    /// Each once, however many slices list it. Those that are ready, else those that still answer. An instance
    /// with addresses of both families is listed with each; it is used with one.
    fn endpoints(&self, service: &ServiceName) -> Vec<Placed> {
        let all: Vec<&Listed> =
            self.slices.get(service).into_iter().flat_map(BTreeMap::values).flatten().collect();
        let has_ready = all.iter().any(|one| !one.is_ending);
        let usable = || all.iter().filter(|one| !has_ready || !one.is_ending);
        let has_v4 = usable().any(|one| one.placed.endpoint.ip.0.is_ipv4());
        let meant = usable().filter(|one| one.placed.endpoint.ip.0.is_ipv4() == has_v4);
        let meant: BTreeSet<&Placed> = meant.map(|one| &one.placed).collect();
        meant.into_iter().cloned().collect()
    }
}

/// Whose slice it is, its name, and where those of its instances are that can be used.
fn read(object: &DynamicObject) -> Option<(ServiceName, String, Vec<Listed>)> {
    let service = object.labels().get(SERVICE_LABEL)?;
    let service = ServiceName::new(object.namespace()?.as_str(), service).ok()?;
    Some((service, object.name_any(), endpoints(&object.data)))
}

/// Every instance of a slice has the same ports. Only its first address means something, and none where they
/// are names of hosts.
fn endpoints(slice: &Value) -> Vec<Listed> {
    if slice["addressType"] == "FQDN" {
        return Vec::new();
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports: Vec<(Option<PortName>, Port)> =
        list(&slice["ports"]).iter().filter_map(port).collect();
    let instances = list(&slice["endpoints"]).into_iter().filter_map(|one| {
        let ip = one["addresses"][0].as_str()?.parse::<IpAddr>().ok()?;
        Some((ip, is_ending(&one["conditions"])?))
    });
    let placed = instances.flat_map(|(ip, is_ending)| {
        ports.iter().enumerate().map(move |(index, (name, port))| Listed {
            placed: Placed {
                endpoint: Endpoint { ip: Ip(ip), port: *port },
                port: name.clone(),
                is_first: index == 0,
            },
            is_ending,
        })
    });
    placed.collect()
}

/// `None` for an instance that is of no use. What is not said of readiness is readiness, as the interface has
/// it; one that ends is never ready, and may still answer.
fn is_ending(conditions: &Value) -> Option<bool> {
    let is_ready = conditions["ready"] != false;
    let still_answers = conditions["serving"] == true && conditions["terminating"] == true;
    match (is_ready, still_answers) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
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
        let placed = state.endpoints(&service.parse::<ServiceName>().unwrap());
        let first = placed.iter().filter(|one| one.is_first);
        first.map(|one| one.endpoint.to_string()).collect()
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
        let all = state.endpoints(&"shop/books".parse().unwrap());
        let metrics = all.iter().filter(|one| one.port == Some("metrics".into()) && !one.is_first);
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

    #[track_caller]
    fn check(slices: &[(&str, Value)], expect: &[&str]) {
        let mut state = State::default();
        for (index, (kind, endpoints)) in slices.iter().enumerate() {
            let mut object = mk(&format!("books-{index}"), "books", endpoints.clone());
            object.data["addressType"] = json!(kind);
            state.take(Told::Put(object));
        }
        assert_eq!(shown(&state, "shop/books"), expect);
    }

    /// proves: MSH-05
    #[test]
    fn what_an_instance_of_a_slice_is_good_for() {
        let one =
            |ip: &str, conditions: Value| json!([{"addresses": [ip], "conditions": conditions}]);
        let ending = json!({"ready": false, "serving": true, "terminating": true});
        let ended = json!({"ready": false, "serving": false, "terminating": true});
        // Published even so: readiness was said, and counts.
        let kept = json!({"ready": true, "serving": false, "terminating": true});
        check(&[("IPv4", one("10.0.0.1", json!({"ready": null})))], &["10.0.0.1:8080"]);
        check(&[("IPv4", one("10.0.0.1", kept))], &["10.0.0.1:8080"]);
        check(&[("IPv4", one("10.0.0.1", ended))], &[]);
        check(&[("IPv4", one("10.0.0.1", ending.clone()))], &["10.0.0.1:8080"]);
        let ready = one("10.0.0.2", json!({}));
        check(&[("IPv4", one("10.0.0.1", ending)), ("IPv4", ready.clone())], &["10.0.0.2:8080"]);
        // Twice while it moves from slice to slice; once is enough.
        check(&[("IPv4", ready.clone()), ("IPv4", ready.clone())], &["10.0.0.2:8080"]);
        check(&[("IPv6", one("fd00::2", json!({}))), ("IPv4", ready)], &["10.0.0.2:8080"]);
        check(&[("IPv6", one("fd00::2", json!({})))], &["[fd00::2]:8080"]);
        check(&[("FQDN", one("10.0.0.1", json!({})))], &[]);
        let two = json!([{"addresses": ["10.0.0.1", "10.0.0.9"]}]);
        check(&[("IPv4", two)], &["10.0.0.1:8080"]);
    }

    #[test]
    fn a_slice_that_changes_hands_is_of_its_new_service_only() {
        let mut state = State::default();
        let endpoints = json!([{"addresses": ["10.0.0.1"]}]);
        state.take(Told::Put(mk("one", "books", endpoints.clone())));
        let concerned = state.take(Told::Put(mk("one", "bank", endpoints.clone())));
        assert_eq!(concerned.len(), 2, "both are asked for again");
        assert!(shown(&state, "shop/books").is_empty());
        let mut bare = mk("one", "bank", endpoints);
        bare.metadata.labels = None;
        assert_eq!(state.take(Told::Put(bare)).len(), 1);
        assert!(state.slices.is_empty(), "and a slice without a label is of none");
    }
}
