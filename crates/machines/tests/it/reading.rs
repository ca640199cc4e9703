//! What drivers may read, and how they learn of changes.
use crate::world::{Scripted, World, call, far, key, loopback, machine, mk_new, mk_old, target};
use orrery_machines::drivers::source::{ClassChanged, SecretChanged};
use orrery_machines::drivers::{ErrorCode, Peer, SESSION_METADATA};
use orrery_proto::infragrpc::driver_side::{CreateResp, Response};
use orrery_proto::infragrpc::infragrpc_client::InfragrpcClient;
use orrery_proto::infragrpc::{MachineClass, MachineClassMeta, Secret, SecretMeta};
use tonic::{Code, Request, Status};

async fn class(driver: &mut Scripted, name: &str) -> Result<MachineClass, Status> {
    let asked = MachineClassMeta { name: name.into(), revision: 1 };
    driver.client.get_machine_class(asked).await.map(tonic::Response::into_inner)
}

fn secret_meta(name: &str) -> SecretMeta {
    SecretMeta { secret_name: name.into(), name_space: "shop".into(), revision: 1 }
}

async fn secret(driver: &mut Scripted, name: &str) -> Result<Secret, Status> {
    driver.client.get_secret(secret_meta(name)).await.map(tonic::Response::into_inner)
}

#[track_caller]
fn denied<T: std::fmt::Debug>(outcome: Result<T, Status>) {
    assert_eq!(outcome.expect_err("must be denied").code(), Code::PermissionDenied);
}

