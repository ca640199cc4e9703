//! Machines at the provider that nobody knows, with a real server, a real driver and moto.
use super::World;
use super::killed::{PATH, data, declare, driver};
use orrery_driver::{Driver as _, Request};
use orrery_hub::{Hub, ListOptions, ObjectName};
use orrery_proto::core::v1::{Event, Project};
use orrery_proto::infra::v1::Machine;
use orrery_testkit::world::{Operations, OrphanTiming, SOON, World as Server, WorldOptions};
use std::time::Duration;

const FROZEN: &str = "machines.orrery.dev/frozen";

/// The names of what the provider has, asked without the server.
async fn names(here: &World) -> Vec<String> {
    let listed = here.driver().list(&Request::on(PATH, data(here))).await.expect("lists");
    let mut names: Vec<String> = listed.into_iter().map(|machine| machine.name).collect();
    names.sort();
    names
}

/// One that carries our tags and that no server has asked for, as after the loss of a store.
async fn stray(here: &World, name: &str) {
    let mut request = Request::on(PATH, data(here));
    request.machine_name = name.into();
    request.idempotency_key = format!("uid-{name}");
    here.driver().create(&request).await.expect("made behind the server's back");
}

async fn freeze(server: &Server, project: &str, frozen: bool) {
    let name = ObjectName::new("", project);
    let projects = server.hub.resources::<Project>().expect("a kind");
    let switch = projects.update_meta(&name, |meta| {
        meta.annotations.remove(FROZEN);
        if frozen {
            meta.annotations.insert(FROZEN.to_owned(), "true".to_owned());
        }
    });
    switch.await.expect("switched");
}

/// Returns when the provider has been asked so often again, after which the grace is long over.
async fn looks(here: &World, count: usize) {
    let until = here.proxy.passed("DescribeInstances") + count;
    let seen = tokio::time::timeout(SOON, async {
        while here.proxy.passed("DescribeInstances") < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    seen.await.expect("it goes on looking");
}

async fn reasons(hub: &Hub) -> Vec<String> {
    let events = hub.resources::<Event>().expect("a kind");
    let events = events.list(ListOptions::default()).await.expect("a list");
    let told = events.into_iter().filter_map(|event| event.spec);
    told.filter(|it| it.reason() == "Orphan").map(|it| it.message().to_owned()).collect()
}

/// proves: MCH-07
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_goes_after_its_grace_and_never_while_frozen() {
    let orphans = OrphanTiming::after(Duration::from_millis(300));
    let operations = Operations { orphans, ..Operations::default() };
    let options = WorldOptions { operations, ..WorldOptions::default() };
    let (here, server) = (World::start().await, Server::start_with(options).await);
    declare(&server, &here.moto.key_id, &here.moto.key).await;
    freeze(&server, "system", true).await;
    stray(&here, "stray").await;
    let _driver = driver(&here, &server);
    looks(&here, 20).await;
    assert!(names(&here).await.contains(&"stray".to_owned()), "everything is frozen");
    freeze(&server, "shop", true).await;
    freeze(&server, "system", false).await;
    looks(&here, 20).await;
    assert!(names(&here).await.contains(&"stray".to_owned()), "its project is frozen");
    assert_eq!(reasons(&server.hub).await, Vec::<String>::new());

    freeze(&server, "shop", false).await;
    let known = |it: &Machine| it.status.as_ref().is_some_and(|it| it.phase == "Available");
    server.until(&ObjectName::new("shop", "m1"), known).await;
    let gone = tokio::time::timeout(SOON, async {
        while names(&here).await != ["m1"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    gone.await.expect("the stray one goes, and ours stays");
    looks(&here, 20).await;
    assert_eq!(names(&here).await, ["m1"]);
    let told = reasons(&server.hub).await;
    assert!(told.len() == 1 && told[0].contains("(stray) is ours by its tag"), "{told:?}");
    server.stop().await;
}
