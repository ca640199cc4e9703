//! Endpoint discovery on a stream of its own, over mutual TLS, with a real Envoy.
use crate::backend::Backend;
use crate::control_plane::{Mesh, name};
use crate::envoy::Envoy;
use crate::wait::until;
use orrery_mesh::catalog::Catalog as _;
use orrery_mesh::envoy::Mode;
use orrery_mesh::names::Destination;

fn books_only() -> Mode {
    Mode::EndpointsOnly { destination: Destination::first(&name("shop/books")) }
}

/// proves: MSH-01, MSH-02
#[tokio::test]
async fn an_envoy_follows_endpoints_live() {
    let mesh = Mesh::new(&["shop/web", "shop/books"]);
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    mesh.place("shop/books", &[one.endpoint]);
    let server = mesh.serve().await;
    let envoy = Envoy::start(mesh.bootstrap("shop/web", server.address, books_only())).await;
    assert_eq!(envoy.get("books", "/").await, (200, "one".to_owned()));

    mesh.place("shop/books", &[two.endpoint]);
    until("traffic follows", async || envoy.get("books", "/").await == (200, "two".into())).await;

    mesh.place("shop/books", &[]);
    until("no endpoints give 503", async || envoy.get("books", "/").await.0 == 503).await;

    mesh.place("shop/books", &[one.endpoint, two.endpoint]);
    for wanted in ["one", "two"] {
        until(wanted, async || envoy.get("books", "/").await == (200, wanted.into())).await;
    }
    until("everything is acknowledged", async || server.all_current()).await;
    let status = server.control.status();
    assert_eq!(status[0].service, name("shop/web"));
    assert!(status[0].kinds[0].progress.convergence.is_some(), "{status:?}");
}

/// proves: MSH-03
#[tokio::test]
async fn a_connected_envoy_is_an_endpoint_of_its_service_while_its_stream_lives() {
    let mesh = Mesh::new(&["shop/web", "shop/books"]);
    let server = mesh.serve().await;
    let mut bootstrap = mesh.bootstrap("shop/web", server.address, books_only());
    bootstrap.first.announce = Some(4711);
    let envoy = Envoy::start(bootstrap).await;
    let web = Destination::first(&name("shop/web"));
    let announced = || server.catalog.endpoints_of(&web).iter().map(ToString::to_string).collect();
    until("it is announced", async || {
        let announced: Vec<String> = announced();
        announced == ["127.0.0.1:4711"]
    })
    .await;
    drop(envoy);
    until("it left with its stream", async || server.catalog.endpoints_of(&web).is_empty()).await;
    until("its stream is gone", async || server.control.status().is_empty()).await;
}

/// proves: MSH-01
#[tokio::test]
async fn traffic_goes_on_while_the_control_plane_is_away_and_follows_when_it_is_back() {
    let mesh = Mesh::new(&["shop/web", "shop/books"]);
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    mesh.place("shop/books", &[one.endpoint]);
    let server = mesh.serve().await;
    let address = server.address;
    let envoy = Envoy::start(mesh.bootstrap("shop/web", address, books_only())).await;
    assert_eq!(envoy.get("books", "/").await, (200, "one".to_owned()));

    server.stop().await;
    for _ in 0..50 {
        assert_eq!(
            envoy.get("books", "/").await,
            (200, "one".to_owned()),
            "on the last good config"
        );
    }
    mesh.place("shop/books", &[two.endpoint]);
    let server = mesh.serve_at(address, orrery_mesh::control::Options::default()).await;
    until("traffic follows the new control plane", async || {
        let (status, body) = envoy.get("books", "/").await;
        assert_eq!(status, 200, "no request fails in between");
        body == "two"
    })
    .await;
    until("the new control plane sees it", async || server.all_current()).await;
}
