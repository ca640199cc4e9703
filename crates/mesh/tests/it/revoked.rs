//! Proxies that are disabled while they are connected to others: real Envoys, a control plane over a hub, and a
//! Revocation that is written into it and deleted.
use crate::backend::{Backend, Echo};
use crate::connections::{anywhere, talk, talk_on};
use crate::control_plane::{Mesh, bundle, with_trust};
use crate::envoy::Envoy;
use crate::http;
use crate::wait::{until, until_some};
use orrery_api::Scheme;
use orrery_hub::{ApplyOptions, Hub, ObjectName};
use orrery_mesh::address::Endpoint;
use orrery_mesh::control::{Control, Options, ProxyStatus};
use orrery_mesh::envoy::{Mode, PortBootstrap};
use orrery_mesh::hub::{IssuedCertificate, Issuer, Mesh as HubMesh, MeshOptions};
use orrery_mesh::names::{Destination, ProxyName};
use orrery_pki::{Role, TlsMaterial};
use orrery_proto::core::v1::Revocation;
use orrery_runtime::{TaskError, Tasks};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;

/// `web` and `bank` call `store`, which takes requests and connections.
const SERVICES: &str = "
{apiVersion: core.orrery.dev/v1, kind: Project, metadata: {name: shop}}
---
{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {name: store, project: shop},
 spec: {encrypted: true, ports: [{name: http, port: 80}, {name: pg, port: 5432, protocol: tcp}]}}
---
{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {name: web, project: shop}, spec: {}}
---
{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {name: bank, project: shop}, spec: {}}
";

/// Both may do everything there, and nobody else.
const TARGET: &str = "
{apiVersion: specs.smi-spec.io/v1alpha4, kind: TCPRoute, metadata: {name: all, project: shop}, spec: {}}
---
{apiVersion: access.smi-spec.io/v1alpha4, kind: TrafficTarget, metadata: {name: store, project: shop},
 spec: {destination: {kind: MeshService, name: store}, rules: [{kind: TCPRoute, name: all}],
   sources: [{kind: ServiceAccount, name: web}, {kind: ServiceAccount, name: bank}]}}
";

fn revocation(proxy: &str) -> String {
    format!(
        "{{apiVersion: core.orrery.dev/v1, kind: Revocation, metadata: {{name: gone}},
          spec: {{role: proxy, peer: {proxy}, reason: stolen}}}}"
    )
}

/// Issues as the server does.
struct OfMesh(Arc<Mesh>);

impl Issuer for OfMesh {
    fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String> {
        let bundle = bundle(&self.0.issue(Role::Proxy, proxy.as_str()));
        Ok(IssuedCertificate { bundle, lifetime: Duration::from_secs(3600) })
    }
}

/// A server of the hub.
struct Server {
    address: SocketAddr,
    control: Arc<Control>,
    stop: CancellationToken,
    serving: JoinSet<()>,
    working: JoinHandle<Result<(), TaskError>>,
}

impl Server {
    async fn start(mesh: &Arc<Mesh>, hub: &Hub, name: &str, at: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let options = MeshOptions {
            control: with_trust(Options::default()),
            issuer: Some(Arc::new(OfMesh(mesh.clone()))),
            providers: vec![mesh.provider.clone()],
            ..MeshOptions::default()
        };
        let started = HubMesh::spawn(hub, name, options, &mut tasks).expect("a mesh");
        let control = started.control.clone();
        let working = tokio::spawn(tasks.run(Duration::from_secs(60)));
        let mut serving = JoinSet::new();
        let address = mesh.expose(at, &control, &stop, &mut serving).await;
        Self { address, control, stop, serving, working }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        while self.serving.join_next().await.is_some() {}
        self.working.await.expect("no panic").expect("every task ends");
    }

    /// The names that it has the others refuse.
    fn revoked(&self) -> Vec<String> {
        let declared = self.control.catalog().declared();
        declared.revoked().names().map(ToString::to_string).collect()
    }

    /// True if all three proxies are there, and each runs with exactly what it should.
    fn all_current(&self) -> bool {
        let status = self.control.status();
        status.len() == 3 && status.iter().all(ProxyStatus::is_current)
    }
}

struct World {
    mesh: Arc<Mesh>,
    hub: Hub,
    server: Server,
    store: Envoy,
    web: Envoy,
    bank: Envoy,
    _app: Backend,
    _echo: Echo,
}

impl World {
    async fn start(mode: Mode) -> Self {
        let (mesh, hub) = (Arc::new(Mesh::new(&[])), hub().await);
        let server = Server::start(&mesh, &hub, "one", anywhere()).await;
        let (app, echo) = (Backend::start("app").await, Echo::start("echo").await);
        let mut bootstrap = mesh.bootstrap("shop/store", server.address, mode.clone());
        bootstrap.first.inbound = Some((anywhere(), app.endpoint.socket_addr()));
        let inbound = Some((anywhere(), echo.endpoint.socket_addr()));
        bootstrap.ports.insert("5432".into(), PortBootstrap { inbound, announce: None });
        let store = started(bootstrap).await;
        let at = async |name: &str| {
            let found = until_some("the store listens", async || store.listener(name).await).await;
            Endpoint::of(found).expect("a real port")
        };
        let placed = [("80", at("inbound").await), ("5432", at("inbound:5432").await)];
        mesh.place_ports("shop/store", &placed);
        let caller = async |service: &str| {
            let mut bootstrap = mesh.bootstrap(service, server.address, mode.clone());
            let to = Destination::within("shop", "store:5432").expect("a destination");
            bootstrap.connect.insert(anywhere(), to);
            started(bootstrap).await
        };
        let (web, bank) = (caller("shop/web").await, caller("shop/bank").await);
        let world = Self { mesh, hub, server, store, web, bank, _app: app, _echo: echo };
        world.both_are_let_in().await;
        world
    }

