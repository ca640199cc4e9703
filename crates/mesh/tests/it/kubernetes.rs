//! The Kubernetes provider against a server that follows the published interface: discovery, a list, and
//! a watch from its revision.
use crate::wait::until;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::StreamExt as _;
use orrery_mesh::names::ServiceName;
use orrery_mesh::providers::{EndpointsProvider as _, KubernetesProvider};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
struct Api {
    slices: Arc<Mutex<Vec<Value>>>,
    events: broadcast::Sender<Value>,
    is_down: Arc<Mutex<bool>>,
}

impl Api {
    fn put(&self, slice: Value) {
        let mut slices = self.slices.lock();
        slices.retain(|one| one["metadata"]["name"] != slice["metadata"]["name"]);
        slices.push(slice.clone());
        // Nobody may watch yet; then the list tells.
        let _ = self.events.send(json!({"type": "MODIFIED", "object": slice}));
    }
}

fn slice(name: &str, ip: &str, revision: u32) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": "shop", "resourceVersion": revision.to_string(), "uid": name,
            "labels": {"kubernetes.io/service-name": "books"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

async fn resources() -> String {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "discovery.k8s.io/v1",
        "resources": [{
            "name": "endpointslices", "singularName": "endpointslice", "namespaced": true,
            "kind": "EndpointSlice", "verbs": ["get", "list", "watch"],
        }],
    })
    .to_string()
}

async fn slices(State(api): State<Api>, Query(query): Query<HashMap<String, String>>) -> Response {
    if *api.is_down.lock() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if query.get("watch").is_some_and(|watch| watch == "true" || watch == "1") {
        let events = tokio_stream::wrappers::BroadcastStream::new(api.events.subscribe());
        let lines = events.filter_map(|event| async move {
            Some(Ok::<_, Infallible>(Bytes::from(format!("{}\n", event.ok()?))))
        });
        return Body::from_stream(lines).into_response();
    }
    let list = json!({
        "kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"resourceVersion": "10"}, "items": *api.slices.lock(),
    });
    list.to_string().into_response()
}

/// proves: MSH-05
#[tokio::test]
async fn slices_of_a_cluster_are_followed() {
    let (events, _) = broadcast::channel(16);
    let api = Api { slices: Arc::default(), events, is_down: Arc::default() };
    api.put(slice("books-1", "10.0.0.1", 5));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound address"));
    let router = Router::new()
        .route("/apis/discovery.k8s.io/v1", get(resources))
        .route("/apis/discovery.k8s.io/v1/endpointslices", get(slices))
        .with_state(api.clone());
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.expect("it serves") });

    let folder = tempfile::tempdir().expect("make a folder");
    let kubeconfig = folder.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).expect("write a kubeconfig");
    let client = orrery_mesh::kubernetes::client(&kubeconfig).await.expect("a client");
    let provider = KubernetesProvider::new("west");
    assert_eq!(provider.name(), "kubernetes/west");
    let stop = CancellationToken::new();
    let running = tokio::spawn(provider.clone().run(client, stop.clone()));

    let books: ServiceName = "shop/books".parse().expect("a name");
    let listed = async || -> Vec<String> {
        let found = provider.list_endpoints(&books).await.unwrap_or_default();
        found.iter().map(|one| one.endpoint.to_string()).collect()
    };
    assert_eq!(listed().await, ["10.0.0.1:8080"], "the first answer waits for the first list");
    until("another slice is seen", async || {
        api.put(slice("books-2", "10.0.0.2", 11));
        listed().await == ["10.0.0.1:8080", "10.0.0.2:8080"]
    })
    .await;
    let other = provider.list_endpoints(&"shop/other".parse().expect("a name")).await;
    assert_eq!(other, Ok(vec![]), "an unknown service has no endpoints");
    stop.cancel();
    running.await.expect("it ends");
}
