//! One loud peer does not starve the others.
use crate::support::World;
use axum::body::Body;
use http_body_util::BodyExt as _;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use orrery_pki::TlsFiles;
use orrery_proto::hub::v1::DiscoverRequest;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_server::{Limits, Operations};
use std::net::{IpAddr, Ipv4Addr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tonic_types::StatusExt as _;

/// Another machine, as far as the server can see: the whole of 127.0.0.0/8 is this one.
const QUIET: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

async fn world(limits: Limits) -> World {
    World::operated(TlsFiles::default(), Operations { limits, ..Operations::default() }).await
}

fn client(from: Ipv4Addr) -> Client<HttpConnector, Body> {
    let mut connector = HttpConnector::new();
    connector.set_local_address(Some(IpAddr::V4(from)));
    Client::builder(TokioExecutor::new()).build(connector)
}

async fn ask(world: &World, client: &Client<HttpConnector, Body>) -> hyper::Response<Vec<u8>> {
    let request = Request::get(format!("{}/api/v1/namespaces", world.url()));
    let answer = client.request(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = answer.into_parts();
    hyper::Response::from_parts(head, body.collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test]
async fn a_loud_client_is_slowed_down_and_a_quiet_one_is_not() {
    let world = world(Limits { rate_per_peer: Some(1), ..Limits::default() }).await;
    let (loud, quiet) = (client(Ipv4Addr::LOCALHOST), client(QUIET));
    let mut refused = None;
    let mut served = 0;
    for _ in 0..40 {
        let answer = ask(&world, &loud).await;
        match answer.status() {
            StatusCode::OK => served += 1,
            StatusCode::TOO_MANY_REQUESTS => refused = Some(answer),
            other => panic!("{other}"),
        }
    }
    assert!((2..40).contains(&served), "the burst was served, then it was enough: {served}");
    let refused = refused.expect("forty at once are too many");
    assert!(refused.headers().contains_key("retry-after"));
    let status: serde_json::Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    // Each of the first two requests of somebody else is served, however loud the other one is.
    for _ in 0..2 {
        assert_eq!(ask(&world, &quiet).await.status(), StatusCode::OK);
    }
    // Programs are told the same in their own language.
    let mut hub = HubClient::connect(world.url()).await.unwrap();
    let mut status = None;
    for _ in 0..40 {
        if let Err(error) = hub.discover(DiscoverRequest {}).await {
            status = Some(error);
        }
    }
    let status = status.expect("forty at once are too many");
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert!(status.get_error_details().retry_info().is_some());
    let figures = world.get("/metrics").await.text;
    // The figures themselves may be refused to the loud one; the quiet one sees them.
    let figures = if figures.contains("orrery_api_refusals_total") {
        figures
    } else {
        let request = Request::get(format!("{}/metrics", world.url())).body(Body::empty()).unwrap();
        let answer = client(Ipv4Addr::new(127, 0, 0, 3)).request(request).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let line = figures.lines().find(|line| line.contains("refusals_total{reason=\"rate\"}"));
    assert!(!line.unwrap().ends_with(" 0"), "{line:?}");
}

async fn connect(world: &World, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(world.address.parse().unwrap()).await.unwrap()
}

/// Whether the server answers on this connection, and goes on listening to it.
async fn served(stream: &mut TcpStream) -> bool {
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if stream.write_all(request).await.is_err() {
        return false;
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.is_ok() && answer == *b"HTTP/1.1 200"
}

#[tokio::test]
async fn one_address_has_so_many_connections_and_no_more() {
    let world = world(Limits { connections_per_peer: 3, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&world, Ipv4Addr::LOCALHOST).await;
        assert!(served(&mut stream).await);
        held.push(stream);
    }
    assert!(!served(&mut connect(&world, Ipv4Addr::LOCALHOST).await).await, "the fourth is closed");
    assert!(served(&mut connect(&world, QUIET).await).await, "others are served");
    held.clear();
    // As soon as the server has noticed that they are gone.
    let again = async {
        while !served(&mut connect(&world, Ipv4Addr::LOCALHOST).await).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, again).await.expect("room again");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let world = world(Limits::default()).await;
    let huge = "x".repeat(100 << 10);
    let request = world.request(hyper::Method::GET, "/apis", &[("x-huge", &huge)], Body::empty());
    let code = match world.client.request(request).await {
        Ok(answer) => answer.status(),
        // The connection may be closed while the client still writes.
        Err(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    };
    assert_eq!(code, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}
