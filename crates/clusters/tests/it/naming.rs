//! What names stand for: missing, taken, shared.
use crate::support::{addon, apply, blueprint, cluster, good, name, until, until_blueprint};
use orrery_hub::Error;
use orrery_proto::apps::v1::Workload;
use orrery_proto::infra::v1::MachineDeployment;
use orrery_testkit::world::World;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_said_until_it_is_there() {
    let world = World::start().await;
    world.project("p").await;
    good(&world, cluster("p", "edge", "base")).await;
    let at = name("p", "edge");
    let waiting = until(&world, &at, "Ready", ("False", "BlueprintNotFound")).await;
    let status = waiting.status.unwrap();
    assert_eq!(status.state, "Failing");
    assert!(status.message.contains("no blueprint \"base\" in project \"p\""), "{status:?}");
    until(&world, &at, "MachinesReady", ("True", "Ready")).await;

    good(&world, blueprint("p", "base", json!([{"name": "log"}, {"name": "mesh"}]))).await;
    let said = until_blueprint(&world, &name("p", "base"), "Failing").await.status.unwrap();
    assert!(said.message.contains("no addon \"log\"") && said.message.contains("\"mesh\""));
    let failing = until(&world, &at, "AddonsReady", ("False", "Failing")).await.status.unwrap();
    assert!(failing.message.contains("there is no addon \"log\""), "{failing:?}");

    good(&world, addon("p", "mesh", "1")).await;
    good(&world, addon("p", "log", "1")).await;
    let ready = until(&world, &at, "Ready", ("True", "Ready")).await.status.unwrap();
    let addons: Vec<&str> = ready.addons.iter().map(|it| it.name.as_str()).collect();
    assert_eq!((addons, ready.addons_ready.as_str()), (vec!["log", "mesh"], "2/2"));
    let said = until_blueprint(&world, &name("p", "base"), "Ready").await.status.unwrap();
    assert_eq!(said.clusters, 1);
    world.stop().await;
}

/// What is somebody else's is neither changed nor taken over.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_stays_whose_it_is() {
    let world = World::start().await;
    world.project("p").await;
    let theirs = json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": "edge-log", "project": "p"},
        "spec": {"process": {"command": "/bin/false"}, "placement": {"nodes": ["n"]}},
    });
    good(&world, theirs).await;
    good(&world, addon("p", "log", "1")).await;
    good(&world, blueprint("p", "base", json!([{"name": "log"}]))).await;
    good(&world, cluster("p", "edge", "base")).await;
    let at = name("p", "edge");
    let failing = until(&world, &at, "AddonsReady", ("False", "Failing")).await.status.unwrap();
    assert!(failing.message.contains("\"edge-log\" is not this cluster's"), "{failing:?}");
    let workloads = world.hub.resources::<Workload>().unwrap();
    let theirs = workloads.find(&name("p", "edge-log")).await.unwrap().unwrap();
    assert_eq!(theirs.metadata.unwrap().owner_references.len(), 0);

    workloads.delete(&name("p", "edge-log")).await.unwrap();
    // The cluster hears nothing of what is not its own; a change of its own makes it look.
    world.until_gone::<Workload>(&name("p", "edge-log")).await;
    good(&world, addon("p", "log", "2")).await;
    until(&world, &at, "Ready", ("True", "Ready")).await;
    world.stop().await;
}

/// A blueprint that is shared brings the addons of its own project; one that is not shared is not found.
///
/// proves: HUB-09
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_blueprint_brings_its_own_addons() {
    let world = World::start().await;
    for project in ["platform", "shop"] {
        world.project(project).await;
    }
    good(&world, addon("platform", "log", "1.0")).await;
    good(&world, addon("platform", "log", "1.1")).await;
    let mut base = blueprint("platform", "base", json!([{"name": "log", "version": "1.0"}]));
    good(&world, base.clone()).await;
    good(&world, cluster("shop", "edge", "base")).await;
    let at = name("shop", "edge");
    until(&world, &at, "Ready", ("False", "BlueprintNotFound")).await;
    base["spec"]["sharing"] = json!({"enabled": true, "projects": [{"name": "shop"}]});
    good(&world, base).await;
    let ready = until(&world, &at, "Ready", ("True", "Ready")).await.status.unwrap();
    assert_eq!(ready.addons[0].version, "1.0", "one that is kept");
    let at = name("shop", "edge-log");
    let made = world.hub.resources::<Workload>().unwrap().find(&at).await.unwrap().unwrap();
    assert_eq!(made.spec.unwrap().version(), "1.0");
    let users = world
        .until(&name("platform", "base"), |it: &orrery_proto::infra::v1::Blueprint| {
            it.status.as_ref().is_some_and(|status| status.clusters == 1)
        })
        .await;
    assert_eq!(users.status.unwrap().state, "Ready");
    world.stop().await;
}

/// Bad input is refused where it is declared, with the place and what to do.
#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused() {
    let world = World::start().await;
    world.project("p").await;
    let check = async |object: serde_json::Value, expect: &str| {
        let refused = apply(&world, object).await.unwrap_err();
        let said = refused.to_string();
        assert!(matches!(refused, Error::Invalid { .. }) && said.contains(expect), "{said}");
    };
    check(blueprint("p", "b", json!([{"name": "a"}, {"name": "a"}])), "spec.addons[1].name").await;
    let mut two = cluster("p", "edge", "b");
    two["spec"]["pools"] = json!([{"name": "a"}, {"name": "a"}]);
    check(two, "spec.pools[1]").await;
    let mut file = addon("p", "log", "1");
    file["spec"]["template"]["files"] = json!([{"path": "../x", "text": "y"}]);
    check(file, "spec.template.files[0].path").await;
    good(&world, cluster("p", "edge", "b")).await;
    let mut moved = cluster("p", "edge", "b");
    moved["spec"]["process"].take();
    moved["spec"]["qemu"] = json!({"disk": "/d"});
    check(moved, "a cluster stays with its provider \"process\"").await;
    world.until(&name("p", "edge-workers"), |_: &MachineDeployment| true).await;
    world.stop().await;
}
