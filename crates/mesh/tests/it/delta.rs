//! Differences only, as a plain gRPC client sees them on the wire: what it holds from before, what it asks
//! for and lets go of, and what is gone.
use crate::control_plane::{Mesh, Server, name};
use crate::streams::{channel, node};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse,
};
use orrery_mesh::address::Endpoint;
use orrery_mesh::xds::Kind;
use orrery_pki::Role;
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// One stream of a proxy of `web`.
struct Client {
    sender: mpsc::Sender<DeltaDiscoveryRequest>,
    answers: Streaming<DeltaDiscoveryResponse>,
}

fn request(kind: &str, subscribe: &[&str], unsubscribe: &[&str]) -> DeltaDiscoveryRequest {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    DeltaDiscoveryRequest {
        type_url: kind.to_owned(),
        resource_names_subscribe: owned(subscribe),
        resource_names_unsubscribe: owned(unsubscribe),
        ..DeltaDiscoveryRequest::default()
    }
}

impl Client {
    async fn open(mesh: &Mesh, server: &Server, first: DeltaDiscoveryRequest) -> Self {
        let channel = channel(server, &mesh.issue(Role::Proxy, "web.shop")).await;
        let (sender, receiver) = mpsc::channel(8);
        let first = DeltaDiscoveryRequest { node: node("shop/web"), ..first };
        sender.send(first).await.expect("there is room");
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let answers = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await;
        Self { sender, answers: answers.expect("opens").into_inner() }
    }

    async fn send(&self, request: DeltaDiscoveryRequest) {
        self.sender.send(request).await.expect("there is room");
    }

    async fn next(&mut self) -> Result<DeltaDiscoveryResponse, Status> {
        self.answers.message().await.map(|answer| answer.expect("open"))
    }

    /// The next answer, acknowledged, as names and those that are gone.
    async fn told(&mut self) -> (Vec<String>, Vec<String>) {
        let answer = self.next().await.expect("an answer");
        let verdict = DeltaDiscoveryRequest {
            response_nonce: answer.nonce.clone(),
            ..request(&answer.type_url, &[], &[])
        };
        self.send(verdict).await;
        let names = answer.resources.into_iter().map(|one| one.name).collect();
        (names, answer.removed_resources)
    }
}

fn mesh() -> Mesh {
    let mesh = Mesh::new(&["shop/web", "shop/books", "shop/bank"]);
    let at = |port: u16| Endpoint::of(([127, 0, 0, 1], port).into()).expect("a port");
    mesh.place("shop/books", &[at(1)]);
    mesh.place("shop/bank", &[at(2)]);
    mesh
}

/// proves: MSH-07
#[tokio::test]
async fn a_client_that_comes_back_is_sent_what_it_lacks() {
    let (mesh, clusters) = (mesh(), Kind::Cluster.type_url());
    let server = mesh.serve().await;
    let mut first = Client::open(&mesh, &server, request(clusters, &[], &[])).await;
    let held: BTreeMap<String, String> = {
        let answer = first.next().await.expect("an answer");
        answer.resources.into_iter().map(|one| (one.name, one.version)).collect()
    };
    assert_eq!(held.len(), 3);
    drop(first);

    // While it was away one went, one came, and one it holds in another version.
    mesh.topology.remove_service(&name("shop/bank"));
    mesh.declare("shop/new");
    let mut held: std::collections::HashMap<_, _> = held.into_iter().collect();
    held.insert("shop/books".to_owned(), "of another control plane".to_owned());
    let again =
        DeltaDiscoveryRequest { initial_resource_versions: held, ..request(clusters, &["*"], &[]) };
    let mut client = Client::open(&mesh, &server, again).await;
    let (mut names, removed) = client.told().await;
    names.sort();
    assert_eq!((names, removed), (vec!["shop/books".into(), "shop/new".into()], vec![]));
    let gone = (vec![], vec!["shop/bank".to_owned()]);
    assert_eq!(client.told().await, gone, "after what is new was accepted");

    mesh.topology.remove_service(&name("shop/new"));
    assert_eq!(client.told().await, (vec![], vec!["shop/new".to_owned()]), "what goes is told");
    mesh.declare_as("shop/books", true);
    assert_eq!(
        client.told().await,
        (vec!["shop/books".to_owned()], vec![]),
        "and only what changed"
    );
}

/// proves: MSH-07
#[tokio::test]
async fn names_come_and_go_beside_everything_and_unknown_types_do_no_harm() {
    let (mesh, kind) = (mesh(), Kind::Endpoints.type_url());
    let server = mesh.serve().await;
    let odd = request("type.googleapis.com/x.Y", &["a"], &[]);
    let mut client = Client::open(&mesh, &server, odd).await;
    client.send(request(kind, &["shop/books"], &[])).await;
    assert_eq!(client.told().await.0, ["shop/books"], "the first answer is to what is served");
    client.send(request(kind, &["shop/bank:http"], &[])).await;
    assert_eq!(client.told().await.0, ["shop/bank:http"]);
    // Asked again, it is answered again; let go of, it is not told of any more.
    client.send(request(kind, &["shop/books"], &[])).await;
    assert_eq!(client.told().await.0, ["shop/books"]);
    client.send(request(kind, &["shop/empty"], &["shop/books"])).await;
    assert_eq!(client.told().await.0, ["shop/empty"], "and now it knows");
    let at = Endpoint::of(([127, 0, 0, 1], 9).into()).expect("a port");
    mesh.place("shop/books", &[at]);
    mesh.place("shop/bank", &[at]);
    assert_eq!(client.told().await.0, ["shop/bank:http"]);
    // Everything by its name, and one that is not there.
    let clusters = Kind::Cluster.type_url();
    client.send(request(clusters, &["*", "shop/nope"], &[])).await;
    let (names, removed) = client.told().await;
    assert_eq!((names.len(), removed), (3, vec!["shop/nope".to_owned()]));
    client.send(request(clusters, &["shop/never"], &["*"])).await;
    assert_eq!(client.told().await.1, ["shop/never"], "and now it knows");
    mesh.declare("shop/new");
    mesh.place("shop/bank", &[]);
    assert_eq!(client.told().await.0, ["shop/bank:http"], "no word of the new cluster");
}

/// However many requests it takes.
#[tokio::test]
async fn there_is_a_limit_on_what_a_stream_asks_for() {
    let (mesh, kind) = (mesh(), Kind::Endpoints.type_url());
    let server = mesh.serve().await;
    let mut client = Client::open(&mesh, &server, request(kind, &["shop/books"], &[])).await;
    client.told().await;
    for round in 0..2 {
        let names: Vec<String> =
            (0..6_000).map(|number| format!("shop/s{round}-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        client.send(request(kind, &names, &[])).await;
    }
    let status = loop {
        match client.next().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
}