    async fn both_are_let_in(&self) {
        for envoy in [&self.web, &self.bank] {
            until("it is let in", async || let_in(envoy).await == (true, true)).await;
        }
        until("all is acknowledged", async || self.server.all_current()).await;
    }

    /// Straight to the port for connections, with a certificate of that name.
    async fn connect(&self, spoken: Option<&'static str>, proxy: &str) -> Option<String> {
        self.connect_with(spoken, &self.proves(proxy)).await
    }

    async fn connect_with(
        &self,
        spoken: Option<&'static str>,
        shown: &TlsMaterial,
    ) -> Option<String> {
        let at = self.store.listener("inbound:5432").await?;
        let spoken = match spoken {
            Some(name) => ServerName::try_from(name).expect("a name"),
            None => at.ip().into(),
        };
        talk(handshake(at, spoken, shown).await?).await
    }

    /// The same to the port for requests: the status.
    async fn ask(&self, proxy: &str) -> Option<u16> {
        self.ask_with(&self.proves(proxy)).await
    }

    async fn ask_with(&self, shown: &TlsMaterial) -> Option<u16> {
        let at = self.store.inbound().await;
        let tls = handshake(at, at.ip().into(), shown).await?;
        http::get_on(tls, "store", "/").await.map(|(status, _)| status)
    }

    fn proves(&self, proxy: &str) -> TlsMaterial {
        self.mesh.issue(Role::Proxy, proxy).material().expect("usable material")
    }

    async fn web_is_kept_out(&self) {
        until("web is kept out", async || let_in(&self.web).await == (false, false)).await;
        assert_eq!(self.ask("web.shop").await, Some(403), "with whatever certificate");
        for spoken in [Some("web.shop"), Some("bank.shop"), None] {
            assert_eq!(self.connect(spoken, "web.shop").await, None, "speaking {spoken:?}");
        }
        let plain = self.mesh.issue_plain("web.shop");
        assert_eq!(self.ask_with(&plain).await, Some(403), "without a SPIFFE id");
        for spoken in [Some("web.shop"), None] {
            assert_eq!(self.connect_with(spoken, &plain).await, None, "speaking {spoken:?}");
        }
        // A name of its own is another.
        assert_eq!(self.ask("web.shop.i-2").await, Some(200));
        assert!(self.connect(Some("web.shop"), "web.shop.i-2").await.is_some());
    }

    /// Whatever had to go in front of the store is gone.
    async fn is_drained(&self) -> bool {
        let stat = "listener_manager.total_filter_chains_draining";
        let answer = self.store.admin(&format!("/stats?filter={stat}")).await;
        answer.is_some_and(|(_, text)| text.trim() == format!("{stat}: 0"))
    }

    /// The server goes, and comes back at the same address with what is stored.
    async fn restart_server(self) -> Self {
        let Self { mesh, hub, server, store, web, bank, _app, _echo } = self;
        let address = server.address;
        server.stop().await;
        let server = Server::start(&mesh, &hub, "one", address).await;
        until("all are back", async || server.all_current()).await;
        Self { mesh, hub, server, store, web, bank, _app, _echo }
    }
}

async fn handshake(
    at: SocketAddr,
    spoken: ServerName<'static>,
    shown: &TlsMaterial,
) -> Option<tokio_rustls::client::TlsStream<TcpStream>> {
    let config = shown.client_config();
    let tcp = TcpStream::connect(at).await.ok()?;
    TlsConnector::from(config).connect(spoken, tcp).await.ok()
}

/// Envoy looks once a second whether connections with requests have to go, and closes them gently from then on: in
/// the time after that, the bystander's have to come to an end. What is still open when it is over is cut.
const DRAIN_TIME_S: &str = "5";

async fn started(bootstrap: orrery_mesh::envoy::Bootstrap) -> Envoy {
    Envoy::start_with(bootstrap, &["--drain-time-s", DRAIN_TIME_S]).await
}

/// In which the services are declared.
async fn hub() -> Hub {
    let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    let scheme = Arc::new(HubMesh::rules(builder).build().expect("our kinds"));
    let hub = Hub::in_memory(scheme).await.expect("a store").build().expect("a hub");
    apply(&hub, SERVICES).await;
    hub
}

