//! What goes, what waits, and what stays behind when that is asked for.
use crate::support::{addon, blueprint, cluster, condition, delete, good, name, until};
use orrery_hub::Propagation;
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Project;
use orrery_proto::infra::v1::{Addon, Blueprint, Cluster, MachineClass, MachineDeployment};
use orrery_testkit::world::World;
use serde_json::json;

async fn installed() -> World {
    let world = World::start().await;
    world.project("p").await;
    good(&world, addon("p", "log", "1")).await;
    good(&world, blueprint("p", "base", json!([{"name": "log"}]))).await;
    good(&world, cluster("p", "edge", "base")).await;
    until(&world, &name("p", "edge"), "Ready", ("True", "Ready")).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_use_waits_and_goes_with_its_last_user() {
    let world = installed().await;
    delete::<Addon>(&world, &name("p", "log"), None).await;
    delete::<Blueprint>(&world, &name("p", "base"), None).await;
    let said = |of: &[orrery_proto::meta::v1::Condition], user: &str| {
        condition(of, "InUse").is_some_and(|it| it.message.ends_with(user))
    };
    let blueprint = |it: &Blueprint| {
        it.status.as_ref().is_some_and(|status| said(&status.conditions, "cluster/edge"))
    };
    world.until(&name("p", "base"), blueprint).await;
    let addon = |it: &Addon| {
        it.status.as_ref().is_some_and(|status| said(&status.conditions, "blueprint/base"))
    };
    world.until(&name("p", "log"), addon).await;
    until(&world, &name("p", "edge"), "Ready", ("True", "Ready")).await;

    delete::<Cluster>(&world, &name("p", "edge"), None).await;
    world.until_gone::<Cluster>(&name("p", "edge")).await;
    world.until_gone::<Blueprint>(&name("p", "base")).await;
    world.until_gone::<Addon>(&name("p", "log")).await;
    world.until_gone::<Workload>(&name("p", "edge-log")).await;
    world.until_gone::<MachineDeployment>(&name("p", "edge-workers")).await;
    world.until_gone::<MachineClass>(&name("p", "edge-workers")).await;
    world.stop().await;
}

/// What the cluster made stays, and is nobody's.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_orphaned_stays() {
    let world = installed().await;
    delete::<Cluster>(&world, &name("p", "edge"), Some(Propagation::Orphan)).await;
    world.until_gone::<Cluster>(&name("p", "edge")).await;
    let free = |it: &Option<orrery_proto::meta::v1::ObjectMeta>| {
        let metadata = it.clone().unwrap_or_default();
        metadata.owner_references.is_empty() && metadata.deletion_timestamp.is_none()
    };
    world.until(&name("p", "edge-log"), |it: &Workload| free(&it.metadata)).await;
    world.until(&name("p", "edge-workers"), |it: &MachineDeployment| free(&it.metadata)).await;
    world.until(&name("p", "edge-workers"), |it: &MachineClass| free(&it.metadata)).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_takes_all_of_it_along() {
    let world = installed().await;
    delete::<Project>(&world, &name("", "p"), None).await;
    world.until_gone::<Project>(&name("", "p")).await;
    world.stop().await;
}
