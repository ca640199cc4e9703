//! What nobody owns any more goes.
use crate::support::{World, eventually};
use orrery_api::Object;
use orrery_hub::{ApplyOptions, DeleteOptions, ListOptions, ObjectName, Propagation, Resources};
use orrery_lifecycle::DEFAULT_PROJECT;
use orrery_proto::apps::v1::Workload;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn at(name: &str) -> ObjectName {
    ObjectName::new(DEFAULT_PROJECT, name)
}

fn reference(owner: &Object, blocks: bool) -> Value {
    json!({
        "apiVersion": owner.kind().api_version(), "kind": owner.kind().kind(),
        "name": owner.name(), "uid": owner.uid(), "blockOwnerDeletion": blocks,
    })
}

impl World {
    async fn owned(&self, name: &str, owners: &[&Object]) -> Object {
        self.owned_with(name, owners, &[]).await
    }

    async fn owned_with(&self, name: &str, owners: &[&Object], finalizers: &[&str]) -> Object {
        let owners: Vec<Value> = owners.iter().map(|owner| reference(owner, true)).collect();
        self.create(json!({
            "name": name, "project": DEFAULT_PROJECT, "ownerReferences": owners,
            "finalizers": finalizers,
        }))
        .await
    }

    async fn delete(&self, name: &str, propagation: Option<Propagation>) {
        let options = DeleteOptions { propagation, ..at(name).into() };
        self.accessor("Workload").delete(options).await.expect("deletion can be asked for");
    }

    async fn names(&self) -> BTreeSet<String> {
        let page = self.accessor("Workload").list(ListOptions::default()).await.expect("a list");
        page.items.iter().map(|object| object.name().to_owned()).collect()
    }

