//! The EC2 driver against moto, which checks signatures, with faults made in front of it.
mod killed;
mod moto;
mod orphans;
mod proxy;

use base64::Engine;
use moto::Moto;
use orrery_driver::aws::Aws;
use orrery_driver::{
    Class, DataProvider, Driver, ErrorCode, Machine, MachineState, Request, Secret, SecretRef,
};
use proxy::{Fault, Proxy};
use std::time::Duration;

const CLASS: &str = "/apis/infra/v1/namespaces/shop/awsmachineclasses/small";
/// One that moto knows without being told.
const AMI: &str = "ami-12c6146b";

struct World {
    proxy: Proxy,
    data: DataProvider,
    moto: Moto,
}

impl World {
    async fn start() -> Self {
        let moto = Moto::start().await;
        let proxy = Proxy::before(&moto.address).await;
        let data = data(&moto.key_id, &moto.key, None);
        Self { proxy, data, moto }
    }

    /// A driver as it is after its start: it remembers nothing.
    fn driver(&self) -> Aws {
        self.driver_of("us")
    }

    fn driver_of(&self, owner: &str) -> Aws {
        Aws::new(owner, Some(self.proxy.endpoint.clone()))
    }

    fn request(&self, name: &str) -> Request {
        let mut request = Request::on(CLASS, self.data.clone());
        request.machine_name = name.into();
        request.idempotency_key = format!("uid-{name}");
        request
    }

    async fn list(&self) -> Vec<Machine> {
        let request = Request::on(CLASS, self.data.clone());
        self.driver().list(&request).await.expect("lists")
    }
}

fn data(key_id: &str, key: &str, subnet: Option<&str>) -> DataProvider {
    let interfaces: Vec<_> =
        subnet.map(|id| serde_json::json!({"subnetID": id})).into_iter().collect();
    let class = serde_json::json!({
        "metadata": {"name": "small", "namespace": "shop"},
        "spec": {
            "ami": AMI, "region": "eu-west-1", "machineType": "t3.small",
            "networkInterfaces": interfaces,
            "blockDevices": [{"ebs": {"volumeSize": 20}}],
            "tags": {"team": "shop"}, "secretRef": {"name": "cloud"}
        }
    });
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let secret = serde_json::json!({"data": {
        "userData": encode("#cloud-config"),
        "providerAccessKeyId": encode(key_id),
        "providerSecretAccessKey": encode(key),
    }});
    let class = Class::parse(&class.to_string(), 1).expect("a class");
    let secret = Secret::parse(&secret.to_string(), 1).expect("a secret");
    let at = SecretRef { namespace: "shop".into(), name: "cloud".into() };
    DataProvider::fixed([(CLASS.to_owned(), class)], [(at, secret)])
}

/// proves: MCH-06
#[tokio::test]
async fn machines_are_made_found_and_deleted() {
    let world = World::start().await;
    let driver = world.driver();
    let made = driver.create(&world.request("m1")).await.expect("created");
    assert!(made.provider_id.starts_with("aws:///eu-west-1/i-"), "{made:?}");
    assert!(!made.adopted && !made.node_name.is_empty() && !made.addresses.is_empty(), "{made:?}");
    let second = driver.create(&world.request("m2")).await.expect("created");

    let others = Request::on(CLASS, world.data.clone());
    let others = world.driver_of("them").list(&others).await.expect("lists");
    assert_eq!(others, [], "another installation in the same account does not see them");
    let mut found = world.list().await;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(found.len(), 2);
    assert_eq!((&found[0].id, found[0].name.as_str()), (&made.provider_id, "m1"));
    assert_eq!(found[1].idempotency_key, "uid-m2");
    let mut request = world.request("m1");
    request.machine_id.clone_from(&made.provider_id);
    let status = driver.status(&request).await.expect("there");
    assert_eq!(status.state, MachineState::Running);
    assert_eq!(driver.list(&request).await.expect("lists").len(), 1, "just that one");

    driver.delete(&request).await.expect("deleted");
    driver.delete(&request).await.expect("deleted twice is deleted");
    let gone = driver.status(&request).await.expect_err("gone");
    assert_eq!(gone.code, ErrorCode::NotFound);
    request.machine_id = "aws:///eu-west-1/i-00000000000000000".into();
    driver.delete(&request).await.expect("never there is deleted");
    let left = world.list().await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, second.provider_id);
}

