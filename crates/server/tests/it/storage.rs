//! The storage registry of a whole server: its entries are resources.
use orrery_hub::ObjectName;
use orrery_pki::{Authority, IssueRequest, Role, TlsMaterial, Validity};
use orrery_proto::oim::v0::{
    CheckMallocBDevRequest, GetControllerRequest, RegisterControllerRequest,
    controller_client::ControllerClient, registry_client::RegistryClient,
};
use orrery_proto::storage::v1::StorageController;
use orrery_testkit::etcd::Cluster;
use orrery_testkit::world::{World, WorldOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

async fn plain(world: &World) -> Channel {
    Endpoint::from_shared(format!("http://{}", world.storage)).unwrap().connect().await.unwrap()
}

async fn register(channel: Channel, id: &str, address: &str) -> Result<(), Status> {
    register_books(channel, id, address, "").await
}

async fn register_books(
    channel: Channel,
    id: &str,
    address: &str,
    books: &str,
) -> Result<(), Status> {
    let request = RegisterControllerRequest {
        controller_id: id.into(),
        address: address.into(),
        backend: "loop".into(),
        capacity_bytes: 10 << 30,
        available_bytes: 3 << 29,
        refresh_seconds: 60,
        books: books.into(),
    };
    RegistryClient::new(channel).register_controller(request).await.map(|_| ())
}

async fn entries(channel: Channel) -> Vec<(String, String)> {
    let reply = RegistryClient::new(channel).get_controllers(GetControllerRequest {}).await;
    let entries = reply.unwrap().into_inner().entries;
    entries.into_iter().map(|entry| (entry.controller_id, entry.address)).collect()
}

/// Calls a controller through the proxy.
async fn reach(channel: Channel, id: &str) -> Result<(), Status> {
    let mut request = Request::new(CheckMallocBDevRequest { bdev_name: "x".into() });
    request.metadata_mut().insert("controllerid", id.parse().unwrap());
    ControllerClient::new(channel).check_malloc_b_dev(request).await.map(|_| ())
}

fn pair(id: &str, address: &str) -> (String, String) {
    (id.to_owned(), address.to_owned())
}

/// proves: VOL-02
#[tokio::test]
async fn entries_are_resources_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        || WorldOptions { folder: Some(folder.path().to_owned()), ..WorldOptions::default() };
    let world = World::start_with(options()).await;
    let channel = plain(&world).await;
    register(channel.clone(), "host-1", "127.0.0.1:1").await.unwrap();
    register(channel.clone(), "Rack_2.host", "dns:///elsewhere:2").await.unwrap();
    register(channel.clone(), "host-1", "127.0.0.1:3").await.unwrap();
    register(channel.clone(), "gone", "127.0.0.1:4").await.unwrap();
    register(channel.clone(), "gone", "").await.unwrap();
    register(channel.clone(), "gone", "").await.unwrap();
    let expect = [pair("Rack_2.host", "dns:///elsewhere:2"), pair("host-1", "127.0.0.1:3")];
    assert_eq!(entries(channel).await, expect);

    let name = ObjectName::new("", "host-1");
    let ready = |found: &StorageController| {
        found.status.as_ref().is_some_and(|status| status.state == "Ready")
    };
    let shown = world.until::<StorageController>(&name, ready).await.status.unwrap();
    assert_eq!((shown.backend.as_str(), shown.capacity.as_str()), ("loop", "10Gi"));
    assert_eq!((shown.available.as_str(), shown.available_bytes), ("1.5Gi", Some(3 << 29)));
    assert!(shown.last_contact_time.is_some());
    world.stop().await;

    let world = World::start_with(options()).await;
    assert_eq!(entries(plain(&world).await).await, expect);
    // What people delete is no longer in the registry.
    world.hub.resources::<StorageController>().unwrap().delete(&name).await.unwrap();
    let gone = tokio::time::timeout(orrery_testkit::world::SOON, async {
        while entries(plain(&world).await).await.len() != 1 {
            tokio::task::yield_now().await;
        }
    });
    gone.await.expect("the registry forgets it");
    world.stop().await;
}

