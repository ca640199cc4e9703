//! Services with several ports, through a real Envoy.
use crate::backend::Backend;
use crate::control_plane::{Mesh, name};
use crate::envoy::Envoy;
use crate::http;
use crate::wait::{until, until_some};
use orrery_mesh::address::Endpoint;
use orrery_mesh::envoy::{Mode, PortBootstrap};
use orrery_mesh::topology::TrafficTarget;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn several(mode: Mode) {
    let mesh = Mesh::new(&["shop/web"]);
    mesh.declare_ports("shop/books", false, &["80", "81"]);
    mesh.declare_ports("shop/next", false, &["81", "80"]);
    let shop = Backend::start("shop").await;
    let admin = Backend::start("admin").await;
    let next = [Backend::start("next-shop").await, Backend::start("next-admin").await];
    mesh.place_ports("shop/books", &[("80", shop.endpoint), ("81", admin.endpoint)]);
    mesh.place_ports("shop/next", &[("81", next[1].endpoint), ("80", next[0].endpoint)]);
    let server = mesh.serve().await;
    let web = Envoy::start(mesh.bootstrap("shop/web", server.address, mode)).await;
    let answers = async |host: &str, expect: &str| {
        until(&format!("{host} is answered by {expect}"), async || {
            web.get(host, "/").await == (200, expect.to_owned())
        })
        .await;
    };
    answers("books", "shop").await;
    answers("books:80", "shop").await;
    answers("books:81", "admin").await;
    answers("books.shop:81", "admin").await;
    answers("books:4711", "shop").await;
    answers("next", "next-admin").await;

    mesh.split("shop/books", &[("shop/next", 1)]);
    answers("books", "next-shop").await;
    answers("books:81", "next-admin").await;

    // A backend without one of the ports takes nothing, on no port.
    mesh.declare_ports("shop/next", false, &["81"]);
    answers("books:81", "admin").await;
    answers("books", "shop").await;
    mesh.declare_ports("shop/books", false, &["80"]);
    answers("books:81", "shop").await;
    until("all is acknowledged", async || server.all_current()).await;
}

/// proves: MSH-06, MSH-07
#[tokio::test]
async fn every_port_has_instances_and_splits_of_its_own() {
    several(Mode::Aggregated).await;
}

/// proves: MSH-06, MSH-07
#[tokio::test]
async fn every_port_has_instances_and_splits_of_its_own_in_delta() {
    several(Mode::AggregatedDelta).await;
}

/// proves: MSH-02, MSH-07
#[tokio::test]
async fn a_proxy_fronts_and_announces_every_port_and_targets_open_them_one_by_one() {
    let mesh = Mesh::new(&["shop/web"]);
    mesh.declare_ports("shop/books", true, &["80", "81"]);
    mesh.certify("shop/web");
    mesh.certify("shop/books");
    let (shop, admin) = (Backend::start("shop").await, Backend::start("admin").await);
    let server = mesh.serve().await;
    let mut bootstrap = mesh.bootstrap("shop/books", server.address, Mode::Aggregated);
    let anywhere = ([127, 0, 0, 1], 0).into();
    let front = |backend: &Backend| PortBootstrap {
        inbound: Some((anywhere, backend.endpoint.socket_addr())),
        announce: None,
    };
    bootstrap.first = front(&shop);
    bootstrap.ports.insert("81".into(), front(&admin));
    let books = Envoy::start(bootstrap.clone()).await;
    let first = books.inbound().await;
    let second = until_some("the second port", async || books.listener("inbound:81").await).await;
    drop(books);
    // The same again at ports that are known now, so that it can announce them.
    bootstrap.first = PortBootstrap {
        inbound: Some((first, shop.endpoint.socket_addr())),
        announce: Some(first.port()),
    };
    let again = PortBootstrap {
        inbound: Some((second, admin.endpoint.socket_addr())),
        announce: Some(second.port()),
    };
    bootstrap.ports.insert("81".into(), again);
    let _books = Envoy::start(bootstrap).await;
    let web = Envoy::start(mesh.bootstrap("shop/web", server.address, Mode::Aggregated)).await;
    let answers = async |host: &str, expect: (u16, &str)| {
        until(&format!("{host} is answered with {expect:?}"), async || {
            let (status, body) = web.get(host, "/").await;
            (status, body.trim_end()) == expect
        })
        .await;
    };
    answers("books", (200, "shop")).await;
    answers("books:81", (200, "admin")).await;
    let expect = Endpoint::of(second).expect("a real port");
    let announced = server.control.status().into_iter().flat_map(|one| one.endpoints);
    assert!(announced.into_iter().any(|one| one.endpoint == expect && !one.is_first));

    mesh.topology.put_target(TrafficTarget {
        name: "shop-only".to_owned(),
        destination: name("shop/books"),
        sources: [name("shop/web")].into(),
        ports: Some(["80".into()].into()),
        rules: None,
        connections: false,
    });
    answers("books:81", (403, "access denied by policy")).await;
    answers("books", (200, "shop")).await;
    assert_eq!(http::get(second, "books", "/").await, None, "and plain text is not heard");
}

/// An instance that agrees to speak something else, and then repeats what it is told.
async fn upgrading() -> (Endpoint, tokio::task::JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
    let at = Endpoint::of(listener.local_addr().expect("a bound address")).expect("a real port");
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or_default() == 0 {
                    break;
                }
            }
            let asked = String::from_utf8_lossy(&head).to_ascii_lowercase();
            assert!(asked.contains("upgrade: websocket"), "{asked}");
            let agreed = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                Connection: Upgrade\r\n\r\n";
            stream.write_all(agreed).await.expect("it is heard");
            let (mut from, mut to) = stream.split();
            // Until the peer goes away.
            let _ = tokio::io::copy(&mut from, &mut to).await;
        }
    });
    (at, serving)
}

/// proves: MSH-07
#[tokio::test]
async fn web_sockets_pass_through() {
    let mesh = Mesh::new(&["shop/web", "shop/chat"]);
    let (at, _serving) = upgrading().await;
    mesh.place("shop/chat", &[at]);
    let server = mesh.serve().await;
    let web = Envoy::start(mesh.bootstrap("shop/web", server.address, Mode::Aggregated)).await;
    until("chat is known", async || server.all_current()).await;
    let mut stream = TcpStream::connect(web.outbound).await.expect("connect");
    let ask = b"GET / HTTP/1.1\r\nHost: chat\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    stream.write_all(ask).await.expect("sent");
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") {
        let count = stream.read_buf(&mut heard).await.expect("an answer");
        assert_ne!(count, 0, "closed after {}", String::from_utf8_lossy(&heard));
    }
    assert!(heard.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&heard));
    stream.write_all(b"hello").await.expect("sent");
    let mut echo = [0_u8; 5];
    stream.read_exact(&mut echo).await.expect("it comes back");
    assert_eq!(&echo, b"hello");
}
