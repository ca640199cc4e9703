//! A driver that is killed between the provider's work and its own answer, with a real server that has to
//! find out what came of it.
use super::{AMI, Fault, World};
use orrery_driver::aws::{self, Aws};
use orrery_driver::{Class, DataProvider, Driver as _, Request, Secret as DriverSecret, SecretRef};
use orrery_hub::ObjectName;
use orrery_proto::core::v1::{Secret, SecretSpec};
use orrery_proto::infra::v1::{Machine, MachineClass, MachineClassSpec, MachineSpec};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_testkit::world::{SOON, World as Server};
use prost_types::{Struct, Value, value::Kind};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub const PATH: &str = "/apis/infra.orrery.dev/v1/namespaces/shop/machineclasses/small";

fn meta(name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { name: name.into(), project: "shop".into(), ..ObjectMeta::default() })
}

/// Class, secret and machine, as people write them.
pub async fn declare(server: &Server, key_id: &str, key: &str) {
    server.project("shop").await;
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.into())) };
    let fields = [("ami", AMI), ("region", "eu-west-1"), ("machineType", "t3.small")];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect();
    let spec = MachineClassSpec {
        provider: Some(aws::KIND.into()),
        provider_spec: Some(Struct { fields }),
        secret: Some("cloud".into()),
        ..MachineClassSpec::default()
    };
    let class = MachineClass { metadata: meta("small"), spec: Some(spec), ..<_>::default() };
    let data = HashMap::from([
        (aws::ACCESS_KEY_ID.to_owned(), key_id.as_bytes().to_vec()),
        (aws::SECRET_ACCESS_KEY.to_owned(), key.as_bytes().to_vec()),
    ]);
    let spec = SecretSpec { data, ..SecretSpec::default() };
    let secret = Secret { metadata: meta("cloud"), spec: Some(spec), ..<_>::default() };
    let spec = MachineSpec { class: Some("small".into()), ..MachineSpec::default() };
    let machine = Machine { metadata: meta("m1"), spec: Some(spec), ..<_>::default() };
    server.hub.resources().expect("a kind").create(&secret).await.expect("a secret");
    server.hub.resources().expect("a kind").create(&class).await.expect("a class");
    server.hub.resources().expect("a kind").create(&machine).await.expect("a machine");
}

/// A driver at the server's port; dropping what is returned kills it.
pub fn driver(here: &World, server: &Server) -> DropGuard {
    let channel = orrery_driver::channel(&server.drivers.to_string(), None).expect("an address");
    let options = orrery_driver::Options::new("aws", "infra.orrery.dev", aws::KIND, "v1");
    let driver = Arc::new(Aws::new("us", Some(here.proxy.endpoint.clone())));
    let running = orrery_driver::run(options, channel, driver, CancellationToken::new());
    let killed = CancellationToken::new();
    let token = killed.clone();
    tokio::spawn(async move { token.run_until_cancelled(running).await });
    killed.drop_guard()
}

/// What the provider has of the class, asked without the server.
async fn at_provider(here: &World) -> usize {
    here.driver().list(&Request::on(PATH, data(here))).await.expect("lists").len()
}

/// The class and its secret, for a driver that has no server.
pub fn data(here: &World) -> DataProvider {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let class = serde_json::json!({
        "metadata": {"name": "small", "namespace": "shop"},
        "spec": {"ami": AMI, "region": "eu-west-1", "machineType": "t3.small",
            "secretRef": {"name": "cloud"}},
    });
    let secret = serde_json::json!({"data": {
        "providerAccessKeyId": encode(&here.moto.key_id),
        "providerSecretAccessKey": encode(&here.moto.key),
    }});
    let class = Class::parse(&class.to_string(), 1).expect("a class");
    let secret = DriverSecret::parse(&secret.to_string(), 1).expect("a secret");
    let at = SecretRef { namespace: "shop".into(), name: "cloud".into() };
    DataProvider::fixed([(PATH.to_owned(), class)], [(at, secret)])
}

/// proves: MCH-03, MCH-06
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_killed_before_its_answer_leaves_exactly_one_machine() {
    let (here, server) = (World::start().await, Server::start().await);
    here.proxy.fault("RunInstances", Fault::HoldReply);
    let first = driver(&here, &server);
    declare(&server, &here.moto.key_id, &here.moto.key).await;
    tokio::time::timeout(SOON, here.proxy.held()).await.expect("the provider has started it");
    drop(first);
    let _second = driver(&here, &server);
    let name = ObjectName::new("shop", "m1");
    let known = |it: &Machine| it.status.as_ref().is_some_and(|it| it.phase == "Available");
    let machine = server.until(&name, known).await;
    let id = machine.status.unwrap_or_default().provider_id;
    assert!(id.starts_with("aws:///eu-west-1/i-"), "{id}");
    assert_eq!(here.proxy.passed("RunInstances"), 1, "it was found, not made again");
    assert_eq!(at_provider(&here).await, 1);
    server.hub.resources::<Machine>().expect("a kind").delete(&name).await.expect("asked for");
    server.until_gone::<Machine>(&name).await;
    assert_eq!(at_provider(&here).await, 0);
}