/// Two hosts with one id would take turns, and volumes be looked for where they never were.
/// proves: VOL-02
#[tokio::test]
async fn a_second_controller_of_an_id_is_refused_while_the_first_is_heard_of() {
    let world = World::start().await;
    let channel = plain(&world).await;
    let register = |address: &'static str, books: &'static str| {
        register_books(channel.clone(), "host-1", address, books)
    };
    register("127.0.0.1:1", "first").await.unwrap();
    let name = ObjectName::new("", "host-1");
    let known = |found: &StorageController| {
        found.status.as_ref().is_some_and(|status| status.books == "first")
    };
    world.until::<StorageController>(&name, known).await;
    let refused = register("127.0.0.1:2", "second").await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(refused.message().contains("registers from 127.0.0.1:1"), "{refused}");
    register("127.0.0.1:3", "first").await.expect("the same one, restarted on another port");
    register("127.0.0.1:4", "").await.expect("by hand");
    register("127.0.0.1:5", "second").await.expect_err("the first one is still known");

    world.hub.resources::<StorageController>().unwrap().delete(&name).await.unwrap();
    let taken = tokio::time::timeout(orrery_testkit::world::SOON, async {
        while register("127.0.0.1:6", "second").await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    taken.await.expect("what people have deleted is in nobody's way");
    world.stop().await;
}

/// proves: VOL-02
/// proves: VOL-04
#[tokio::test]
async fn entries_are_shared_by_all_servers() {
    let etcd = Cluster::start(1);
    let server = || async {
        let etcd = Some(etcd.options("orrery/"));
        World::start_with(WorldOptions { etcd, ..WorldOptions::default() }).await
    };
    let (one, two) = (server().await, server().await);
    let (first, second) = (plain(&one).await, plain(&two).await);
    let refused = reach(second.clone(), "host-1").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("not registered"), "{refused}");
    // A port where nobody listens: the proxy's words tell that it knows the address.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    register(first, "host-1", &free.to_string()).await.unwrap();
    let refused = reach(second, "host-1").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains(&free.to_string()), "{refused}");
    one.stop().await;
    two.stop().await;
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
fn validity() -> Validity {
    Validity::starting(std::time::SystemTime::now(), Duration::from_secs(3600))
}

async fn secured(address: SocketAddr, who: &TlsMaterial) -> Channel {
    let connector = TlsConnector::from(who.client_config());
    let connect = tower::service_fn(move |_: axum::http::Uri| {
        let connector = connector.clone();
        async move {
            let tcp = TcpStream::connect(address).await?;
            let tls = connector.connect("component.registry".try_into().unwrap(), tcp).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(tls))
        }
    });
    let endpoint = Endpoint::from_static("http://component.registry");
    let origin = axum::http::Uri::from_static("https://component.registry");
    endpoint.origin(origin).connect_with_connector_lazy(connect)
}

/// proves: VOL-09
#[tokio::test]
async fn certificates_say_who_may_do_what() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
    let issue = |role, name: &str| {
        let request = IssueRequest::new(role, name).ip(Ipv4Addr::LOCALHOST);
        authority.issue(&request, validity()).unwrap()
    };
    let tls = issue(Role::Server, "s1").write_to(folder.path()).unwrap();
    let world = World::start_with(WorldOptions { tls, ..WorldOptions::default() }).await;
    let channel = |role, name: &str| {
        let (material, address) = (issue(role, name).material().unwrap(), world.storage);
        async move { secured(address, &material).await }
    };
    let controller = channel(Role::Controller, "host-1").await;
    register(controller.clone(), "host-1", "127.0.0.1:9").await.unwrap();
    let cases = [
        (register(controller.clone(), "host-2", "127.0.0.1:9").await, Code::PermissionDenied),
        (reach(controller, "host-1").await, Code::PermissionDenied),
        (reach(channel(Role::Host, "host-2").await, "host-1").await, Code::PermissionDenied),
        // Nobody listens there, but it was let through.
        (reach(channel(Role::Host, "host-1").await, "host-1").await, Code::Unavailable),
        (register(channel(Role::User, "alice").await, "x", "h:1").await, Code::PermissionDenied),
    ];
    for (number, (answer, code)) in cases.into_iter().enumerate() {
        assert_eq!(answer.unwrap_err().code(), code, "case {number}");
    }
    let admin = channel(Role::User, "admin").await;
    register(admin.clone(), "host-2", "127.0.0.1:9").await.unwrap();
    assert_eq!(entries(admin).await.len(), 2);
    let nobody = Endpoint::from_shared(format!("http://{}", world.storage)).unwrap();
    let plain = nobody.connect_lazy();
    register(plain, "host-3", "h:1").await.unwrap_err();
    world.stop().await;
}
