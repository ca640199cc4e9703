//! Ports that take anything: connections through real Envoys, over mutual TLS, divided and guarded.
use crate::backend::Echo;
use crate::control_plane::{Mesh, Server, name};
use crate::envoy::Envoy;
use crate::wait::until;
use orrery_mesh::address::Endpoint;
use orrery_mesh::envoy::{Mode, PortBootstrap};
use orrery_mesh::names::Destination;
use orrery_mesh::topology::TrafficTarget;
use orrery_mesh::xds::Kind;
use orrery_pki::{Issued, Role};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

const SAMPLES: usize = 200;
/// What a connection that is passed on takes at most; one that is closed takes nothing.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// What comes back of a word, with the greeting before it; `None` if the connection is closed.
pub async fn talk<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Option<String> {
    talk_on(&mut stream).await
}

/// The same, and the connection stays open.
pub async fn talk_on<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Option<String> {
    let talking = async {
        stream.write_all(b"hello").await.ok()?;
        let mut heard = Vec::new();
        while !heard.ends_with(b"hello") {
            if stream.read_buf(&mut heard).await.ok()? == 0 {
                return None;
            }
        }
        String::from_utf8(heard).ok()
    };
    tokio::time::timeout(PATIENCE, talking).await.ok().flatten()
}

/// Everything an instance says to somebody who only listens until the connection is closed.
async fn overhear<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> String {
    let mut heard = Vec::new();
    let listening = stream.read_to_end(&mut heard);
    // However it ends, what was heard counts.
    let _ = tokio::time::timeout(PATIENCE, listening).await;
    String::from_utf8_lossy(&heard).into_owned()
}

/// `web` connects to port 5432 of `db`, through both their Envoys.
struct World {
    mesh: Mesh,
    server: Server,
    web: Envoy,
    db: Envoy,
    /// Where the Envoy of `db` takes connections.
    inbound: SocketAddr,
    _echo: Echo,
}

impl World {
    async fn start(mode: Mode) -> Self {
        Self::start_with(mode, &[]).await
    }

    /// With more on the command line of both Envoys.
    async fn start_with(mode: Mode, more: &[&str]) -> Self {
        let mesh = Mesh::new(&["shop/web", "shop/bank"]);
        mesh.declare_ports("shop/db", true, &["80", "5432!"]);
        mesh.certify("shop/web");
        mesh.certify("shop/db");
        let echo = Echo::start("db").await;
        let server = mesh.serve().await;
        let mut bootstrap = mesh.bootstrap("shop/db", server.address, mode.clone());
        let inbound = Some((anywhere(), echo.endpoint.socket_addr()));
        let port = PortBootstrap { inbound, ..PortBootstrap::default() };
        bootstrap.ports.insert("5432".into(), port);
        let db = Envoy::start_with(bootstrap, more).await;
        let inbound = loop {
            if let Some(found) = db.listener("inbound:5432").await {
                break found;
            }
            tokio::task::yield_now().await;
        };
        mesh.place_ports("shop/db", &[("5432", Endpoint::of(inbound).expect("a real port"))]);
        let web = Envoy::start_with(caller(&mesh, &server, mode), more).await;
        let world = Self { mesh, server, web, db, inbound, _echo: echo };
        until("web reaches db", async || world.through_web().await.is_some()).await;
        world
    }

    async fn through_web(&self) -> Option<String> {
        through(&self.web).await
    }

    /// Straight to the Envoy of `db`, in the name of a caller, with this certificate.
    async fn tls(
        &self,
        spoken: &'static str,
        issued: &Issued,
    ) -> Option<impl AsyncRead + AsyncWrite + Unpin + use<>> {
        let config = issued.material().expect("usable material").client_config();
        let tcp = TcpStream::connect(self.inbound).await.ok()?;
        let spoken = ServerName::try_from(spoken).expect("a name");
        TlsConnector::from(config).connect(spoken, tcp).await.ok()
    }

    async fn straight(&self, spoken: &'static str, issued: &Issued) -> Option<String> {
        talk(self.tls(spoken, issued).await?).await
    }