/// proves: MCH-04. Defect 9: any driver could read any secret of any namespace.
#[tokio::test(start_paused = true)]
async fn a_driver_reads_only_what_its_kind_names() {
    for (a, b) in [
        (far(1, "spiffe://o/driver/a"), far(2, "spiffe://o/driver/b")),
        (far(1, "spiffe://o/driver/a"), loopback(2)),
    ] {
        let world = World::start();
        world.add_class("small", &key("A"), 41);
        world.add_class("other", &key("B"), 1);
        world.add_secret("cloud-a", Some(&key("A")));
        world.add_secret("cloud-b", Some(&key("B")));
        world.add_secret("root-password", None);
        let mut driver = world.driver(a, mk_old("A", "a")).await;
        let _other = world.driver(b, mk_old("B", "b")).await;

        let found = class(&mut driver, "small").await.expect("its own class");
        assert!(found.data.contains("small") && found.error.is_empty());
        assert_eq!(found.revision, 41, "the real revision, so that caching works");
        let path = "/apis/infra/v1/namespaces/shop/classes/small";
        assert_eq!(class(&mut driver, path).await.expect("by path").data, found.data);
        let found = secret(&mut driver, "cloud-a").await.expect("its own secret");
        assert!(found.data.contains("cloud-a"));
        assert_eq!(found.revision, 7);

        denied(class(&mut driver, "other").await);
        denied(secret(&mut driver, "cloud-b").await);
        denied(secret(&mut driver, "root-password").await);
        denied(secret(&mut driver, "no-such-secret").await);
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_not_registered_reads_nothing() {
    let world = World::start();
    world.add_class("small", &key("A"), 1);
    let _driver = world.driver(far(1, "spiffe://o/driver/a"), mk_old("A", "a")).await;
    for stranger in [loopback(5), far(6, ""), far(7, "spiffe://o/driver/b"), Peer::default()] {
        let mut client = InfragrpcClient::new(world.channel(stranger));
        let asked = MachineClassMeta { name: "small".into(), revision: 1 };
        denied(client.get_machine_class(asked).await);
        denied(client.get_secret(secret_meta("x")).await);
    }
}

/// A newer driver says with its token which of the drivers on this machine it is.
#[tokio::test(start_paused = true)]
async fn a_session_token_narrows_down_who_asks() {
    let world = World::start();
    world.add_class("small", &key("A"), 1);
    let driver = world.driver(loopback(1), mk_new("A", "a")).await;
    let other = world.driver(loopback(2), mk_new("B", "b")).await;
    let mut client = InfragrpcClient::new(world.channel(loopback(3)));
    let mut ask = async |token: &str| {
        let mut asked = Request::new(MachineClassMeta { name: "small".into(), revision: 1 });
        asked.metadata_mut().insert(SESSION_METADATA, token.parse().expect("ascii"));
        client.get_machine_class(asked).await
    };
    assert!(ask(&driver.token).await.is_ok());
    denied(ask(&other.token).await);
    denied(ask("made-up").await);
}

#[tokio::test(start_paused = true)]
async fn without_a_certificate_only_loopback_registers() {
    let world = World::start();
    let mut driver = Scripted::connect(world.channel(far(1, ""))).await;
    driver.register(mk_old("A", "a")).await;
    let refused = driver.from_server.message().await.expect_err("refused");
    assert_eq!(refused.code(), Code::PermissionDenied);
}

/// The secret of one machine is readable while the operation that names it runs.
#[tokio::test(start_paused = true)]
async fn a_bootstrap_secret_is_readable_for_its_operation_only() {
    let world = World::start();
    let at = world.add_secret("join-m1", None);
    let mut driver = world.driver(loopback(1), mk_new("A", "a")).await;
    denied(secret(&mut driver, "join-m1").await);
    let mut args = machine("m1");
    args.bootstrap = Some(at);
    let (wanted, limit) = (target("A"), call(60));
    let (made, ()) = tokio::join!(world.drivers.create(&wanted, &args, &limit), async {
        let asked = driver.next().await;
        let named = asked.operationparams.and_then(|it| it.bootstrap_secret).expect("named");
        assert_eq!((named.secret_name.as_str(), named.name_space.as_str()), ("join-m1", "shop"));
        assert!(secret(&mut driver, "join-m1").await.expect("readable").data.contains("join-m1"));
        let said = CreateResp { provider_id: "p".into(), ..Default::default() };
        driver.answer(asked.operation_id, Response::Createresponse(said)).await;
    });
    made.expect("created");
    denied(secret(&mut driver, "join-m1").await);
}

/// Bad names and absent objects are answered in the reply, as the old contract has it.
#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_said_in_the_reply() {
    let world = World::start();
    let gone = world.add_secret("gone", Some(&key("A")));
    world.sources.secrets.lock().remove(&gone);
    let mut driver = world.driver(loopback(1), mk_old("A", "a")).await;
    for (name, code) in [
        ("none", ErrorCode::NotFound),
        ("a/b", ErrorCode::InvalidArgument),
        ("broken", ErrorCode::Unavailable),
    ] {
        let reply = class(&mut driver, name).await.expect("a reply");
        assert_eq!((reply.code(), reply.data.as_str()), (code, ""), "{name}");
        assert!(!reply.error.is_empty(), "{name}");
    }
    for (name, code) in [("gone", ErrorCode::NotFound), ("", ErrorCode::InvalidArgument)] {
        let reply = secret(&mut driver, name).await.expect("a reply");
        assert_eq!((reply.code(), reply.data.as_str()), (code, ""), "{name:?}");
        assert!(!reply.error.is_empty(), "{name:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_announced_to_those_they_concern() {
    let world = World::start();
    let at = world.add_secret("cloud-a", Some(&key("A")));
    let mut a = world.driver(loopback(1), mk_new("A", "a")).await;
    let mut b = world.driver(loopback(2), mk_new("B", "b")).await;
    let path = "/apis/infra/v1/namespaces/shop/classes/small".to_owned();
    let class = |kind| ClassChanged { path: path.clone(), key: key(kind), revision: 9 };
    world.sources.class_changes.send(class("A")).expect("heard");
    let told = a.next().await;
    assert_eq!(told.operation_type, "changed");
    let changed = told.changes[0].machine_class.as_ref().expect("a class");
    assert_eq!((changed.name.as_str(), changed.revision), (path.as_str(), 9));

    let secret = SecretChanged { secret: at, revision: 8 };
    world.sources.secret_changes.send(secret).expect("heard");
    let told = a.next().await;
    let changed = told.changes[0].secret.as_ref().expect("a secret");
    assert_eq!((changed.secret_name.as_str(), changed.revision), ("cloud-a", 8));

    // The first that B hears of is its own.
    world.sources.class_changes.send(class("B")).expect("heard");
    assert!(b.next().await.changes[0].machine_class.is_some());

    // Too many at once to tell one by one.
    for _ in 0..100 {
        world.sources.class_changes.send(class("C")).expect("heard");
    }
    assert_eq!(b.next().await.changes, [Default::default()], "read all again");
}
