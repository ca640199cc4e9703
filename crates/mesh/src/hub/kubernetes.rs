//! Declarations in a Kubernetes cluster: the kinds of the Service Mesh Interface, and the Services they
//! speak of.
use super::Source;
use crate::declared::Declarations;
use crate::kubernetes::{Told, follow};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use orrery_api::{DecodeOptions, Object, Scheme};
use orrery_hub::ObjectName;
use orrery_proto::mesh::v1::{MeshPort, MeshService, MeshServiceSpec};
use orrery_proto::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use prost_types::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The newest first: a cluster that serves several is read in the newest.
const VERSIONS: [&str; 4] = ["v1alpha4", "v1alpha3", "v1alpha2", "v1alpha1"];
const KINDS: [(&str, &str); 6] = [
    ("split.smi-spec.io", "TrafficSplit"),
    ("access.smi-spec.io", "TrafficTarget"),
    ("access.smi-spec.io", "IdentityBinding"),
    ("specs.smi-spec.io", "HTTPRouteGroup"),
    ("specs.smi-spec.io", "TCPRoute"),
    ("specs.smi-spec.io", "UDPRoute"),
];
/// A Service that no split names is part of the mesh when it has this label.
const MESH_LABEL: (&str, &str) = ("orrery.dev/mesh", "true");

/// One cluster.
pub struct KubernetesSource {
    cluster: String,
    scheme: Arc<Scheme>,
    state: Mutex<State>,
    changed: Mutex<Option<Arc<Notify>>>,
    /// The kinds of which the cluster has told something.
    heard: watch::Sender<BTreeSet<String>>,
}

#[derive(Default)]
struct State {
    /// By kind and name, in the stored version.
    objects: BTreeMap<(String, ObjectName), Object>,
    services: BTreeMap<ObjectName, Arc<MeshService>>,
}

impl KubernetesSource {
    pub fn new(cluster: &str, scheme: Arc<Scheme>) -> Arc<Self> {
        Arc::new(Self {
            cluster: cluster.to_owned(),
            scheme,
            state: Mutex::default(),
            changed: Mutex::default(),
            heard: watch::Sender::new(BTreeSet::new()),
        })
    }

    /// Follows the cluster until told to stop.
    pub async fn run(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let kinds = KINDS.map(|(group, kind)| {
            let (this, client) = (&self, client.clone());
            async move {
                follow(client, group, &VERSIONS, kind, |version, told| {
                    this.take(group, version, kind, told);
                })
                .await;
            }
        });
        let services = follow(client, "", &["v1"], "Service", |_, told| self.take_services(told));
        tokio::select! {
            () = stop.cancelled() => {}
            _ = futures::future::join(futures::future::join_all(kinds), services) => {}
        }
    }

    fn take(&self, group: &str, version: &str, kind: &str, told: Told) {
        let mut state = self.state.lock();
        // Seen only after the lock is free again.
        self.hear(kind);
        match told {
            Told::All(objects) => {
                state.objects.retain(|(known, _), _| known != kind);
                for object in &objects {
                    self.put(&mut state, group, version, kind, object);
                }
            }
            Told::Put(object) => self.put(&mut state, group, version, kind, &object),
            Told::Gone(object) => {
                state.objects.remove(&(kind.to_owned(), name_of(&object)));
            }
            Told::Failed(error) => {
                let cluster = &self.cluster;
                tracing::warn!(
                    cluster,
                    kind,
                    error,
                    "cannot follow a cluster, what it declared stays"
                );
                return;
            }
        }
        drop(state);
        self.wake_up();
    }

    fn put(
        &self,
        state: &mut State,
        group: &str,
        version: &str,
        kind: &str,
        object: &DynamicObject,
    ) {
        let key = (kind.to_owned(), name_of(object));
        match self.read(group, version, kind, object) {
            Ok(read) => drop(state.objects.insert(key, read)),
            Err(error) => {
                let (cluster, name) = (&self.cluster, &key.1);
                tracing::warn!(cluster, kind, %name, error, "a declaration cannot be read, it is left out");
                state.objects.remove(&key);
            }
        }
    }

    fn read(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        object: &DynamicObject,
    ) -> Result<Object, String> {
        let kind =
            self.scheme.lookup(group, version, kind).ok_or("this version is not known here")?;
        let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
        let read = Object::from_json_value(kind, &value, &DecodeOptions::lenient());
        let read = read.map_err(|error| error.to_string())?.object;
        let mut stored = self.scheme.to_hub(&read).map_err(|error| error.to_string())?;
        stored.default();
        match stored.validate(None).first() {
            Some(violation) => Err(violation.to_string()),
            None => Ok(stored),
        }
    }

    /// Whoever waits for the first word looks once this is done with it.
    fn hear(&self, kind: &str) {
        self.heard.send_if_modified(|heard| heard.insert(kind.to_owned()));
    }

    fn take_services(&self, told: Told) {
        let mut state = self.state.lock();
        self.hear("Service");
        match told {
            Told::All(objects) => {
                state.services =
                    objects.iter().map(|one| (name_of(one), service_of(one))).collect();
            }
            Told::Put(object) => {
                state.services.insert(name_of(&object), service_of(&object));
            }
            Told::Gone(object) => drop(state.services.remove(&name_of(&object))),
            Told::Failed(_) => return,
        }
        drop(state);
        self.wake_up();
    }