    fn allow(&self, sources: &[&str], ports: &[&str], connections: bool) {
        self.mesh.topology.put_target(TrafficTarget {
            name: "db".to_owned(),
            destination: name("shop/db"),
            sources: sources.iter().map(|source| name(source)).collect(),
            ports: Some(ports.iter().map(|port| (*port).into()).collect()),
            rules: None,
            connections,
        });
    }
}

/// The bootstrap of a proxy of `web` that takes connections to `db`.
fn caller(mesh: &Mesh, server: &Server, mode: Mode) -> orrery_mesh::envoy::Bootstrap {
    let mut bootstrap = mesh.bootstrap("shop/web", server.address, mode);
    let to = Destination::within("shop", "db:5432").expect("a destination");
    bootstrap.connect.insert(anywhere(), to);
    bootstrap
}

async fn through(web: &Envoy) -> Option<String> {
    let at = web.listener("connect/shop/db:5432/127.0.0.1:0").await?;
    talk(TcpStream::connect(at).await.ok()?).await
}

async fn guarded(mode: Mode) {
    let world = World::start(mode).await;
    assert_eq!(world.through_web().await.as_deref(), Some("db:hello"));
    let bank = world.mesh.issue(Role::Proxy, "bank.shop");
    let web = world.mesh.issue(Role::Proxy, "web.shop.other-instance");
    assert_eq!(
        world.straight("bank.shop", &bank).await.as_deref(),
        Some("db:hello"),
        "nothing governs yet"
    );
    let plain = TcpStream::connect(world.inbound).await.expect("connect");
    assert_eq!(talk(plain).await, None, "plain text is not heard");

    world.allow(&["shop/web"], &["5432"], true);
    until("the bank is kept out", async || world.straight("bank.shop", &bank).await.is_none())
        .await;
    // Whatever name a stranger speaks.
    for spoken in ["bank.shop", "web.shop"] {
        let nothing = match world.tls(spoken, &bank).await {
            Some(stream) => overhear(stream).await,
            None => String::new(),
        };
        assert_eq!(nothing, "", "an instance that speaks first says nothing to strangers");
    }
    until("web still gets in", async || world.through_web().await.is_some()).await;
    assert_eq!(
        world.straight("web.shop", &web).await.as_deref(),
        Some("db:hello"),
        "any instance of web may"
    );

    // Requests on the other port are no connections, and another port is not this one.
    for (ports, connections) in [(["5432"], false), (["80"], true)] {
        world.allow(&["shop/web"], &ports, connections);
        until("web is kept out", async || world.straight("web.shop", &web).await.is_none()).await;
        until("and its own proxy does not take it", async || world.through_web().await.is_none())
            .await;
        world.allow(&["shop/web"], &["5432"], true);
        until("web is let in again", async || world.through_web().await.is_some()).await;
    }
    world.allow(&[], &["5432"], true);
    until("empty means nobody", async || world.straight("web.shop", &web).await.is_none()).await;
    until("all is acknowledged", async || world.server.all_current()).await;
    let said: Vec<String> =
        world.server.control.status().into_iter().flat_map(|one| one.findings).collect();
    assert!(said.iter().any(|text| text.contains("closed by policy")), "{said:?}");
}

/// proves: MSH-07
#[tokio::test]
async fn connections_are_encrypted_and_guarded() {
    guarded(Mode::Aggregated).await;
}

/// proves: MSH-07
#[tokio::test]
async fn connections_are_encrypted_and_guarded_in_delta() {
    guarded(Mode::AggregatedDelta).await;
}

