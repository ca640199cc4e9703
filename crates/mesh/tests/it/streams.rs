//! The services as a plain gRPC client sees them: identities, limits and broken requests.
use crate::control_plane::{Mesh, Server};
use crate::wait::until;
use bytes::{Buf as _, BufMut as _};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::envoy::service::endpoint::v3::endpoint_discovery_service_client::EndpointDiscoveryServiceClient;
use hyper_util::rt::TokioIo;
use orrery_mesh::control::Options;
use orrery_mesh::xds::Kind;
use orrery_pki::{Issued, Role};
use prost::Message as _;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

/// A client with this certificate.
pub async fn channel(server: &Server, issued: &Issued) -> Channel {
    let config = issued.material().expect("usable material").client_config();
    let address = server.address;
    let connect = tower::service_fn(move |_| {
        let tls = TlsConnector::from(Arc::clone(&config));
        async move {
            let tcp = TcpStream::connect(address).await?;
            let name = address.ip().into();
            tls.connect(name, tcp).await.map(TokioIo::new)
        }
    });
    let endpoint = Endpoint::from_static("http://control.plane");
    endpoint.connect_with_connector(connect).await.expect("connect")
}

pub fn node(cluster: &str) -> Option<Node> {
    Some(Node { id: "test".to_owned(), cluster: cluster.to_owned(), ..Node::default() })
}

fn request(cluster: &str, kind: Kind, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        node: node(cluster),
        type_url: kind.type_url().to_owned(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DiscoveryRequest::default()
    }
}

type Stream = (mpsc::Sender<DiscoveryRequest>, Streaming<DiscoveryResponse>);

async fn endpoints(channel: Channel, first: DiscoveryRequest) -> Result<Stream, Status> {
    let (sender, receiver) = mpsc::channel(8);
    sender.send(first).await.expect("there is room");
    let mut client = EndpointDiscoveryServiceClient::new(channel);
    let answer = client.stream_endpoints(ReceiverStream::new(receiver)).await?;
    Ok((sender, answer.into_inner()))
}

async fn aggregated(channel: Channel, first: DiscoveryRequest) -> Result<Stream, Status> {
    let (sender, receiver) = mpsc::channel(8);
    sender.send(first).await.expect("there is room");
    let mut client = AggregatedDiscoveryServiceClient::new(channel);
    let answer = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await?;
    Ok((sender, answer.into_inner()))
}

fn mesh() -> Mesh {
    Mesh::new(&["shop/web", "shop/books"])
}

async fn refused(mesh: &Mesh, server: &Server, role: Role, name: &str, claims: &str) -> Code {
    let channel = channel(server, &mesh.issue(role, name)).await;
    let outcome = endpoints(channel, request(claims, Kind::Endpoints, &["shop/books"])).await;
    outcome.err().map_or(Code::Ok, |status| status.code())
}

/// proves: MSH-02
#[tokio::test]
async fn a_wrong_identity_is_refused() {
    let mesh = mesh();
    let server = mesh.serve().await;
    let cases = [
        (Role::Proxy, "web.shop", "shop/web", Code::Ok),
        (Role::Proxy, "web.shop", "", Code::Ok),
        (Role::Proxy, "web.shop", "shop/books", Code::PermissionDenied),
        (Role::Proxy, "WEB", "", Code::PermissionDenied),
        (Role::Agent, "web.shop", "shop/web", Code::PermissionDenied),
        (Role::User, "admin", "shop/web", Code::PermissionDenied),
    ];
    for (role, name, claims, expect) in cases {
        assert_eq!(
            refused(&mesh, &server, role, name, claims).await,
            expect,
            "{role} {name} {claims}"
        );
    }
}

/// proves: MSH-02
#[tokio::test]
async fn without_a_certificate_nobody_is_served() {
    let mesh = mesh();
    let server = mesh.serve().await;
    let stranger = Mesh::new(&[]).issue(Role::Proxy, "web.shop");
    let config = stranger.material().expect("usable material").client_config();
    let tcp = TcpStream::connect(server.address).await.expect("connect");
    let name = server.address.ip().into();
    let handshake = TlsConnector::from(config).connect(name, tcp).await;
    assert!(handshake.is_err(), "another authority's world is not ours");
}

