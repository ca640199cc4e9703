//! Placement by labels, from the hello of an agent to its assignments.
use crate::workloads::{apply, mk_workload, shop, state};
use orrery_hub::{ListOptions, ObjectName};
use orrery_proto::apps::v1::{NodeSelector, Placement, VolumeMount, Workload, WorkloadInstance};
use orrery_proto::fleet::v1::server_message::Message;
use orrery_proto::infra::v1::{Node, NodeSpec};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{StorageController, StorageControllerSpec, Volume, VolumeSpec};
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::World;

fn by_label(name: &str, replicas: Option<i32>) -> Workload {
    let match_labels = [("zone".to_owned(), "a".to_owned())].into();
    let selector = Some(NodeSelector { match_labels });
    let mut workload = mk_workload(name, &[]);
    let placement = Placement { selector, replicas, ..Placement::default() };
    workload.spec.as_mut().unwrap().placement = Some(placement);
    workload
}

fn web() -> ObjectName {
    ObjectName::new("shop", "web")
}

fn scheduled(workload: &Workload) -> Option<(&str, &str)> {
    let conditions = &workload.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.r#type == "Scheduled")?;
    Some((&found.status, &found.message))
}

/// The nodes of all copies, sorted, once they are as wanted.
async fn until_nodes(world: &World, expect: &[&str]) {
    let instances = world.hub.resources::<WorkloadInstance>().unwrap();
    let mut last = Vec::new();
    let found = tokio::time::timeout(orrery_testkit::world::SOON, async {
        while last != expect {
            let all = instances.list(ListOptions::default()).await.unwrap();
            let staying = all.iter().filter(|copy| {
                copy.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_none())
            });
            last = staying.map(|copy| copy.spec.as_ref().unwrap().node().to_owned()).collect();
            last.sort_unstable();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    assert!(found.await.is_ok(), "the copies are on {last:?}, expected {expect:?}");
}

async fn set_node(world: &World, name: &str, unschedulable: bool, labels: &[(&str, &str)]) {
    let spec = NodeSpec { unschedulable: Some(unschedulable), drain: None };
    write_node(world, name, spec, labels).await;
}

async fn write_node(world: &World, name: &str, spec: NodeSpec, labels: &[(&str, &str)]) {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let metadata = ObjectMeta { name: name.to_owned(), labels, ..ObjectMeta::default() };
    let node = Node { metadata: Some(metadata), spec: Some(spec), ..Node::default() };
    world.hub.resources().unwrap().apply(&node).await.unwrap();
}

#[tokio::test]
async fn copies_are_spread_over_the_nodes_with_the_labels() {
    let (world, transport) = shop().await;
    let zone = [("zone", "a")];
    let mut first = FakeAgent::connect_labelled(&transport, "edge-1", &zone).await.unwrap();
    let _second = FakeAgent::connect_labelled(&transport, "edge-2", &zone).await.unwrap();
    let _other = FakeAgent::connect_labelled(&transport, "edge-3", &[("zone", "b")]).await.unwrap();
    apply(&world, &by_label("web", Some(3))).await;
    until_nodes(&world, &["edge-1", "edge-1", "edge-2"]).await;
    let copies = [first.assignment().await, first.assignment().await];
    assert_ne!(copies[0].id, copies[1].id);
    let there = world.until::<Workload>(&web(), |w| scheduled(w).is_some()).await;
    assert_eq!(scheduled(&there), Some(("True", "every copy has a node")));
    apply(&world, &by_label("web", Some(2))).await;
    until_nodes(&world, &["edge-1", "edge-2"]).await;
    world.stop().await;
}

#[tokio::test]
async fn a_workload_without_a_node_says_so_until_one_comes() {
    let (world, transport) = shop().await;
    apply(&world, &by_label("web", Some(1))).await;
    let alone = world.until::<Workload>(&web(), |w| state(w) == "NotScheduled").await;
    assert_eq!(scheduled(&alone), Some(("False", "no node has the labels zone=a")));
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    world.until::<Node>(&ObjectName::new("", "edge-1"), |node| node.status.is_some()).await;
    // People can label a node as well as its agent can.
    set_node(&world, "edge-1", false, &[("zone", "a")]).await;
    let assignment = agent.assignment().await;
    agent.report(&assignment.id, "Running", assignment.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    world.stop().await;
}

#[tokio::test]
async fn a_cordoned_node_keeps_what_it_has_and_gets_nothing_new() {
    let (world, transport) = shop().await;
    let zone = [("zone", "a")];
    let _agent = FakeAgent::connect_labelled(&transport, "edge-1", &zone).await.unwrap();
    apply(&world, &by_label("web", None)).await;
    until_nodes(&world, &["edge-1"]).await;
    set_node(&world, "edge-1", true, &zone).await;
    apply(&world, &by_label("late", None)).await;
    let late = ObjectName::new("shop", "late");
    let none = world.until::<Workload>(&late, |w| state(w) == "NotScheduled").await;
    assert_eq!(scheduled(&none).unwrap().1, "1 chosen nodes take nothing new: 1 cordoned");
    until_nodes(&world, &["edge-1"]).await;
    set_node(&world, "edge-1", false, &zone).await;
    until_nodes(&world, &["edge-1", "edge-1"]).await;
    world.stop().await;
}

/// Nobody knows whether a copy on a node that is gone still runs, so it stays what it is.
#[tokio::test]
async fn a_gone_node_keeps_its_copies() {
    let (world, transport) = shop().await;
    let zone = [("zone", "a")];
    let mut agent = FakeAgent::connect_labelled(&transport, "edge-1", &zone).await.unwrap();
    apply(&world, &by_label("web", Some(1))).await;
    let assignment = agent.assignment().await;
    agent.report(&assignment.id, "Running", assignment.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    drop(agent);
    world.until::<Workload>(&web(), |w| state(w) == "Unknown").await;
    let mut other = FakeAgent::connect_labelled(&transport, "edge-2", &zone).await.unwrap();
    apply(&world, &by_label("late", Some(1))).await;
    assert_eq!(other.assignment().await.spec.unwrap().workload(), "late");
    until_nodes(&world, &["edge-1", "edge-2"]).await;
    world.stop().await;
}

#[tokio::test]
async fn the_labels_of_an_agent_come_and_go_with_it() {
    let (world, transport) = shop().await;
    let name = ObjectName::new("", "edge-1");
    let label = |node: &Node| node.metadata.clone().unwrap().labels.get("zone").cloned();
    drop(FakeAgent::connect_labelled(&transport, "edge-1", &[("zone", "a")]).await.unwrap());
    world.until::<Node>(&name, |node| label(node).as_deref() == Some("a")).await;
    drop(FakeAgent::connect_labelled(&transport, "edge-1", &[("zone", "b")]).await.unwrap());
    world.until::<Node>(&name, |node| label(node).as_deref() == Some("b")).await;
    drop(FakeAgent::connect(&transport, "edge-1").await.unwrap());
    world.until::<Node>(&name, |node| label(node).is_none()).await;
    world.stop().await;
}

#[tokio::test]
async fn a_placement_that_could_not_work_is_refused() {
    let (world, _) = shop().await;
    let resources = world.hub.resources::<Workload>().unwrap();
    let nowhere = resources.apply(&mk_workload("web", &[])).await.unwrap_err().to_string();
    assert!(nowhere.contains("spec.placement") && nowhere.contains("matchLabels"), "{nowhere}");
    let mut both = by_label("web", None);
    both.spec.as_mut().unwrap().placement.as_mut().unwrap().nodes = vec!["edge-1".into()];
    let both = resources.apply(&both).await.unwrap_err().to_string();
    assert!(both.contains("either names or labels"), "{both}");
    world.stop().await;
}

fn named(project: &str, name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { name: name.into(), project: project.into(), ..ObjectMeta::default() })
}

/// A storage controller that nobody answers for: where volumes are placed is decided without it.
async fn storage_on(world: &World, id: &str) {
    let spec = StorageControllerSpec { address: Some("127.0.0.1:1".into()), ..<_>::default() };
    let controller =
        StorageController { metadata: named("", id), spec: Some(spec), ..<_>::default() };
    world.hub.resources().unwrap().apply(&controller).await.unwrap();
}

async fn volume(world: &World, name: &str, controller: Option<&str>) {
    let controller = controller.map(str::to_owned);
    let spec = VolumeSpec { size: Some("1Mi".into()), controller, ..VolumeSpec::default() };
    let volume = Volume { metadata: named("shop", name), spec: Some(spec), ..Volume::default() };
    world.hub.resources().unwrap().apply(&volume).await.unwrap();
}

async fn until_placed(world: &World, name: &str, controller: &str) {
    let placed = |volume: &Volume| volume.status.as_ref().map(|status| status.controller.clone());
    let name = ObjectName::new("shop", name);
    world.until::<Volume>(&name, |volume| placed(volume).as_deref() == Some(controller)).await;
}

fn mounting(name: &str, volume: &str) -> Workload {
    let mut workload = by_label(name, Some(1));
    let mount = VolumeMount {
        volume: Some(volume.to_owned()),
        path: Some("/mnt/data".to_owned()),
        ..VolumeMount::default()
    };
    workload.spec.as_mut().unwrap().volumes = vec![mount];
    workload
}

#[tokio::test]
async fn a_volume_draws_its_workload_to_its_node() {
    let (world, transport) = shop().await;
    let zone = [("zone", "a")];
    let _first = FakeAgent::connect_labelled(&transport, "edge-1", &zone).await.unwrap();
    let _second = FakeAgent::connect_labelled(&transport, "edge-2", &zone).await.unwrap();
    storage_on(&world, "edge-2").await;
    volume(&world, "kept", Some("edge-2")).await;
    until_placed(&world, "kept", "edge-2").await;
    apply(&world, &mounting("keeper", "kept")).await;
    until_nodes(&world, &["edge-2"]).await;
    // One without a place goes where a chosen node has storage at all.
    volume(&world, "fresh", None).await;
    apply(&world, &mounting("web", "fresh")).await;
    until_nodes(&world, &["edge-2", "edge-2"]).await;
    until_placed(&world, "fresh", "edge-2").await;
    world.stop().await;
}

#[tokio::test]
async fn a_workload_whose_volume_is_elsewhere_says_so_until_a_node_is_there() {
    let (world, transport) = shop().await;
    let zone = [("zone", "a")];
    let _agent = FakeAgent::connect_labelled(&transport, "edge-1", &zone).await.unwrap();
    storage_on(&world, "far").await;
    volume(&world, "data", Some("far")).await;
    until_placed(&world, "data", "far").await;
    apply(&world, &mounting("web", "data")).await;
    let waits = world.until::<Workload>(&web(), |w| state(w) == "NotScheduled").await;
    let why = "the volume data is on far, and no chosen node is served by it";
    assert_eq!(scheduled(&waits), Some(("False", why)));
    let served = [("zone", "a"), ("storage.orrery.dev/controller", "far")];
    set_node(&world, "edge-1", false, &served).await;
    until_nodes(&world, &["edge-1"]).await;
    world.stop().await;
}

/// Copies leave a node that is to be emptied one after the other: the next goes when the one before is
/// replaced and can do its work.
#[tokio::test]
async fn a_drained_node_loses_its_copies_one_by_one() {
    let (world, transport) = shop().await;
    let zone = [("zone", "a")];
    let mut old = FakeAgent::connect_labelled(&transport, "edge-1", &zone).await.unwrap();
    let every = Placement { selector: Some(NodeSelector::default()), ..Placement::default() };
    let mut each = mk_workload("each", &[]);
    each.spec.as_mut().unwrap().placement = Some(every);
    for workload in [by_label("web", Some(2)), each, mk_workload("named", &["edge-1"])] {
        apply(&world, &workload).await;
    }
    for _ in 0..4 {
        let assignment = old.assignment().await;
        old.report(&assignment.id, "Running", assignment.generation).await;
    }
    world.until::<Workload>(&web(), |w| running(w) == 2).await;
    let mut new = FakeAgent::connect_labelled(&transport, "edge-2", &zone).await.unwrap();
    let each = new.assignment().await;
    assert_eq!(each.spec.as_ref().unwrap().workload(), "each");

    let drain = NodeSpec { unschedulable: None, drain: Some(true) };
    write_node(&world, "edge-1", drain, &zone).await;
    // What belongs to the node goes with it, what can move waits for its turn.
    let mut leaving = unassigned(&mut old, 3).await;
    leaving.sort();
    assert_eq!(leaving, ["each", "named", "web"]);
    let first = new.assignment().await;
    assert_eq!(first.spec.as_ref().unwrap().workload(), "web");
    until_nodes(&world, &["edge-1", "edge-2", "edge-2"]).await;
    let named = ObjectName::new("shop", "named");
    let lost = |w: &Workload| scheduled(w).is_some_and(|(status, _)| status == "False");
    let missing = world.until::<Workload>(&named, lost).await;
    assert_eq!(scheduled(&missing).unwrap().1, "is being emptied: \"edge-1\"");
    new.report(&first.id, "Running", first.generation).await;
    assert_eq!(unassigned(&mut old, 1).await, ["web"]);
    let second = new.assignment().await;
    new.report(&second.id, "Running", second.generation).await;
    world.until::<Workload>(&web(), |w| running(w) == 2).await;
    until_nodes(&world, &["edge-2", "edge-2", "edge-2"]).await;

    // Opened again, it gets back what names it.
    let open = NodeSpec { unschedulable: Some(false), drain: Some(false) };
    write_node(&world, "edge-1", open, &zone).await;
    until_nodes(&world, &["edge-1", "edge-1", "edge-2", "edge-2", "edge-2"]).await;
    world.stop().await;
}

fn running(workload: &Workload) -> i32 {
    workload.status.as_ref().map_or(0, |status| status.running)
}

/// The workloads of the next copies that an agent is to stop; it does.
async fn unassigned(agent: &mut FakeAgent, count: usize) -> Vec<String> {
    let mut stopped = Vec::new();
    while stopped.len() < count {
        if let Message::Assign(assignment) = agent.next().await.expect("the connection is open")
            && assignment.removing
        {
            let workload = assignment.spec.as_ref().unwrap().workload().to_owned();
            agent.report(&assignment.id, "Removed", assignment.generation).await;
            stopped.push(workload);
        }
    }
    stopped
}

/// It comes with the first copy of the other, and stays until the last one of a node is gone.
#[tokio::test]
async fn a_workload_beside_another_follows_its_copies() {
    let (world, transport) = shop().await;
    let mut first = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let mut second = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    let mut beside = mk_workload("shipper", &[]);
    let placement = Placement { beside: Some("web".into()), ..Placement::default() };
    beside.spec.as_mut().unwrap().placement = Some(placement);
    apply(&world, &beside).await;
    let shipper = ObjectName::new("shop", "shipper");
    world.until::<Workload>(&shipper, |w| w.status.is_some()).await;
    until_nodes(&world, &[]).await;
    apply(&world, &mk_workload("web", &["edge-1", "edge-2"])).await;
    until_nodes(&world, &["edge-1", "edge-1", "edge-2", "edge-2"]).await;
    let both = [second.assignment().await, second.assignment().await];
    let web = both.iter().find(|one| one.spec.as_ref().unwrap().workload() == "web").unwrap();
    // What it is beside is asked to go, and is not gone yet.
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let removing = second.assignment().await;
    assert!(removing.removing && removing.id == web.id, "the other goes first");
    until_nodes(&world, &["edge-1", "edge-1", "edge-2"]).await;
    second.report(&web.id, "Removed", removing.generation).await;
    until_nodes(&world, &["edge-1", "edge-1"]).await;
    let followed = second.assignment().await;
    assert!(followed.removing && followed.id != web.id);
    // A node that is emptied keeps it as long as the other has a copy there.
    let spec = NodeSpec { unschedulable: None, drain: Some(true) };
    write_node(&world, "edge-2", spec, &[]).await;
    let assigned = [first.assignment().await, first.assignment().await];
    assert!(assigned.iter().all(|one| !one.removing));
    world.stop().await;
}
