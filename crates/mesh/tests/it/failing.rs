//! Instances that fail while others go on: what timeouts, retries, outlier detection and health checks
//! do about it, with a real Envoy.
use crate::backend::{Backend, Mood};
use crate::control_plane::{Mesh, Server};
use crate::envoy::Envoy;
use crate::wait::until;
use orrery_mesh::address::Endpoint;
use orrery_mesh::envoy::Mode;
use orrery_mesh::topology::{HealthCheck, OutlierDetection, Retries, TrafficSettings};
use std::time::Duration;
use tokio::net::TcpListener;

/// As long as nothing here takes.
const LONG: Duration = Duration::from_secs(3600);
const REQUESTS: usize = 60;

/// `web` calls `books`, which has these instances.
struct World {
    mesh: Mesh,
    server: Server,
    web: Envoy,
}

impl World {
    async fn start(traffic: TrafficSettings, instances: &[Endpoint]) -> Self {
        let mesh = Mesh::new(&["shop/web"]);
        mesh.declare_with("shop/books", traffic);
        mesh.place("shop/books", instances);
        let server = mesh.serve().await;
        let bootstrap = mesh.bootstrap("shop/web", server.address, Mode::Aggregated);
        let web = Envoy::start(bootstrap).await;
        Self { mesh, server, web }
    }

    async fn get(&self) -> (u16, String) {
        self.web.get("books", "/").await
    }

    /// Waits until so many requests in a row are answered, each with 200.
    async fn goes_well(&self) {
        until("all requests are answered", async || {
            for _ in 0..REQUESTS {
                if self.get().await.0 != 200 {
                    return false;
                }
            }
            true
        })
        .await;
    }

    async fn all_reached(&self, backends: &[&Backend]) {
        until("every instance is reached", async || {
            assert_eq!(self.get().await.0, 200);
            backends.iter().all(|one| 0 < one.asked())
        })
        .await;
    }
}

/// An address at which nobody listens, kept from being given to others while it is held.
async fn dead() -> (Endpoint, TcpListener) {
    let holder = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
    let taken = holder.local_addr().expect("a bound address");
    // The same port at another address of loopback, where nothing listens.
    let nowhere = std::net::SocketAddr::from(([127, 9, 9, 9], taken.port()));
    (Endpoint::of(nowhere).expect("a real port"), holder)
}

/// proves: MSH-07
#[tokio::test]
async fn a_request_that_takes_too_long_is_given_up() {
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    let traffic =
        TrafficSettings { timeout: Some(Duration::from_millis(300)), ..TrafficSettings::default() };
    let world = World::start(traffic, &[one.endpoint, two.endpoint]).await;
    world.all_reached(&[&one, &two]).await;
    one.set(Mood::Hangs);
    let mut answered = 0;
    for _ in 0..8 {
        match world.get().await {
            (200, name) => {
                assert_eq!(name, "two");
                answered += 1;
            }
            (status, _) => assert_eq!(status, 504, "given up, and said so"),
        }
    }
    assert!(0 < answered && answered < 8, "the other instance goes on: {answered} of 8");
    one.set(Mood::Well);
    world.goes_well().await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_dead_instance_costs_no_request_with_retries() {
    let one = Backend::start("one").await;
    let (dead, _holder) = dead().await;
    let retries = Retries { attempts: 2, per_try_timeout: None };
    let plain = World::start(TrafficSettings::default(), &[one.endpoint, dead]).await;
    until("without retries requests fail", async || plain.get().await.0 == 503).await;
    let traffic = TrafficSettings { retries: Some(retries), ..TrafficSettings::default() };
    plain.mesh.declare_with("shop/books", traffic);
    plain.goes_well().await;
    until("all is acknowledged", async || plain.server.all_current()).await;
    for _ in 0..REQUESTS {
        assert_eq!(plain.get().await, (200, "one".to_owned()));
    }
}

/// proves: MSH-07
#[tokio::test]
async fn an_attempt_that_takes_too_long_is_repeated_elsewhere() {
    let (one, two) = (Backend::start("one").await, Backend::start("two").await);
    let retries = Retries { attempts: 2, per_try_timeout: Some(Duration::from_millis(200)) };
    let traffic = TrafficSettings {
        retries: Some(retries),
        timeout: Some(LONG),
        ..TrafficSettings::default()
    };
    let world = World::start(traffic, &[one.endpoint, two.endpoint]).await;
    world.all_reached(&[&one, &two]).await;
    one.set(Mood::Hangs);
    let before = one.asked();
    for _ in 0..6 {
        assert_eq!(world.get().await, (200, "two".to_owned()));
    }
    assert!(before < one.asked(), "it was asked, and given up");
}

/// proves: MSH-07
#[tokio::test]
async fn an_instance_that_fails_is_taken_out_and_comes_back() {
    let backends =
        [Backend::start("one").await, Backend::start("two").await, Backend::start("three").await];
    let outlier = OutlierDetection { consecutive_failures: 3, ejection_time: LONG };
    let traffic =
        TrafficSettings { outlier_detection: Some(outlier), ..TrafficSettings::default() };
    let world = World::start(traffic, &backends.each_ref().map(|one| one.endpoint)).await;
    world.all_reached(&backends.each_ref()).await;
    backends[0].set(Mood::Fails);
    let before = backends[0].asked();
    world.goes_well().await;
    let failed = backends[0].asked() - before;
    assert_eq!(failed, 3, "after so many failures in a row, and not later");
    assert!(0 < backends[1].asked() && 0 < backends[2].asked());
    // A shorter time, from now on, brings it back.
    backends[0].set(Mood::Well);
    let outlier =
        OutlierDetection { consecutive_failures: 3, ejection_time: Duration::from_millis(1) };
    let traffic =
        TrafficSettings { outlier_detection: Some(outlier), ..TrafficSettings::default() };
    world.mesh.declare_with("shop/books", traffic);
    let before = backends[0].asked();
    until("it is asked again", async || {
        assert_eq!(world.get().await.0, 200);
        before < backends[0].asked()
    })
    .await;
}

/// proves: MSH-07
#[tokio::test]
async fn an_instance_that_is_unwell_gets_no_requests() {
    let backends =
        [Backend::start("one").await, Backend::start("two").await, Backend::start("three").await];
    let check = HealthCheck {
        path: Some("/healthz".to_owned()),
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(500),
        unhealthy_threshold: 2,
        healthy_threshold: 1,
    };
    let traffic = TrafficSettings { health_check: Some(check), ..TrafficSettings::default() };
    let world = World::start(traffic, &backends.each_ref().map(|one| one.endpoint)).await;
    until("it answers", async || world.get().await.0 == 200).await;
    world.all_reached(&backends.each_ref()).await;
    for mood in [Mood::Fails, Mood::Hangs] {
        backends[0].set(mood);
        until("it is found unwell", async || {
            let clusters = world.web.admin("/clusters").await.map(|(_, text)| text);
            clusters.is_some_and(|text| text.contains("/failed_active_hc"))
        })
        .await;
        let before = backends[0].asked();
        for _ in 0..REQUESTS {
            assert_eq!(world.get().await.0, 200);
        }
        assert_eq!(backends[0].asked(), before, "nobody is sent there");
        backends[0].set(Mood::Well);
        until("it is asked again", async || {
            assert_eq!(world.get().await.0, 200);
            before < backends[0].asked()
        })
        .await;
    }
}