async fn apply(hub: &Hub, manifests: &str) {
    let read = hub.scheme().read_manifests("manifests", manifests.as_bytes());
    for (_, object) in read.unwrap_or_else(|errors| panic!("{errors}")) {
        let object = hub.scheme().to_hub(&object).expect("convertible");
        let accessor = hub.accessor(object.kind()).expect("a kind").clone();
        accessor.apply(object, ApplyOptions::default()).await.expect("applied");
    }
}

async fn lift(hub: &Hub) {
    let revocations = hub.resources::<Revocation>().expect("a kind");
    revocations.delete(&ObjectName::new("", "gone")).await.expect("deleted");
}

/// Where an Envoy takes connections to the store.
async fn opened(envoy: &Envoy) -> Option<TcpStream> {
    let at = envoy.listener("connect/shop/store:5432/127.0.0.1:0").await?;
    TcpStream::connect(at).await.ok()
}

/// Whether a request gets through, and a connection.
async fn let_in(envoy: &Envoy) -> (bool, bool) {
    let request = envoy.get("store", "/").await == (200, "app".to_owned());
    let connection = match opened(envoy).await {
        Some(stream) => talk(stream).await.is_some(),
        None => false,
    };
    (request, connection)
}

/// Asks and talks on one connection without an end, and fails with the first that goes wrong; returns how often.
async fn goes_on(outbound: SocketAddr, mut open: TcpStream, stop: CancellationToken) -> usize {
    let mut count = 0;
    while !stop.is_cancelled() {
        let answer = http::get(outbound, "store", "/").await;
        assert_eq!(answer, Some((200, "app".to_owned())), "request {count} of the bank");
        let heard = talk_on(&mut open).await;
        assert!(heard.is_some_and(|heard| heard.ends_with("hello")), "word {count} of the bank");
        count += 1;
    }
    count
}

/// proves: MSH-07
#[tokio::test]
async fn every_server_knows_who_is_disabled_and_so_does_one_that_starts() {
    let (mesh, hub) = (Arc::new(Mesh::new(&[])), hub().await);
    let start = async |name: &str| {
        let server = Server::start(&mesh, &hub, name, anywhere()).await;
        server.control.catalog().loaded().await;
        server
    };
    let (one, two) = (start("one").await, start("two").await);
    apply(&hub, &revocation("web.shop")).await;
    for server in [&one, &two] {
        until("it is known", async || server.revoked() == ["web.shop"]).await;
    }
    one.stop().await;
    let one = start("one").await;
    assert_eq!(one.revoked(), ["web.shop"], "before any proxy is told anything");
    lift(&hub).await;
    for server in [&one, &two] {
        until("it is forgotten", async || server.revoked().is_empty()).await;
    }
    one.stop().await;
    two.stop().await;
}

async fn disabled(mode: Mode, target: Option<&str>) {
    let mut world = World::start(mode).await;
    if let Some(target) = target {
        apply(&world.hub, target).await;
        let stranger = async || world.ask("stranger.shop").await == Some(403);
        until("the target governs", stranger).await;
        world.both_are_let_in().await;
    }
    let plain = world.ask_with(&world.mesh.issue_plain("web.shop")).await;
    assert_eq!(plain, Some(if target.is_some() { 403 } else { 200 }), "nobody is disabled yet");
    // A client that is no proxy speaks the name that it dials.
    let client = world.mesh.issue(Role::User, "ann").material().expect("usable material");
    let dialled = world.connect_with(Some("store.shop"), &client).await;
    assert_eq!(dialled.is_some(), target.is_none(), "whoever is proven where nothing governs");
    let mut of_web = opened(&world.web).await.expect("it is open");
    assert!(talk_on(&mut of_web).await.is_some());
    let stop = CancellationToken::new();
    let of_bank = opened(&world.bank).await.expect("it is open");
    let bank = tokio::spawn(goes_on(world.bank.outbound, of_bank, stop.clone()));

    apply(&world.hub, &revocation("web.shop")).await;
    world.web_is_kept_out().await;
    until("what web had open is cut", async || talk_on(&mut of_web).await.is_none()).await;
    world = world.restart_server().await;
    world.web_is_kept_out().await;

    lift(&world.hub).await;
    world.both_are_let_in().await;
    until("what was open is gone", async || world.is_drained().await).await;
    stop.cancel();
    let count = bank.await.expect("nothing of the bank went wrong");
    assert!(0 < count, "and it was busy all the time");
}

/// proves: MSH-07
#[tokio::test]
async fn a_disabled_proxy_is_refused_by_the_others_and_nobody_else_is() {
    disabled(Mode::Aggregated, None).await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_disabled_proxy_is_refused_by_the_others_and_nobody_else_is_in_delta() {
    disabled(Mode::AggregatedDelta, None).await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_disabled_proxy_is_refused_where_a_target_names_it() {
    disabled(Mode::Aggregated, Some(TARGET)).await;
}

/// proves: MSH-07
#[tokio::test]
async fn nobody_sends_to_a_disabled_proxy() {
    let world = World::start(Mode::Aggregated).await;
    apply(&world.hub, &revocation("store.shop")).await;
    for envoy in [&world.web, &world.bank] {
        until("it sends nothing", async || let_in(envoy).await == (false, false)).await;
    }
    lift(&world.hub).await;
    world.both_are_let_in().await;
}