    fn wake_up(&self) {
        if let Some(changed) = &*self.changed.lock() {
            changed.notify_one();
        }
    }
}

#[async_trait::async_trait]
impl Source for KubernetesSource {
    fn declarations(&self) -> Declarations {
        let state = self.state.lock();
        let mut declared = Declarations::default();
        for object in state.objects.values() {
            if let Err(error) = declared.put(object) {
                tracing::warn!(cluster = self.cluster, %error, "a declaration cannot be read, it is left out");
            }
        }
        let named: BTreeSet<ObjectName> = declared
            .splits
            .iter()
            .flat_map(|(name, split)| {
                let spec = split.spec.clone().unwrap_or_default();
                let backends = spec.backends.into_iter().filter_map(|backend| backend.service);
                let services: Vec<_> = spec.service.into_iter().chain(backends).collect();
                services.into_iter().map(|service| ObjectName::new(&name.project, service))
            })
            .collect();
        for (name, service) in &state.services {
            let labels = service.metadata.as_ref().map(|metadata| &metadata.labels);
            let labelled = labels.and_then(|labels| labels.get(MESH_LABEL.0));
            if named.contains(name) || labelled.is_some_and(|value| value == MESH_LABEL.1) {
                declared.services.insert(name.clone(), service.clone());
            }
        }
        declared
    }

    fn wake(&self, changed: Arc<Notify>) {
        *self.changed.lock() = Some(changed.clone());
        changed.notify_one();
    }

    async fn loaded(&self) {
        let mut heard = self.heard.subscribe();
        // The sender lives as long as the source, so this ends with all of them heard.
        let _ = heard.wait_for(|heard| KINDS.len() < heard.len()).await;
    }
}

fn name_of(object: &DynamicObject) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// A Service of Kubernetes as a service of the mesh: its ports and its labels.
fn service_of(object: &DynamicObject) -> Arc<MeshService> {
    let ports = object.data["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let spec = MeshServiceSpec {
        ports: ports.iter().filter_map(port_of).collect(),
        ..MeshServiceSpec::default()
    };
    let metadata = ObjectMeta {
        name: object.name_any(),
        project: object.namespace().unwrap_or_default(),
        labels: object.labels().clone().into_iter().collect(),
        creation_timestamp: object
            .creation_timestamp()
            .map(|time| Timestamp { seconds: time.0.as_second(), nanos: 0 }),
        ..ObjectMeta::default()
    };
    let service =
        MeshService { metadata: Some(metadata), spec: Some(spec), ..MeshService::default() };
    Arc::new(service)
}

/// A port of a Service; datagrams are not for us.
fn port_of(port: &serde_json::Value) -> Option<MeshPort> {
    if port["protocol"].as_str().is_some_and(|protocol| protocol != "TCP") {
        return None;
    }
    let number = i32::try_from(port["port"].as_i64()?).ok()?;
    let name = port["name"].as_str().filter(|name| !name.is_empty());
    let protocol = spoken(port["appProtocol"].as_str(), name.unwrap_or_default());
    Some(MeshPort {
        name: Some(name.map_or_else(|| number.to_string(), str::to_owned)),
        port: Some(number),
        protocol: Some(protocol.to_owned()),
        ..MeshPort::default()
    })
}

/// What is spoken on a port: as `appProtocol` says, else as the widespread habit of names like
/// `grpc-api` has it, else HTTP.
fn spoken(app_protocol: Option<&str>, name: &str) -> &'static str {
    let word = app_protocol.unwrap_or_else(|| name.split('-').next().unwrap_or_default());
    match word {
        "kubernetes.io/h2c" | "http2" | "h2c" | "grpc" => "http2",
        "tcp" | "tls" | "https" | "mysql" | "mongo" | "redis" => "tcp",
        _ => "http",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(port: serde_json::Value, expect: Option<(&str, &str)>) {
        let read = port_of(&port);
        let shown = read.as_ref().map(|port| (port.name(), port.protocol()));
        assert_eq!(shown, expect, "{port}");
    }

    /// proves: MSH-04
    #[test]
    fn ports_of_services() {
        check(json!({"port": 80}), Some(("80", "http")));
        check(json!({"port": 80, "name": "web", "protocol": "TCP"}), Some(("web", "http")));
        check(json!({"port": 80, "name": "grpc-api"}), Some(("grpc-api", "http2")));
        check(json!({"port": 80, "name": "tcp", "appProtocol": "http"}), Some(("tcp", "http")));
        check(json!({"port": 80, "appProtocol": "kubernetes.io/h2c"}), Some(("80", "http2")));
        check(json!({"port": 5432, "name": "tcp-pg"}), Some(("tcp-pg", "tcp")));
        check(json!({"port": 53, "name": "dns", "protocol": "UDP"}), None);
        check(json!({"name": "none"}), None);
    }

    #[test]
    fn a_service_is_as_old_as_its_object() {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2001-09-09T01:46:40Z"},
        });
        let service = service_of(&serde_json::from_value(object).expect("an object"));
        let created = service.metadata.as_ref().and_then(|metadata| metadata.creation_timestamp);
        assert_eq!(created.map(|created| created.seconds), Some(1_000_000_000));
    }
}