#[tokio::test]
async fn bad_requests_are_answered_and_the_others_go_on() {
    let mesh = mesh();
    let server = mesh.serve().await;
    let channel = channel(&server, &mesh.issue(Role::Proxy, "web.shop")).await;
    let good = request("shop/web", Kind::Endpoints, &["shop/books"]);
    let (_good, mut answers) = endpoints(channel.clone(), good.clone()).await.expect("opens");

    let wrong_type = endpoints(channel.clone(), request("shop/web", Kind::Cluster, &[])).await;
    assert_eq!(wrong_type.expect_err("refused").code(), Code::InvalidArgument);
    let names: Vec<String> = (0..20_000).map(|number| format!("shop/s{number}")).collect();
    let greedy = DiscoveryRequest { resource_names: names, ..good.clone() };
    let greedy = endpoints(channel.clone(), greedy).await;
    assert_eq!(greedy.expect_err("refused").code(), Code::ResourceExhausted);

    let other = DiscoveryRequest { type_url: "type.googleapis.com/x.Y".to_owned(), ..good };
    let (sender, mut mixed) = aggregated(channel, other).await.expect("unknown types do no harm");
    sender.send(request("", Kind::Cluster, &[])).await.expect("there is room");
    let clusters = mixed.message().await.expect("an answer").expect("open");
    assert_eq!(
        (clusters.type_url.as_str(), clusters.resources.len()),
        (Kind::Cluster.type_url(), 2)
    );
    let unknown = |server: &Server| -> usize {
        server.control.status().iter().map(|one| one.unknown_types.len()).sum()
    };
    assert_eq!(unknown(&server), 1, "the status shows what was asked for in vain");

    let answer = answers.message().await.expect("an answer").expect("open");
    assert_eq!(answer.resources.len(), 1);
}

/// Sends bytes as they are.
struct Garbage;

impl Codec for Garbage {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Garbage {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Garbage {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        from.advance(from.remaining());
        Ok(Some(()))
    }
}

#[tokio::test]
async fn what_is_no_request_ends_its_own_stream_only() {
    let mesh = mesh();
    let server = mesh.serve().await;
    let channel = channel(&server, &mesh.issue(Role::Proxy, "web.shop")).await;
    let good = request("shop/web", Kind::Endpoints, &["shop/books"]);
    let (_good, mut answers) = endpoints(channel.clone(), good.clone()).await.expect("opens");
    answers.message().await.expect("an answer").expect("open");

    let path = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints";
    for first in [vec![], vec![good.encode_to_vec()]] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.expect("connected");
        let messages = first.into_iter().chain([vec![0xff; 64]]);
        let sent = tonic::Request::new(tokio_stream::iter(messages.collect::<Vec<_>>()));
        let outcome = grpc.streaming(sent, path.parse().expect("a path"), Garbage).await;
        let status = match outcome {
            Err(status) => status,
            Ok(answers) => {
                let mut answers = answers.into_inner();
                loop {
                    match answers.message().await {
                        Ok(Some(())) => {}
                        Ok(None) => panic!("it ended well"),
                        Err(status) => break status,
                    }
                }
            }
        };
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let at = orrery_mesh::address::Endpoint::of(([127, 0, 0, 1], 7).into()).expect("a port");
    mesh.place("shop/books", &[at]);
    let answer = answers.message().await.expect("the other stream goes on").expect("open");
    assert_eq!(answer.resources.len(), 1);
}

#[tokio::test]
async fn a_client_that_never_acknowledges_still_gets_every_latest_state() {
    let mesh = mesh();
    let server = mesh.serve().await;
    let channel = channel(&server, &mesh.issue(Role::Proxy, "web.shop")).await;
    let first = request("shop/web", Kind::Endpoints, &["shop/books"]);
    let (_sender, mut answers) = endpoints(channel, first).await.expect("opens");
    let mut versions =
        vec![answers.message().await.expect("an answer").expect("open").version_info];
    for port in 1..4 {
        let at = orrery_mesh::address::Endpoint::of(([127, 0, 0, 1], port).into()).expect("a port");
        mesh.place("shop/books", &[at]);
        versions.push(answers.message().await.expect("an answer").expect("open").version_info);
    }
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), 4);
    let status = server.control.status();
    assert_eq!(status[0].kinds[0].progress.acked, None, "and the status says so");
}

#[tokio::test]
async fn there_is_a_limit_on_streams() {
    let mesh = mesh();
    let options = Options { streams_max: 1, ..Options::default() };
    let server = mesh.serve_at(([127, 0, 0, 1], 0).into(), options).await;
    let channel = channel(&server, &mesh.issue(Role::Proxy, "web.shop")).await;
    let ask = || endpoints(channel.clone(), request("", Kind::Endpoints, &["books"]));
    let first = ask().await.expect("there is room for one");
    assert_eq!(ask().await.expect_err("full").code(), Code::ResourceExhausted);
    drop(first);
    until("there is room again", async || ask().await.is_ok()).await;
}

#[tokio::test]
async fn fetching_is_not_implemented() {
    let mesh = mesh();
    let server = mesh.serve().await;
    let channel = channel(&server, &mesh.issue(Role::Proxy, "web.shop")).await;
    let mut client = EndpointDiscoveryServiceClient::new(channel);
    let outcome = client.fetch_endpoints(request("shop/web", Kind::Endpoints, &[])).await;
    assert_eq!(outcome.expect_err("as the seed says").code(), Code::Unimplemented);
}
