//! Web pages that make a browser ask a plain port for things.
use crate::support::{WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::{Method, Uri};
use orrery_proto::hub::v1::DiscoverRequest;
use orrery_proto::hub::v1::hub_client::HubClient;

/// A page can send this without asking first: no header of it needs a permission.
async fn posted(world: &World, name: &str, headers: &[(&str, &str)]) -> u16 {
    let body = Body::from(workload(name).to_string());
    let answer = world.send(world.request(Method::POST, WORKLOADS, headers, body)).await;
    if answer.code == 403 {
        let status = answer.json();
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"Forbidden".into()));
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("a port without certificates trusts everybody"), "{message}");
    }
    answer.code.as_u16()
}

#[tokio::test]
async fn a_page_of_another_site_starts_no_workload() {
    let world = World::start().await;
    let evil = ("origin", "https://evil.example");
    for headers in [
        &[evil, ("sec-fetch-site", "cross-site")] as &[_],
        &[evil],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:1")],
        &[("sec-fetch-site", "same-site")],
        &[("host", "evil.example")],
        &[("host", "evil.example:7080"), ("origin", "http://evil.example:7080")],
    ] {
        assert_eq!(posted(&world, "evil", headers).await, 403, "{headers:?}");
        let read = world.request(Method::GET, "/healthz", headers, Body::empty());
        assert_eq!(world.send(read).await.code, 403, "{headers:?}");
    }
    world.get(&format!("{WORKLOADS}/evil")).await.expect(404);
    let own = format!("http://{}", world.address);
    let port = world.address.rsplit(':').next().unwrap();
    let local = format!("localhost:{port}");
    for (name, headers) in [
        ("a", &[] as &[_]),
        ("b", &[("origin", own.as_str()), ("sec-fetch-site", "same-origin")]),
        ("c", &[("sec-fetch-site", "none")]),
        ("d", &[("host", local.as_str())]),
    ] {
        assert_eq!(posted(&world, name, headers).await, 201, "{headers:?}");
    }
}

/// Programs reach a server by whatever name their machine knows.
#[tokio::test]
async fn calls_of_grpc_go_to_any_name() {
    let world = World::start().await;
    let endpoint = tonic::transport::Endpoint::from_shared(world.url()).unwrap();
    let named = endpoint.origin(Uri::from_static("http://hub.internal:7080"));
    let mut hub = HubClient::new(named.connect().await.unwrap());
    hub.discover(DiscoverRequest {}).await.unwrap();
}