/// Who is no longer allowed is cut off when Envoy has drained its chain, which takes as long as its command
/// line says; those who are still allowed stay connected.
async fn cut_off(mode: Mode) {
    let world = World::start_with(mode, &["--drain-time-s", "1"]).await;
    let bank = world.mesh.issue(Role::Proxy, "bank.shop");
    world.allow(&["shop/web", "shop/bank"], &["5432"], true);
    let chains = async || {
        let config = world.db.admin("/config_dump?resource=dynamic_listeners").await;
        config.map(|(_, text)| {
            ["shop/web", "shop/bank"].map(|name| text.contains(&format!("\"{name}\"")))
        })
    };
    until("both have a chain", async || chains().await == Some([true, true])).await;
    until("all is acknowledged", async || world.server.all_current()).await;
    let at = world.web.listener("connect/shop/db:5432/127.0.0.1:0").await.expect("it is open");
    let mut through_web = TcpStream::connect(at).await.expect("connect");
    let mut of_bank = world.tls("bank.shop", &bank).await.expect("the bank is let in");
    assert_eq!(talk_on(&mut through_web).await.as_deref(), Some("db:hello"));
    assert_eq!(talk_on(&mut of_bank).await.as_deref(), Some("db:hello"));

    world.allow(&["shop/bank"], &["5432"], true);
    until("web is cut off", async || talk_on(&mut through_web).await.is_none()).await;
    until("and does not get in again", async || world.through_web().await.is_none()).await;
    assert_eq!(talk_on(&mut of_bank).await.as_deref(), Some("hello"), "the bank goes on");
    world.allow(&["shop/web", "shop/bank"], &["5432"], true);
    until("web is let in again", async || world.through_web().await.is_some()).await;
    assert_eq!(talk_on(&mut of_bank).await.as_deref(), Some("hello"), "and on");
}

/// proves: MSH-07
#[tokio::test]
async fn a_caller_that_is_no_longer_allowed_is_cut_off_and_nobody_else() {
    cut_off(Mode::Aggregated).await;
}

/// proves: MSH-07
#[tokio::test]
async fn a_caller_that_is_no_longer_allowed_is_cut_off_and_nobody_else_in_delta() {
    cut_off(Mode::AggregatedDelta).await;
}

/// Bounds are six standard deviations wide: chance breaks them once in a billion runs.
#[track_caller]
fn check_share(count: usize, percent: f64) {
    let (n, p) = (SAMPLES as f64, percent / 100.0);
    let slack = 6.0 * (n * p * (1.0 - p)).sqrt();
    let count = count as f64;
    assert!((count - n * p).abs() <= slack, "{count} of {n}, wanted {percent}% +- {slack}");
}

/// proves: MSH-06, MSH-07
#[tokio::test]
async fn a_split_divides_connections_and_changes_live() {
    let mesh = Mesh::new(&["shop/web"]);
    let echoes = [Echo::start("v1").await, Echo::start("v2").await];
    for (service, echo) in [("shop/db", 0), ("shop/v1", 0), ("shop/v2", 1)] {
        mesh.declare_ports(service, false, &["5432!"]);
        mesh.place(service, &[echoes[echo].endpoint]);
    }
    let server = mesh.serve().await;
    let web = Envoy::start(caller(&mesh, &server, Mode::Aggregated)).await;
    until("db is reached", async || through(&web).await.as_deref() == Some("v1:hello")).await;
    for percent in [20, 60] {
        let before = server.wanted(Kind::Listener);
        mesh.split("shop/db", &[("shop/v1", 100 - percent), ("shop/v2", percent)]);
        until("the weights change", async || server.wanted(Kind::Listener) != before).await;
        until("v2 is reached", async || through(&web).await.as_deref() == Some("v2:hello")).await;
        until("the split is acknowledged", async || server.all_current()).await;
        let mut count = 0;
        for _ in 0..SAMPLES {
            count += usize::from(through(&web).await.expect("every connection") == "v2:hello");
        }
        check_share(count, f64::from(percent));
    }
    // A backend that takes requests there is left out.
    mesh.declare_ports("shop/v2", false, &["5432"]);
    mesh.split("shop/db", &[("shop/v1", 1), ("shop/v2", 99)]);
    until("v1 takes all of it", async || {
        let mut all = true;
        for _ in 0..10 {
            all &= through(&web).await.as_deref() == Some("v1:hello");
        }
        all
    })
    .await;
}
