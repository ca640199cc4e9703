use super::*;
use crate::address::Endpoint;
use crate::catalog::{CatalogParts, ServiceCatalog};
use crate::names::{Destination, ProxyName, ServiceName};
use crate::providers::MemoryProvider;
use crate::secrets::MemorySecrets;
use crate::topology::{
    AppProtocol, MemoryTopology, Service, ServicePort, TrafficSettings, TrafficTarget,
};
use crate::xds::{Kind, Protocol, Push, Request};
use tokio_util::sync::{CancellationToken, DropGuard};

fn name(text: &str) -> ServiceName {
    text.parse().unwrap()
}

fn at(port: u16) -> Endpoint {
    Endpoint::of(SocketAddr::from(([127, 0, 0, 1], port))).unwrap()
}

struct World {
    topology: Arc<MemoryTopology>,
    provider: Arc<MemoryProvider>,
    secrets: Arc<MemorySecrets>,
    catalog: Arc<ServiceCatalog>,
    control: Arc<Control>,
    _stop: DropGuard,
}

impl World {
    async fn start(streams_max: usize) -> Self {
        let topology = Arc::new(MemoryTopology::default());
        for service in ["web", "books", "bank"] {
            declare(&topology, service);
        }
        let provider = Arc::new(MemoryProvider::new("fleet"));
        for service in ["books", "bank"] {
            provider.set(&name(service), vec![at(1)]);
        }
        let secrets = Arc::new(MemorySecrets::default());
        let catalog = ServiceCatalog::new(CatalogParts {
            topology: topology.clone(),
            providers: vec![provider.clone()],
            secrets: secrets.clone(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(catalog.clone().run(stop.clone()));
        catalog.loaded().await;
        let options = Options { streams_max, ..Options::default() };
        let (control, publisher) = Control::new(catalog.clone(), options);
        tokio::spawn(publisher.run(stop.clone()));
        Self { topology, provider, secrets, catalog, control, _stop: stop.drop_guard() }
    }

    fn try_join(&self, outbound: Option<u16>) -> Result<StreamHandle, Full> {
        self.control.join(Admission {
            service: name("web"),
            name: ProxyName::of(&name("web")),
            instance: "web-1".to_owned(),
            address: None,
            protocol: Protocol::StateOfTheWorld,
            sides: outbound.map(|port| Sides::outbound(SocketAddr::from(([127, 0, 0, 1], port)))),
            endpoints: Vec::new(),
        })
    }

    fn join_with(&self, sides: Sides) -> StreamHandle {
        let joined = self.control.join(Admission {
            service: name("web"),
            name: ProxyName::of(&name("web")),
            instance: "web-2".to_owned(),
            address: None,
            protocol: Protocol::StateOfTheWorld,
            sides: Some(sides),
            endpoints: Vec::new(),
        });
        joined.expect("there is room")
    }

    fn join(&self, outbound: Option<u16>) -> StreamHandle {
        self.try_join(outbound).expect("there is room")
    }
}

fn declare(topology: &MemoryTopology, service: &str) {
    topology.put_service(Service {
        name: name(service),
        ports: ["http".into()].into(),
        encrypted: false,
        traffic: TrafficSettings::default(),
        declared_s: 0,
    });
}

fn declare_tcp(topology: &MemoryTopology, service: &str) {
    topology.put_service(Service {
        name: name(service),
        ports: vec![
            "http".into(),
            ServicePort { protocol: AppProtocol::Tcp, ..ServicePort::from("5432") },
        ],
        encrypted: false,
        traffic: TrafficSettings::default(),
        declared_s: 0,
    });
}

fn names_of(push: &Push) -> Vec<&str> {
    push.resources.iter().map(|one| &*one.name).collect()
}

fn ask(stream: &StreamHandle, kind: Kind, names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    stream.request(kind.type_url(), &Request { names, ..Request::default() });
}

fn acknowledge(stream: &StreamHandle, push: &Push, names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let request = Request { names, nonce: push.nonce.to_string(), ..Request::default() };
    stream.request(push.kind.type_url(), &request);
}

/// Waits for a change that makes something to send.
async fn pushed(stream: &StreamHandle) -> Push {
    let waiting = async {
        loop {
            if let Some(push) = stream.next() {
                return push;
            }
            stream.mark(&stream.changed().await);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("a push")
}

#[tokio::test(start_paused = true)]
async fn one_encoding_is_shared_by_all_who_need_it_and_wakes_nobody_else() {
    let world = World::start(10).await;
    let (one, two, other) = (world.join(None), world.join(None), world.join(None));
    ask(&one, Kind::Endpoints, &["default/books"]);
    ask(&two, Kind::Endpoints, &["default/books"]);
    ask(&other, Kind::Endpoints, &["default/bank"]);
    let first = pushed(&one).await;
    assert!(std::ptr::eq(&*first.resources[0], &*pushed(&two).await.resources[0]));
    pushed(&other).await;
    world.provider.set(&name("books"), vec![at(2)]);
    let (mine, yours) = (pushed(&one).await, pushed(&two).await);
    assert_ne!(mine.version, first.version);
    assert!(std::ptr::eq(mine.resources[0].any.as_ptr(), yours.resources[0].any.as_ptr()));
    let idle = tokio::time::timeout(Duration::from_secs(60), other.changed()).await;
    assert!(idle.is_err(), "a stream that does not need it is not even woken");
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_gets_the_latest_and_holds_up_nobody() {
    let world = World::start(10).await;
    let (slow, quick) = (world.join(None), world.join(None));
    ask(&slow, Kind::Endpoints, &["default/books"]);
    ask(&quick, Kind::Endpoints, &["default/books"]);
    pushed(&quick).await;
    for port in 2..50 {
        world.provider.set(&name("books"), vec![at(port)]);
        pushed(&quick).await;
    }
    let latest = pushed(&slow).await;
    assert_eq!(latest.nonce, 1, "one answer, whatever lay between");
    assert_eq!(latest.version, pushed_version(&world, "default/books"));
}

fn pushed_version(world: &World, service: &str) -> u64 {
    let at = Destination::first(&name(service));
    let endpoints = crate::catalog::Catalog::endpoints_of(&*world.catalog, &at);
    crate::envoy::load_assignment(&service.into(), &endpoints).version
}

#[tokio::test(start_paused = true)]
async fn a_short_name_means_the_proxys_own_project() {
    let world = World::start(10).await;
    let stream = world.join(None);
    ask(&stream, Kind::Endpoints, &["books"]);
    let push = pushed(&stream).await;
    assert_eq!(&*push.resources[0].name, "books");
    assert_ne!(push.version, crate::envoy::load_assignment(&"books".into(), &[]).version);
    acknowledge(&stream, &push, &["books"]);
    world.provider.set(&name("books"), vec![at(2)]);
    assert_eq!(&*pushed(&stream).await.resources[0].name, "books");
}

/// proves: MSH-02
#[tokio::test(start_paused = true)]
async fn endpoints_that_a_policy_closes_are_not_shown() {
    let world = World::start(10).await;
    let stream = world.join(None);
    ask(&stream, Kind::Endpoints, &["default/bank"]);
    let open = pushed(&stream).await;
    assert_eq!(open.version, pushed_version(&world, "default/bank"));
    acknowledge(&stream, &open, &["default/bank"]);
    let target = |sources: &[&str]| TrafficTarget {
        name: "bank".to_owned(),
        destination: name("bank"),
        sources: sources.iter().map(|source| name(source)).collect(),
        ports: None,
        rules: None,
        connections: false,
    };
    world.topology.put_target(target(&["books"]));
    let closed = pushed(&stream).await;
    let empty = crate::envoy::load_assignment(&"default/bank".into(), &[]);
    assert_eq!(closed.version, empty.version, "as if it did not exist");
    world.topology.put_target(target(&["books", "web"]));
    assert_eq!(pushed(&stream).await.version, open.version);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_declarations_is_one_push() {
    let world = World::start(10).await;
    let stream = world.join(Some(15001));
    ask(&stream, Kind::Cluster, &[]);
    let first = pushed(&stream).await;
    assert_eq!(first.resources.len(), 3);
    for number in 0..20 {
        declare(&world.topology, &format!("new-{number}"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let second = pushed(&stream).await;
    assert_eq!((second.nonce, second.resources.len()), (2, 23));
}

#[tokio::test(start_paused = true)]
async fn there_is_a_limit_and_leaving_makes_room() {
    let world = World::start(2).await;
    let (one, _two) = (world.join(None), world.join(None));
    assert_eq!(world.try_join(None).err(), Some(Full(2)));
    drop(one);
    let _three = world.join(None);
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_wanted_sent_acknowledged_and_refused() {
    let world = World::start(2).await;
    let stream = world.join(None);
    ask(&stream, Kind::Endpoints, &["default/books"]);
    let first = pushed(&stream).await;
    acknowledge(&stream, &first, &["default/books"]);
    assert!(world.control.status()[0].is_current());
    world.provider.set(&name("books"), vec![at(2)]);
    let second = pushed(&stream).await;
    tokio::time::advance(Duration::from_secs(3)).await;
    let refusal = Request {
        names: vec!["default/books".to_owned()],
        nonce: second.nonce.to_string(),
        error: Some("bad address".to_owned()),
        ..Request::default()
    };
    stream.request(Kind::Endpoints.type_url(), &refusal);
    stream.request("type.googleapis.com/some.Other", &Request::default());
    let status = world.control.status().remove(0);
    assert!(!status.is_current());
    assert_eq!((status.service, status.instance.as_str()), (name("web"), "web-1"));
    assert_eq!(status.unknown_types.len(), 1);
    let kind = &status.kinds[0];
    assert_eq!((kind.wanted, kind.progress.sent), (second.version, Some(second.version)));
    assert_eq!(kind.progress.acked, Some(first.version));
    assert_eq!(kind.progress.nacked.as_ref().unwrap().message, "bad address");
    drop(stream);
    assert!(world.control.status().is_empty());
    assert!(world.control.index.lock().watchers(&name("books")).is_empty());
}

/// proves: MSH-03, MSH-07
#[tokio::test(start_paused = true)]
async fn a_rotated_certificate_goes_out_to_the_proxies_of_its_service_only() {
    let world = World::start(2).await;
    let stream = world.join(Some(15001));
    let names = [crate::envoy::CERTIFICATE_NAME, crate::envoy::ROOTS_NAME];
    ask(&stream, Kind::Secret, &names);
    assert_eq!(stream.next(), None, "there is none yet");
    let bundle = |key: &str| crate::secrets::CertificateBundle {
        certificate_chain: "chain".to_owned(),
        private_key: key.to_owned(),
        roots: "roots".to_owned(),
    };
    world.secrets.set(&ProxyName::of(&name("web")), bundle("first"));
    let first = pushed(&stream).await;
    assert_eq!((first.kind, first.resources.len()), (Kind::Secret, 2));
    acknowledge(&stream, &first, &names);
    world.secrets.set(&ProxyName::of(&name("books")), bundle("of others"));
    world.secrets.set(&ProxyName::of(&name("web")), bundle("second"));
    let second = pushed(&stream).await;
    assert_eq!(second.resources.len(), 1, "the roots did not change");
    assert_ne!(second.resources[0].version, first.resources[0].version);
    let text = String::from_utf8_lossy(&second.resources[0].any).into_owned();
    assert!(text.contains("second") && !text.contains("of others"));
}

/// proves: MSH-07
#[tokio::test(start_paused = true)]
async fn connections_are_taken_where_the_proxy_says_once_the_port_is_there() {
    let world = World::start(2).await;
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let sides = Sides {
        connect: vec![Connect {
            listen: at(1),
            to: Destination::within("default", "bank:5432").unwrap(),
        }],
        inbound: vec![Inbound { port: Some("9".into()), listen: at(2), instance: at(3) }],
        ..Sides::outbound(at(0))
    };
    let stream = world.join_with(sides);
    ask(&stream, Kind::Listener, &[]);
    let first = pushed(&stream).await;
    assert_eq!(names_of(&first), ["outbound"]);
    acknowledge(&stream, &first, &[]);
    let findings = world.control.status().remove(0).findings;
    assert!(findings[0].contains("there is no port default/bank:5432 (yet)"), "{findings:?}");
    assert!(findings[1].contains("there is no port default/web:9"), "{findings:?}");

    declare_tcp(&world.topology, "bank");
    declare_tcp(&world.topology, "books");
    let second = pushed(&stream).await;
    assert_eq!(names_of(&second), ["connect/default/bank:5432/127.0.0.1:1", "outbound"]);
    acknowledge(&stream, &second, &[]);
    ask(&stream, Kind::Cluster, &[]);
    let clusters = pushed(&stream).await;
    let expect = ["default/bank", "default/bank:5432", "default/books", "default/web"];
    assert_eq!(names_of(&clusters), expect, "only what is connected to");
    acknowledge(&stream, &clusters, &[]);

    world.topology.put_target(TrafficTarget {
        name: "bank".to_owned(),
        destination: name("bank"),
        sources: [name("web")].into(),
        ports: None,
        rules: None,
        connections: false,
    });
    let third = pushed(&stream).await;
    assert_eq!((third.kind, names_of(&third)), (Kind::Listener, vec!["outbound"]));
    let findings = world.control.status().remove(0).findings;
    assert!(findings[0].contains("default/bank:5432 is closed by policy"), "{findings:?}");
}

/// proves: MSH-05
#[tokio::test(start_paused = true)]
async fn endpoints_of_every_port_can_be_asked_for() {
    let world = World::start(2).await;
    declare_tcp(&world.topology, "bank");
    let placed = |number: u16| crate::address::Placed {
        endpoint: at(number),
        port: Some("5432".into()),
        is_first: false,
    };
    let stream = world.join(None);
    ask(&stream, Kind::Endpoints, &["bank:5432", "default/bank", "bank:nope"]);
    let empty = |name: &str| crate::envoy::load_assignment(&name.into(), &[]).version;
    let push = pushed(&stream).await;
    let of = |push: &Push, name: &str| {
        push.resources.iter().find(|one| &*one.name == name).map(|one| one.version)
    };
    assert_eq!(of(&push, "bank:5432"), Some(empty("bank:5432")));
    assert_eq!(of(&push, "bank:nope"), Some(empty("bank:nope")));
    assert_ne!(of(&push, "default/bank"), Some(empty("default/bank")));
    world.provider.set_ports(&name("bank"), vec![at(1).into(), placed(2)]);
    let push = pushed(&stream).await;
    assert_eq!(names_of(&push), ["bank:5432"], "the first port has what it had");
    // The first port becomes another one, and with it what its name means.
    world.topology.put_service(Service {
        name: name("bank"),
        ports: vec![ServicePort { protocol: AppProtocol::Tcp, ..ServicePort::from("5432") }],
        encrypted: false,
        traffic: TrafficSettings::default(),
        declared_s: 0,
    });
    let push = pushed(&stream).await;
    assert_eq!(names_of(&push), ["bank:5432", "default/bank"]);
}

/// What proxies of a service have in common is made once, wherever they stand.
#[tokio::test(start_paused = true)]
async fn one_route_configuration_is_shared_by_all_proxies_of_a_service() {
    let world = World::start(2).await;
    let (one, two) = (world.join(Some(15001)), world.join(Some(15002)));
    for stream in [&one, &two] {
        ask(stream, Kind::Route, &["outbound"]);
        let first = pushed(stream).await;
        acknowledge(stream, &first, &["outbound"]);
    }
    declare(&world.topology, "new");
    let (mine, yours) = (pushed(&one).await, pushed(&two).await);
    assert!(std::ptr::eq(mine.resources[0].any.as_ptr(), yours.resources[0].any.as_ptr()));
}

mod config;
mod revoked;
