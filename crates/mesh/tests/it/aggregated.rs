//! Everything on one stream, in both variants of the protocol, with a real Envoy.
use crate::backend::Backend;
use crate::control_plane::{Mesh, Server, name};
use crate::envoy::Envoy;
use crate::http;
use crate::wait::until;
use orrery_mesh::control::Options;
use orrery_mesh::envoy::Mode;
use orrery_mesh::topology::{HttpMatch, TrafficSettings, TrafficSplit, TrafficTarget};
use orrery_mesh::xds::{Kind, Nack};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const SAMPLES: usize = 400;

/// A mesh of a caller, a root and two versions behind it.
struct World {
    mesh: Mesh,
    server: Server,
    envoy: Envoy,
    _backends: [Backend; 2],
}

impl World {
    async fn start(mode: Mode) -> Self {
        let mesh = Mesh::new(&["shop/web", "shop/books", "shop/v1", "shop/v2"]);
        let backends = [Backend::start("v1").await, Backend::start("v2").await];
        mesh.place("shop/books", &[backends[0].endpoint]);
        mesh.place("shop/v1", &[backends[0].endpoint]);
        mesh.place("shop/v2", &[backends[1].endpoint]);
        let server = mesh.serve().await;
        let envoy = Envoy::start(mesh.bootstrap("shop/web", server.address, mode)).await;
        Self { mesh, server, envoy, _backends: backends }
    }

    async fn answers(&self, path: &str, expect: (u16, &str)) {
        until(&format!("{path} is answered with {expect:?}"), async || {
            let (status, body) = self.envoy.get("books", path).await;
            (status, body.trim_end()) == expect
        })
        .await;
    }

    /// How many of the samples went to v2.
    async fn share_of_v2(&self) -> usize {
        let mut count = 0;
        for _ in 0..SAMPLES {
            let (status, body) = self.envoy.get("books.shop:8080", "/").await;
            assert_eq!(status, 200, "{body}");
            count += usize::from(body == "v2");
        }
        count
    }

    fn refusal(&self, kind: Kind) -> Option<Nack> {
        let status = self.server.control.status();
        let kinds = status.into_iter().flat_map(|one| one.kinds);
        kinds.into_iter().find(|one| one.kind == kind)?.progress.nacked
    }

    fn put_split_for(&self, path_regex: &str) {
        self.mesh.topology.put_split(TrafficSplit {
            name: "beta".to_owned(),
            root: name("shop/books"),
            backends: vec![orrery_mesh::topology::Backend { service: name("shop/v2"), weight: 1 }],
            matches: vec![HttpMatch {
                path_regex: Some(path_regex.to_owned()),
                ..HttpMatch::default()
            }],
        });
    }

    fn put_target(&self, sources: &[&str], path_regex: Option<&str>) {
        let rule =
            |path: &str| HttpMatch { path_regex: Some(path.to_owned()), ..HttpMatch::default() };
        self.mesh.topology.put_target(TrafficTarget {
            name: "readers".to_owned(),
            destination: name("shop/books"),
            sources: sources.iter().map(|source| name(source)).collect(),
            ports: None,
            connections: false,
            rules: path_regex.map(|path| vec![rule(path)]),
        });
    }
}

/// Bounds are six standard deviations wide: chance breaks them once in a billion runs.
#[track_caller]
fn check_share(count: usize, percent: f64) {
    let (n, p) = (SAMPLES as f64, percent / 100.0);
    let slack = 6.0 * (n * p * (1.0 - p)).sqrt();
    let count = count as f64;
    assert!((count - n * p).abs() <= slack, "{count} of {n}, wanted {percent}% +- {slack}");
}

async fn splits(mode: Mode) {
    let world = World::start(mode).await;
    world.answers("/", (200, "v1")).await;
    for percent in [10, 50] {
        let before = world.server.wanted(Kind::Route);
        world.mesh.split("shop/books", &[("shop/v1", 100 - percent), ("shop/v2", percent)]);
        until("the routes change", async || world.server.wanted(Kind::Route) != before).await;
        until("a request reaches v2", async || world.envoy.get("books", "/").await.1 == "v2").await;
        until("the split is acknowledged", async || world.server.all_current()).await;
        check_share(world.share_of_v2().await, f64::from(percent));
    }
}

/// proves: MSH-06, MSH-07
#[tokio::test]
async fn a_split_divides_traffic_and_changes_live() {
    splits(Mode::Aggregated).await;
}

/// proves: MSH-06, MSH-07
#[tokio::test]
async fn a_split_divides_traffic_and_changes_live_in_delta() {
    splits(Mode::AggregatedDelta).await;
}

