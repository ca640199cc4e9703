//! Proxies that prove to each other who they are, with certificates from the control plane, and
//! access that the side of the instance enforces.
use crate::backend::Backend;
use crate::control_plane::{Mesh, Server, name};
use crate::envoy::Envoy;
use crate::http;
use crate::wait::until;
use orrery_mesh::address::Endpoint;
use orrery_mesh::envoy::Mode;
use orrery_mesh::topology::{HealthCheck, HttpMatch, Service, TrafficSettings, TrafficTarget};
use orrery_pki::Issued;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// `web` calls `books`, each through its Envoy; `bank` is a stranger with a good certificate.
struct World {
    mesh: Mesh,
    server: Server,
    web: Envoy,
    books: Envoy,
    /// Where the Envoy of `books` takes requests.
    inbound: SocketAddr,
    _app: Backend,
}

impl World {
    async fn start(mode: Mode) -> Self {
        let mesh = Mesh::new(&["shop/web", "shop/bank"]);
        mesh.declare_as("shop/books", true);
        mesh.certify("shop/web");
        mesh.certify("shop/books");
        let app = Backend::start("app").await;
        let server = mesh.serve().await;
        let mut bootstrap = mesh.bootstrap("shop/books", server.address, mode.clone());
        bootstrap.first.inbound = Some((([127, 0, 0, 1], 0).into(), app.endpoint.socket_addr()));
        let books = Envoy::start(bootstrap).await;
        let inbound = books.inbound().await;
        mesh.place("shop/books", &[Endpoint::of(inbound).expect("a real port")]);
        let web = Envoy::start(mesh.bootstrap("shop/web", server.address, mode)).await;
        let world = Self { mesh, server, web, books, inbound, _app: app };
        until("web reaches books", async || world.through_web().await == (200, "app".into())).await;
        world
    }

    async fn through_web(&self) -> http::Answer {
        self.web.get("books", "/").await
    }

    /// Straight to the Envoy of `books`, with this certificate.
    async fn straight(&self, issued: &Issued) -> Option<u16> {
        self.straight_at("/", issued).await
    }

    async fn straight_at(&self, path: &str, issued: &Issued) -> Option<u16> {
        let config = issued.material().expect("usable material").client_config();
        let tcp = TcpStream::connect(self.inbound).await.ok()?;
        let tls = TlsConnector::from(config).connect(self.inbound.ip().into(), tcp).await.ok()?;
        http::get_on(tls, "books", path).await.map(|(status, _)| status)
    }

    fn allow(&self, sources: &[&str]) {
        self.mesh.topology.put_target(TrafficTarget {
            name: "books".to_owned(),
            destination: name("shop/books"),
            sources: sources.iter().map(|source| name(source)).collect(),
            ports: None,
            rules: None,
            connections: false,
        });
    }
}

/// proves: MSH-07
#[tokio::test]
async fn access_is_enforced_by_the_side_of_the_instance() {
    let world = World::start(Mode::Aggregated).await;
    let bank = world.mesh.issue(orrery_pki::Role::Proxy, "bank.shop");
    let stranger = Mesh::new(&[]).issue(orrery_pki::Role::Proxy, "web.shop");
    assert_eq!(world.straight(&bank).await, Some(200), "nothing governs yet");

    world.allow(&["shop/web"]);
    until("the bank is kept out", async || world.straight(&bank).await == Some(403)).await;
    until("web still gets in", async || world.through_web().await.0 == 200).await;
    let web = world.mesh.issue(orrery_pki::Role::Proxy, "web.shop.other-instance");
    assert_eq!(world.straight(&web).await, Some(200), "any instance of web may");
    assert_eq!(world.straight(&stranger).await, None, "another authority's word counts nothing");
    assert_eq!(http::get(world.inbound, "books", "/").await, None, "and plain text is not heard");

    world.allow(&[]);
    until("empty means nobody", async || world.straight(&web).await == Some(403)).await;
    until("web is told at home", async || world.through_web().await.0 == 403).await;
}

/// A target that speaks of other paths does not make every instance look unwell.
///
/// proves: MSH-07
#[tokio::test]
async fn whoever_may_call_a_service_may_check_its_health() {
    let world = World::start(Mode::Aggregated).await;
    let check = HealthCheck {
        path: Some("/healthz".to_owned()),
        interval: Duration::from_millis(50),
        timeout: Duration::from_secs(5),
        unhealthy_threshold: 1,
        healthy_threshold: 1,
    };
    let api = HttpMatch { path_regex: Some("/api".to_owned()), ..HttpMatch::default() };
    world.mesh.topology.put_target(TrafficTarget {
        name: "books".to_owned(),
        destination: name("shop/books"),
        sources: [name("shop/web")].into(),
        ports: None,
        rules: Some(vec![api]),
        connections: false,
    });
    world.mesh.topology.put_service(Service {
        name: name("shop/books"),
        ports: vec!["http".into()],
        encrypted: true,
        traffic: TrafficSettings { health_check: Some(check), ..TrafficSettings::default() },
        declared_s: 0,
    });
    until("all is acknowledged", async || world.server.all_current()).await;
    let succeeded = async || -> Option<usize> {
        let stats = world.web.admin("/stats?filter=shop/books.health_check.success").await?.1;
        stats.trim().rsplit_once(": ")?.1.parse().ok()
    };
    let before = succeeded().await.unwrap_or_default();
    until("checks succeed", async || succeeded().await.is_some_and(|now| before + 3 <= now)).await;
    let clusters = world.web.admin("/clusters").await.expect("Envoy answers").1;
    assert!(!clusters.contains("/failed_active_hc"), "{clusters}");
    assert_eq!(world.web.get("books", "/api").await.0, 200);

    let bank = world.mesh.issue(orrery_pki::Role::Proxy, "bank.shop");
    let web = world.mesh.issue(orrery_pki::Role::Proxy, "web.shop");
    assert_eq!(world.straight_at("/healthz", &web).await, Some(200));
    assert_eq!(world.straight_at("/healthz/more", &web).await, Some(403), "that path and no other");
    assert_eq!(world.straight_at("/healthz", &bank).await, Some(403), "and nobody else");
}

async fn rotation(mode: Mode) {
    let world = World::start(mode).await;
    for round in 0..3 {
        let fresh = [world.mesh.certify("shop/web"), world.mesh.certify("shop/books")];
        for (envoy, issued) in [&world.web, &world.books].into_iter().zip(&fresh) {
            until(&format!("round {round}: the new certificate is in use"), async || {
                assert_eq!(world.through_web().await.0, 200, "no request fails while it rotates");
                let certificates = envoy.admin("/certs").await;
                certificates.is_some_and(|(_, text)| text.contains(&issued.identity().serial))
            })
            .await;
        }
    }
    until("everything is acknowledged", async || world.server.all_current()).await;
    assert_eq!(world.through_web().await.0, 200);
}

/// proves: MSH-03, MSH-07
#[tokio::test]
async fn certificates_rotate_under_load_without_a_failed_request() {
    rotation(Mode::Aggregated).await;
}

/// proves: MSH-03, MSH-07
#[tokio::test]
async fn certificates_rotate_under_load_without_a_failed_request_in_delta() {
    rotation(Mode::AggregatedDelta).await;
}
