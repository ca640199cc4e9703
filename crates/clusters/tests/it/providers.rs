//! The class of a pool, as its driver reads it: a driver refuses fields that it does not know.
use crate::support::{good, name};
use orrery_hub::ObjectName;
use orrery_proto::infra::v1::MachineClass;
use orrery_testkit::world::World;
use serde_json::{Value, json};

/// What the driver finds in the class of the pool `p` of a cluster with this spec.
async fn class(world: &World, cluster: &str, spec: Value) -> (String, String, Value) {
    let mut object = json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "Cluster",
        "metadata": {"name": cluster, "project": "p"}, "spec": spec,
    });
    object["spec"]["pools"][0]["name"] = json!("p");
    object["spec"]["pools"][0]["replicas"] = json!(0);
    good(world, object).await;
    let at: ObjectName = name("p", &format!("{cluster}-p"));
    let class = world.until(&at, |_: &MachineClass| true).await;
    let classes = world.hub.resources::<MachineClass>().unwrap();
    let object = classes.accessor().get(at.into()).await.unwrap();
    let shown = object.to_json_value(&<_>::default());
    let spec = class.spec.unwrap();
    let (provider, secret) = (spec.provider().to_owned(), spec.secret().to_owned());
    (provider, secret, shown["spec"]["providerSpec"].clone())
}

/// proves: HUB-20, MCH-06
#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_one_that_the_driver_knows() {
    let world = World::start().await;
    world.project("p").await;
    let aws = json!({
        "ami": "ami-1", "region": "eu-west-1", "machineType": "t3.small", "keyName": "k",
        "iam": {"arn": "arn:x"}, "secret": "cloud", "tags": {"team": "a"},
        "network": {"subnetId": "s-1", "securityGroupIds": ["g-1"], "publicAddress": true},
        "disk": {"sizeGib": 20, "type": "gp3", "encrypted": true, "iops": 3000, "device": "/dev/xvda"},
    });
    let pools = json!([{"aws": {"machineType": "m5.large", "tags": {"pool": "p"}}}]);
    let (provider, secret, spec) =
        class(&world, "cloud", json!({"aws": aws, "pools": pools})).await;
    assert_eq!((provider.as_str(), secret.as_str()), ("AWSMachineClass", "cloud"));
    let spec: orrery_driver::aws::spec::Spec = serde_json::from_value(spec).unwrap();
    assert_eq!((spec.ami.as_str(), spec.machine_type.as_str()), ("ami-1", "m5.large"));
    assert_eq!(spec.iam.unwrap().arn.as_deref(), Some("arn:x"));
    assert_eq!(spec.tags.len(), 2);
    let disk = &spec.block_devices[0];
    assert_eq!((disk.ebs.volume_size, disk.ebs.iops), (Some(20), Some(3000)));
    assert_eq!(disk.device_name.as_deref(), Some("/dev/xvda"));
    assert_eq!(spec.network_interfaces[0].security_group_ids, ["g-1"]);

    let qemu = json!({
        "kernel": "/k", "initramfs": "/i", "append": "quiet", "disk": "/d", "diskFormat": "raw",
        "memoryMib": 512, "cpus": 2, "accelerator": "tcg", "nic": "e1000", "powerDownSeconds": 5,
    });
    let pools = json!([{"qemu": {"memoryMib": 2048}}]);
    let (provider, _, spec) = class(&world, "virtual", json!({"qemu": qemu, "pools": pools})).await;
    assert_eq!(provider, "QemuMachine");
    let spec: orrery_driver::qemu::spec::Spec = serde_json::from_value(spec).unwrap();
    assert_eq!((spec.memory_mib, spec.cpus, spec.power_down_seconds), (2048, 2, 5));
    assert_eq!(spec.disk.unwrap().display().to_string(), "/d");
    world.stop().await;
}