#[tokio::test]
async fn signatures_and_specs_are_checked_by_the_provider() {
    let world = World::start().await;
    world.driver().create(&world.request("m1")).await.expect("the right key works");
    for (data, code) in [
        (data(&world.moto.key_id, "not-the-key", None), ErrorCode::Unauthenticated),
        (data("AKIAUNKNOWN", "not-the-key", None), ErrorCode::Unauthenticated),
        (data(&world.moto.key_id, &world.moto.key, Some("subnet-0")), ErrorCode::InvalidArgument),
    ] {
        let mut request = world.request("m2");
        request.data = data;
        let error = world.driver().create(&request).await.expect_err("refused");
        assert_eq!(error.code, code, "{error}");
    }
    assert_eq!(world.list().await.len(), 1);
}

/// Faults that make nothing: the code says what to do, and the next attempt works.
#[tokio::test]
async fn faults_are_told_and_the_next_attempt_works() {
    let world = World::start().await;
    for (index, (fault, code)) in [
        (Fault::Answer(503, "RequestLimitExceeded"), ErrorCode::Unavailable),
        (Fault::Answer(500, "InsufficientInstanceCapacity"), ErrorCode::ResourceExhausted),
        (Fault::Answer(400, "VcpuLimitExceeded"), ErrorCode::ResourceExhausted),
        (Fault::Answer(403, "UnauthorizedOperation"), ErrorCode::PermissionDenied),
        (Fault::Nonsense(502), ErrorCode::Unavailable),
        (Fault::Nonsense(200), ErrorCode::Internal),
        (Fault::LoseRequest, ErrorCode::Unavailable),
    ]
    .into_iter()
    .enumerate()
    {
        world.proxy.fault("RunInstances", fault);
        let request = world.request(&format!("m{index}"));
        let error = world.driver().create(&request).await.expect_err("the fault");
        assert_eq!(error.code, code, "{fault:?}: {error}");
        let throttled = matches!(fault, Fault::Answer(503, _));
        assert_eq!(error.retry_after.is_some(), throttled, "{fault:?}");
        assert_eq!(world.list().await.len(), index, "{fault:?} makes nothing");
        world.driver().create(&request).await.expect("the next attempt works");
    }
    world.proxy.fault("DescribeInstances", Fault::Answer(503, "RequestLimitExceeded"));
    let request = world.request("m0");
    world.driver().create(&request).await.expect_err("cannot look, so does not make");
    assert_eq!(world.list().await.len(), 7);
}

/// Defect 10: a reply that was lost leaked a machine. moto ignores client tokens, so the tag has to
/// do it alone.
#[tokio::test]
async fn a_lost_reply_makes_exactly_one_machine() {
    let world = World::start().await;
    world.proxy.fault("RunInstances", Fault::LoseReply);
    let made = world.driver().create(&world.request("m1")).await.expect("looked, and found it");
    assert!(made.adopted);
    let again = world.driver().create(&world.request("m1")).await.expect("the same");
    assert_eq!((&again.provider_id, again.adopted), (&made.provider_id, true));
    assert_eq!(world.list().await.len(), 1);

    // The look after the loss fails as well: the error says so, and the next attempt adopts.
    world.proxy.fault("RunInstances", Fault::LoseReply);
    world.proxy.fault("DescribeInstances", Fault::Pass);
    world.proxy.fault("DescribeInstances", Fault::Answer(503, "RequestLimitExceeded"));
    let error = world.driver().create(&world.request("m2")).await.expect_err("all was lost");
    assert_eq!(error.code, ErrorCode::Unavailable);
    let made = world.driver().create(&world.request("m2")).await.expect("found it");
    assert!(made.adopted);
    assert_eq!(world.proxy.passed("RunInstances"), 2, "one for each machine");
    assert_eq!(world.list().await.len(), 2);
}

/// A driver that is killed after the provider has started the instance and before its answer.
#[tokio::test]
async fn a_killed_driver_leaves_exactly_one_machine() {
    let world = World::start().await;
    world.proxy.fault("RunInstances", Fault::HoldReply);
    let (driver, request) = (world.driver(), world.request("m1"));
    let killed = tokio::spawn(async move { driver.create(&request).await });
    tokio::time::timeout(Duration::from_secs(60), world.proxy.held()).await.expect("started");
    killed.abort();
    assert!(killed.await.expect_err("killed").is_cancelled());

    let made = world.driver().create(&world.request("m1")).await.expect("adopted");
    assert!(made.adopted);
    assert_eq!(world.proxy.passed("RunInstances"), 1);
    assert_eq!(world.list().await.len(), 1);

    // Deleting without an id finds it by its key.
    world.driver().delete(&world.request("m1")).await.expect("deleted");
    assert!(world.list().await.is_empty());
}