async fn refusals(mode: Mode) {
    let world = World::start(mode).await;
    world.answers("/beta", (200, "v1")).await;
    // Longer than Envoy can count; the kind would not take it.
    let timeout = Some(std::time::Duration::MAX);
    world
        .mesh
        .declare_with("shop/books", TrafficSettings { timeout, ..TrafficSettings::default() });
    world.put_split_for("/beta");
    until("Envoy refuses", async || world.refusal(Kind::Route).is_some()).await;
    let refusal = world.refusal(Kind::Route).expect("it was there");
    assert!(refusal.message.contains("uration"), "Envoy's own words: {}", refusal.message);
    // Endpoints still follow, and the last good routes stay in force.
    world.mesh.place("shop/v1", &[]);
    for _ in 0..20 {
        assert_eq!(world.envoy.get("books", "/beta").await, (200, "v1".to_owned()));
    }
    assert_eq!(world.refusal(Kind::Route).map(|nack| nack.count), Some(1), "no hot loop");
    world.mesh.declare("shop/books");
    world.answers("/beta", (200, "v2")).await;
    until("the refusal is over", async || world.server.all_current()).await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_refused_configuration_is_kept_visible_and_recovers() {
    refusals(Mode::Aggregated).await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_refused_configuration_is_kept_visible_and_recovers_in_delta() {
    refusals(Mode::AggregatedDelta).await;
}

/// proves: MSH-07
#[tokio::test]
async fn targets_deny_and_allow_live() {
    let world = World::start(Mode::Aggregated).await;
    world.answers("/", (200, "v1")).await;
    world.put_target(&[], None);
    world.answers("/", (403, "access denied by policy")).await;
    world.put_target(&["shop/web"], Some("/public"));
    world.answers("/public/index", (200, "v1")).await;
    world.answers("/private", (403, "access denied by policy")).await;
    assert_eq!(world.envoy.get("books", "/public/../private").await.0, 403, "paths are normalized");
    world.put_target(&["shop/web"], None);
    world.answers("/private", (200, "v1")).await;
}

async fn comings_and_goings(mode: Mode) {
    let world = World::start(mode).await;
    let late = Backend::start("late").await;
    world.mesh.declare("shop/late");
    world.mesh.place("shop/late", &[late.endpoint]);
    until("the new service is reached", async || {
        world.envoy.get("late", "/").await == (200, "late".into())
    })
    .await;
    world.mesh.topology.remove_service(&name("shop/late"));
    until("its route is gone", async || world.envoy.get("late", "/").await.0 == 404).await;
    until("its cluster is gone too", async || {
        let clusters = world.envoy.admin("/clusters").await;
        clusters.is_some_and(|(_, text)| !text.contains("shop/late"))
    })
    .await;
    until("all is acknowledged", async || world.server.all_current()).await;
    world.answers("/", (200, "v1")).await;
}

/// proves: MSH-07
#[tokio::test]
async fn services_come_and_go_and_clusters_go_last() {
    comings_and_goings(Mode::Aggregated).await;
}

/// proves: MSH-07
#[tokio::test]
async fn services_come_and_go_and_clusters_go_last_in_delta() {
    comings_and_goings(Mode::AggregatedDelta).await;
}

/// Requests without a pause; what they are answered with.
struct Traffic {
    stop: CancellationToken,
    running: JoinHandle<Vec<http::Answer>>,
}

impl Traffic {
    fn start(envoy: &Envoy) -> Self {
        let (stop, at) = (CancellationToken::new(), envoy.outbound);
        let stopped = stop.clone();
        let running = tokio::spawn(async move {
            let mut answers = Vec::new();
            while !stopped.is_cancelled() {
                answers.push(http::get(at, "books", "/").await.unwrap_or_default());
            }
            answers
        });
        Self { stop, running }
    }

    /// None may have failed.
    async fn end(self) {
        self.stop.cancel();
        let answers = self.running.await.expect("it ends");
        let count = answers.len();
        let failed: Vec<_> = answers.into_iter().filter(|(status, _)| *status != 200).collect();
        assert!(failed.is_empty(), "{} of {count}: {:?}", failed.len(), failed.first());
    }
}

/// What took all traffic goes, and something new takes it, at the same time.
fn replace(mesh: &Mesh, new: &Backend) {
    mesh.declare("shop/v3");
    mesh.place("shop/v3", &[new.endpoint]);
    mesh.split("shop/books", &[("shop/v3", 1)]);
    mesh.topology.remove_service(&name("shop/v1"));
}

impl World {
    async fn is_replaced(&self) {
        until("traffic goes to what is new", async || self.envoy.get("books", "/").await.1 == "v3")
            .await;
        until("what went is gone", async || {
            let clusters = self.envoy.admin("/clusters").await;
            clusters.is_some_and(|(_, text)| !text.contains("shop/v1::"))
        })
        .await;
        until("all is acknowledged", async || self.server.all_current()).await;
    }
}

/// On whole states it is sent everything again; on differences it says what it holds, and is sent the rest.
async fn away_and_back(mode: Mode) {
    let mut world = World::start(mode).await;
    let new = Backend::start("v3").await;
    world.mesh.split("shop/books", &[("shop/v1", 1)]);
    world.answers("/", (200, "v1")).await;
    until("all is acknowledged", async || world.server.all_current()).await;
    let traffic = Traffic::start(&world.envoy);
    let address = world.server.address;
    world.server.stop().await;
    for _ in 0..50 {
        let answer = world.envoy.get("books", "/").await;
        assert_eq!(answer, (200, "v1".to_owned()), "on the last good config");
    }
    replace(&world.mesh, &new);
    world.server = world.mesh.serve_at(address, Options::default()).await;
    world.is_replaced().await;
    traffic.end().await;
}

async fn replaced(mode: Mode) {
    let world = World::start(mode).await;
    let new = Backend::start("v3").await;
    world.mesh.split("shop/books", &[("shop/v1", 1)]);
    world.answers("/", (200, "v1")).await;
    until("all is acknowledged", async || world.server.all_current()).await;
    let traffic = Traffic::start(&world.envoy);
    replace(&world.mesh, &new);
    world.is_replaced().await;
    traffic.end().await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_backend_is_replaced_without_a_failed_request() {
    replaced(Mode::Aggregated).await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_backend_is_replaced_without_a_failed_request_in_delta() {
    replaced(Mode::AggregatedDelta).await;
}

/// proves: MSH-07
#[tokio::test]
async fn the_control_plane_goes_and_comes_back() {
    away_and_back(Mode::Aggregated).await;
}

/// proves: MSH-07
#[tokio::test]
async fn the_control_plane_goes_and_comes_back_in_delta() {
    away_and_back(Mode::AggregatedDelta).await;
}
