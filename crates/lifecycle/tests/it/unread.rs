//! Objects that cannot be read, and may have owners all the same.
use crate::support::World;
use orrery_api::Object;
use orrery_hub::{DeleteOptions, ObjectName, Propagation};
use orrery_lifecycle::DEFAULT_PROJECT;
use orrery_store::{Op, Revision};
use serde_json::{Value, json};
use std::time::Duration;

/// Where the secrets of the built-in scheme stand.
const SECRETS: &str = "objects/core/Secret/";
/// Stands in the bytes of what is damaged.
const MARK: &[u8] = b"damage-here";
/// Longer than a deletion waits for anything that need not be waited for.
const LONG: Duration = Duration::from_secs(60);

/// What is wrong with an object.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// One of its labels is no text: its name can be read, its owners cannot.
    Label,
    /// It is no message at all.
    Everything,
}

impl Damage {
    fn done_to(self, good: &[u8]) -> Vec<u8> {
        let mut bad = good.to_vec();
        match self {
            Self::Label => {
                let mark = good.windows(MARK.len()).position(|part| part == MARK);
                bad[mark.expect("it is marked")] = 0xff;
            }
            // The end of a group that never began.
            Self::Everything => bad.insert(0, 0x0c),
        }
        bad
    }
}

fn at(name: &str) -> ObjectName {
    ObjectName::new(DEFAULT_PROJECT, name)
}

fn metadata(name: &str, owner: Option<&Object>) -> Value {
    let reference = |owner: &Object| {
        json!({
            "apiVersion": owner.kind().api_version(), "kind": owner.kind().kind(),
            "name": owner.name(), "uid": owner.uid(), "blockOwnerDeletion": true,
        })
    };
    let owners: Vec<Value> = owner.map(reference).into_iter().collect();
    let labels = json!({"mark": String::from_utf8_lossy(MARK)});
    json!({"name": name, "project": DEFAULT_PROJECT, "ownerReferences": owners, "labels": labels})
}

impl World {
    async fn stored(&self, name: &str) -> (String, Vec<u8>, Revision) {
        let snapshot = self.hub.store().snapshot().await.expect("a snapshot");
        let mut secrets = snapshot.range(SECRETS);
        let entry = secrets.find(|entry| entry.key.ends_with(name)).expect("it is there");
        (entry.key.to_string(), entry.value.to_vec(), entry.modified)
    }

    /// Writes other bytes in the place of a secret; none take it away. Answers those that were there.
    async fn put(&self, name: &str, bytes: Option<Vec<u8>>) -> Vec<u8> {
        let (key, before, modified) = self.stored(name).await;
        let op = match bytes {
            Some(bytes) => Op::update(key, bytes, modified),
            None => Op::delete(key, modified),
        };
        self.hub.store().commit(vec![op]).await.expect("nobody else writes it");
        before
    }

    async fn damage(&self, name: &str, damage: Damage) -> Vec<u8> {
        let (_, good, _) = self.stored(name).await;
        self.put(name, Some(damage.done_to(&good))).await
    }

    async fn deletes(&self, name: &str, propagation: Propagation) {
        let options = DeleteOptions { propagation: Some(propagation), ..at(name).into() };
        self.accessor("Workload").delete(options).await.expect("it can be asked for");
    }

    /// Two workloads that own a secret each. The one of the first cannot be read, from the beginning or from later on.
    /// Answers what it was.
    async fn damaged(damage: Damage, early: bool) -> (Self, Vec<u8>) {
        let world = Self::idle(|builder| builder).await;
        for (owner, secret) in [("owner", "bad"), ("other", "good")] {
            let owner = world.create(metadata(owner, None)).await;
            world.create_one("Secret", json!({"metadata": metadata(secret, Some(&owner))})).await;
        }
        if early {
            let good = world.damage("bad", damage).await;
            world.begin();
            return (world, good);
        }
        world.begin();
        // Something that nobody owns any more is gone when the collector has begun.
        let nobody = json!([{"apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "name": "x", "uid": "x"}]);
        let mut sentinel = metadata("sentinel", None);
        sentinel["ownerReferences"] = nobody;
        world.create(sentinel).await;
        world.gone("Workload", &at("sentinel")).await;
        let good = world.damage("bad", damage).await;
        (world, good)
    }
}

const ALL: [(Damage, bool); 4] = [
    (Damage::Label, true),
    (Damage::Label, false),
    (Damage::Everything, true),
    (Damage::Everything, false),
];

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_holds_only_deletions_of_what_it_names() {
    for (damage, early) in ALL {
        let (world, good) = World::damaged(damage, early).await;
        world.deletes("owner", Propagation::Orphan).await;
        world.deletes("other", Propagation::Orphan).await;
        world.gone("Workload", &at("other")).await;
        tokio::time::sleep(LONG).await;
        assert!(world.exists("Workload", &at("owner")).await, "{damage:?} {early}");
        world.put("bad", Some(good)).await;
        world.gone("Workload", &at("owner")).await;
        let left = world.accessor("Secret").get(at("bad").into()).await.expect("it stays").meta();
        assert!(left.owner_references.is_empty() && left.deletion_timestamp.is_none(), "{left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_blocks_its_owner_until_it_is_gone() {
    for (damage, early) in ALL {
        let (world, _) = World::damaged(damage, early).await;
        world.deletes("owner", Propagation::Foreground).await;
        world.deletes("other", Propagation::Foreground).await;
        world.gone("Workload", &at("other")).await;
        assert!(!world.exists("Secret", &at("good")).await, "before its owner");
        tokio::time::sleep(LONG).await;
        assert!(world.exists("Workload", &at("owner")).await, "{damage:?} {early}");
        world.put("bad", None).await;
        world.gone("Workload", &at("owner")).await;
    }
}

/// What it becomes need not have owners.
#[tokio::test(start_paused = true)]
async fn what_can_be_read_again_holds_nothing() {
    for (damage, early) in ALL {
        let (world, _) = World::damaged(damage, early).await;
        world.create_one("Secret", json!({"metadata": metadata("new", None)})).await;
        let (_, mut quiet, _) = world.stored("new").await;
        let name = quiet.windows(4).position(|part| part == b"\x03new").expect("its name");
        quiet[name + 1..name + 4].copy_from_slice(b"bad");
        world.put("bad", Some(quiet)).await;
        world.deletes("owner", Propagation::Orphan).await;
        world.gone("Workload", &at("owner")).await;
    }
}