    async fn settles_to(&self, expected: &BTreeSet<String>) {
        eventually(|| async { self.names().await == *expected }).await;
        // Something new passes through the collector after everything that came before.
        let nobody = json!({"apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "name": "x", "uid": "x"});
        let metadata =
            json!({"name": "sentinel", "project": DEFAULT_PROJECT, "ownerReferences": [nobody]});
        self.create(metadata).await;
        self.gone("Workload", &at("sentinel")).await;
        assert_eq!(self.names().await, *expected);
    }

    async fn release(&self, name: &str) {
        let workloads: Resources<Workload> = self.hub.resources().expect("workloads");
        let free = |meta: &mut orrery_api::ObjectMeta| meta.finalizers.retain(|f| f != "x/hold");
        workloads.update_meta(&at(name), free).await.expect("released");
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn in_the_background_the_owner_goes_first_and_the_rest_follows() {
    let world = World::new().await;
    let owner = world.owned("owner", &[]).await;
    let other = world.owned("other", &[]).await;
    let child = world.owned("child", &[&owner]).await;
    world.owned("grandchild", &[&child]).await;
    world.owned("shared", &[&owner, &other]).await;
    world.delete("owner", None).await;
    world.settles_to(&names(&["other", "shared"])).await;
    let shared = world.accessor("Workload").get(at("shared").into()).await.expect("it stays");
    let left: Vec<String> = shared.meta().owner_references.into_iter().map(|o| o.uid).collect();
    assert_eq!(left, [other.uid()], "it forgot the owner that is gone");
}

#[tokio::test]
async fn in_the_foreground_the_owner_waits_for_what_blocks_it() {
    let world = World::new().await;
    let owner = world.owned("owner", &[]).await;
    let child = world.owned("child", &[&owner]).await;
    world.owned_with("grandchild", &[&child], &["x/hold"]).await;
    world.delete("owner", Some(Propagation::Foreground)).await;
    let going = |name: &'static str| {
        let world = &world;
        async move {
            let found = world.accessor("Workload").get(at(name).into()).await;
            found.is_ok_and(|object| object.deletion_timestamp().is_some())
        }
    };
    eventually(|| going("grandchild")).await;
    assert!(going("owner").await && going("child").await, "each waits for the next");
    world.release("grandchild").await;
    world.settles_to(&names(&[])).await;
}

#[tokio::test]
async fn what_does_not_block_is_not_waited_for() {
    let world = World::new().await;
    let owner = world.owned("owner", &[]).await;
    let metadata = json!({
        "name": "loose", "project": DEFAULT_PROJECT, "finalizers": ["x/hold"],
        "ownerReferences": [reference(&owner, false)],
    });
    world.create(metadata).await;
    world.delete("owner", Some(Propagation::Foreground)).await;
    world.gone("Workload", &at("owner")).await;
    world.release("loose").await;
    world.settles_to(&names(&[])).await;
}

#[tokio::test]
async fn orphans_stay_and_forget_their_owner() {
    let world = World::new().await;
    let owner = world.owned("owner", &[]).await;
    let child = world.owned("child", &[&owner]).await;
    world.owned("grandchild", &[&child]).await;
    world.delete("owner", Some(Propagation::Orphan)).await;
    world.settles_to(&names(&["child", "grandchild"])).await;
    let child = world.accessor("Workload").get(at("child").into()).await.expect("it stays");
    assert!(child.meta().owner_references.is_empty());
}

#[tokio::test]
async fn an_owner_that_never_was_or_is_another_holds_nothing() {
    let world = World::new().await;
    let first = world.owned("owner", &[]).await;
    world.delete("owner", None).await;
    world.owned("owner", &[]).await;
    world.owned("child", &[&first]).await;
    world.settles_to(&names(&["owner"])).await;
}

#[tokio::test]
async fn what_nobody_can_judge_stays() {
    let world = World::new().await;
    let unknown = json!({"apiVersion": "x.example/v1", "kind": "Unheard", "name": "x", "uid": "x"});
    let metadata = json!({"name": "a", "project": DEFAULT_PROJECT, "ownerReferences": [unknown]});
    world.create(metadata).await;
    world.settles_to(&names(&["a"])).await;
}

#[tokio::test]
async fn owners_may_be_of_another_kind_and_without_a_project() {
    let world = World::new().await;
    world.create_project("owner").await;
    let project = ObjectName::new("", "owner");
    let owner = world.accessor("Project").get(project.clone().into()).await.expect("it is there");
    world.owned("child", &[&owner]).await;
    world.accessor("Project").delete(project.into()).await.expect("asked");
    world.settles_to(&names(&[])).await;
}

fn own(owned: &mut Object, owner: &Object, blocks: bool) {
    let reference = orrery_proto::meta::v1::OwnerReference {
        api_version: owner.kind().api_version().into(),
        kind: owner.kind().kind().into(),
        name: owner.name().into(),
        uid: owner.uid().into(),
        block_owner_deletion: blocks.then_some(true),
        ..Default::default()
    };
    owned.update_meta(|meta| meta.owner_references = vec![reference]);
}

#[tokio::test]
async fn a_reference_that_is_added_later_counts() {
    let world = World::new().await;
    let owner = world.owned("owner", &[]).await;
    let mut child = world.owned("child", &[]).await;
    own(&mut child, &owner, false);
    let workloads = world.accessor("Workload");
    workloads.apply(child, ApplyOptions::default()).await.expect("adopted");
    world.delete("owner", None).await;
    world.settles_to(&names(&[])).await;
}

#[tokio::test]
async fn objects_that_own_each_other_do_not_wait_for_ever() {
    let world = World::new().await;
    let mut first = world.owned("first", &[]).await;
    let second = world.owned("second", &[&first]).await;
    let third = world.owned("third", &[&second]).await;
    own(&mut first, &third, true);
    world.accessor("Workload").apply(first, ApplyOptions::default()).await.expect("a circle");
    world.delete("first", Some(Propagation::Foreground)).await;
    world.settles_to(&names(&[])).await;
}

/// What is left when one of a family goes, by the rules alone.
fn survivors(
    owners: &BTreeMap<usize, BTreeSet<usize>>,
    gone: usize,
    orphan: bool,
) -> BTreeSet<usize> {
    let mut owners = owners.clone();
    owners.remove(&gone);
    if orphan {
        return owners.into_keys().collect();
    }
    loop {
        let left: BTreeSet<usize> = owners.keys().copied().collect();
        let lost = |of: &BTreeSet<usize>| !of.is_empty() && of.is_disjoint(&left);
        let Some(next) = owners.iter().find(|(_, of)| lost(of)).map(|(index, _)| *index) else {
            return left;
        };
        owners.remove(&next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Each object is owned by some of those before it; one of them goes.
    #[test]
    fn families_shrink_to_what_the_rules_leave(
        family in proptest::collection::vec(proptest::collection::btree_set(0..8usize, 0..3), 8),
        gone in 0..8usize,
        how in 0..3usize,
    ) {
        let owners: BTreeMap<usize, BTreeSet<usize>> = family
            .into_iter()
            .enumerate()
            .map(|(index, of)| (index, of.into_iter().filter(|owner| *owner < index).collect()))
            .collect();
        let how = [Propagation::Background, Propagation::Foreground, Propagation::Orphan][how];
        let left = survivors(&owners, gone, how == Propagation::Orphan);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let world = World::new().await;
            let mut created: Vec<Object> = Vec::new();
            for (index, of) in &owners {
                let of: Vec<&Object> = of.iter().map(|owner| &created[*owner]).collect();
                let object = world.owned(&format!("o{index}"), &of).await;
                created.push(object);
            }
            world.delete(&format!("o{gone}"), Some(how)).await;
            world.settles_to(&left.iter().map(|index| format!("o{index}")).collect()).await;
        });
    }
}
