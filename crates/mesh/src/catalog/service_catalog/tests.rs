use super::*;
use crate::providers::MemoryProvider;
use crate::secrets::MemorySecrets;
use crate::topology::{MemoryTopology, Service, TrafficSettings};
use std::net::SocketAddr;

fn name(text: &str) -> ServiceName {
    text.parse().unwrap()
}

fn first(text: &str) -> Destination {
    Destination::first(&name(text))
}

fn at(port: u16) -> Endpoint {
    Endpoint::of(SocketAddr::from(([127, 0, 0, 1], port))).unwrap()
}

struct World {
    topology: Arc<MemoryTopology>,
    fleet: Arc<MemoryProvider>,
    cloud: Arc<MemoryProvider>,
    secrets: Arc<MemorySecrets>,
    catalog: Arc<ServiceCatalog>,
    heard: Announcements<Change>,
    _stop: tokio_util::sync::DropGuard,
}

impl World {
    async fn start() -> Self {
        let topology = Arc::new(MemoryTopology::default());
        for service in ["shop", "books"] {
            declare(&topology, service);
        }
        let fleet = Arc::new(MemoryProvider::new("fleet"));
        let cloud = Arc::new(MemoryProvider::new("cloud"));
        let secrets = Arc::new(MemorySecrets::default());
        fleet.set(&name("books"), vec![at(1)]);
        let catalog = ServiceCatalog::new(CatalogParts {
            topology: topology.clone(),
            providers: vec![fleet.clone(), cloud.clone()],
            secrets: secrets.clone(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(catalog.clone().run(stop.clone()));
        catalog.loaded().await;
        let mut heard = catalog.announcements();
        heard.take();
        Self { topology, fleet, cloud, secrets, catalog, heard, _stop: stop.drop_guard() }
    }

    async fn until(&mut self, done: impl Fn(&ServiceCatalog) -> bool) {
        let waiting = async {
            while !done(&self.catalog) {
                self.heard.next().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it comes about");
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

/// proves: MSH-03
#[tokio::test(start_paused = true)]
async fn endpoints_of_all_providers_are_merged_and_followed() {
    let mut world = World::start().await;
    let books = name("books");
    assert_eq!(*world.catalog.endpoints_of(&first("books")), [at(1)]);
    world.cloud.set(&books, vec![at(2), at(1)]);
    world.until(|catalog| *catalog.endpoints_of(&first("books")) == [at(1), at(2)]).await;
    world.fleet.set(&books, vec![]);
    world.cloud.set(&books, vec![at(3)]);
    world.until(|catalog| *catalog.endpoints_of(&first("books")) == [at(3)]).await;
}

/// proves: MSH-03
#[tokio::test(start_paused = true)]
async fn a_listing_says_whether_it_changed() {
    let mut world = World::start().await;
    let (shop, books) = (name("shop"), name("books"));
    let listed = world.catalog.list_endpoints(&shop, None);
    assert!(listed.changed);
    assert_eq!(*listed.endpoints[&first("books")], [at(1)]);
    assert!(!world.catalog.list_endpoints(&shop, Some(listed.version)).changed);
    world.fleet.set(&books, vec![at(2)]);
    world.until(|catalog| catalog.list_endpoints(&shop, Some(listed.version)).changed).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_is_asked_again_until_it_heals() {
    let mut world = World::start().await;
    let books = name("books");
    world.fleet.fail(Some("gone fishing"));
    world.fleet.set(&books, vec![at(9)]);
    tokio::time::sleep(RETRY_LAST).await;
    assert_eq!(*world.catalog.endpoints_of(&first("books")), [at(1)], "the last known stays");
    let stale = &world.catalog.list_providers()[0].stale;
    assert_eq!(stale[&books], "gone fishing");
    // Heals without a word: only the retry can find out.
    world.fleet.fail(None);
    world.until(|catalog| *catalog.endpoints_of(&first("books")) == [at(9)]).await;
    assert!(world.catalog.list_providers()[0].stale.is_empty());
}

/// proves: MSH-03
#[tokio::test(start_paused = true)]
async fn announcements_name_declarations_and_certificates() {
    let mut world = World::start().await;
    declare(&world.topology, "new");
    assert_eq!(world.heard.next().await, BTreeSet::from([Change::Topology(name("new"))]));
    let bundle = CertificateBundle {
        certificate_chain: "chain".to_owned(),
        private_key: "key".to_owned(),
        roots: "roots".to_owned(),
    };
    assert!(!format!("{bundle:?}").contains("key\""), "a key is never printed");
    let books = ProxyName::of(&name("books"));
    world.secrets.set(&books, bundle.clone());
    assert_eq!(world.heard.next().await, BTreeSet::from([Change::Certificate(books.clone())]));
    assert_eq!(world.catalog.certificate(&books), Some(bundle));
}

#[tokio::test(start_paused = true)]
async fn a_registered_proxy_leaves_with_its_registration() {
    let mut world = World::start().await;
    let shop = name("shop");
    let registration = world.catalog.register_proxy(&shop, at(7).into());
    world.until(|catalog| *catalog.endpoints_of(&first("shop")) == [at(7)]).await;
    drop(registration);
    world.until(|catalog| catalog.endpoints_of(&first("shop")).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_no_longer_declared_loses_its_endpoints() {
    let mut world = World::start().await;
    world.topology.remove_service(&name("books"));
    world.until(|catalog| catalog.endpoints_of(&first("books")).is_empty()).await;
}

/// proves: MSH-05
#[tokio::test(start_paused = true)]
async fn ports_have_endpoints_of_their_own_and_follow_declarations() {
    let mut world = World::start().await;
    let books = name("books");
    let placed = |port: &str, number: u16| Placed {
        endpoint: at(number),
        port: Some(port.into()),
        is_first: false,
    };
    world.fleet.set_ports(&books, vec![placed("http", 1), placed("admin", 2)]);
    let admin = Destination::within("default", "books:admin").unwrap();
    assert!(world.catalog.endpoints_of(&admin).is_empty(), "there is no such port yet");
    world.topology.put_service(Service {
        name: books,
        ports: vec!["http".into(), "admin".into()],
        encrypted: false,
        traffic: TrafficSettings::default(),
        declared_s: 0,
    });
    world.until(|catalog| *catalog.endpoints_of(&admin) == [at(2)]).await;
    assert_eq!(*world.catalog.endpoints_of(&first("books")), [at(1)]);
}
