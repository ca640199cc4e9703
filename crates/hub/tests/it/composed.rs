//! Writes that are made of bytes do what decoding everything would have done.
use crate::support::{GIZMO, PROJECT, World, at, json_of};
use orrery_api::{Composed, DecodeOptions, Encoded, LINEAGE, Object};
use orrery_hub::{
    Applied, ApplyOptions, Error, HubBuilder, ListOptions, Merge, Outcome, Part, Precondition,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// One write of one of a few objects, good or bad.
#[derive(Clone, Debug)]
struct Write {
    object: Value,
    part: Part,
    merge: Merge,
    precondition: Wanted,
    manager: Option<&'static str>,
    dry_run: bool,
    include_lineage: bool,
    odd: Odd,
    delete: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Any,
    Present,
    Absent,
    Current,
    Stale,
}

/// What is done to the bytes of an object.
#[derive(Clone, Debug)]
enum Odd {
    Nothing,
    /// A field that nobody knows.
    Unknown,
    /// The metadata comes twice, and so must be put together.
    Twice,
    Flipped(prop::sample::Index, u8),
}

fn texts(keys: &'static [&'static str], values: &'static [&'static str]) -> BoxedStrategy<Value> {
    let pairs = btree_map(select(keys), select(values), 0..4);
    pairs.prop_map(|pairs| json!(pairs)).boxed()
}

fn metadata() -> impl Strategy<Value = Map<String, Value>> {
    let owner = (select(&["u1", "u2"][..]), select(&["o", ""][..])).prop_map(|(uid, name)| {
        json!({"apiVersion": "fixture.orrery.dev/v1", "kind": "Rack", "name": name, "uid": uid})
    });
    let holders = &["foregroundDeletion", "a.dev/x", "a.dev/y", "not good"][..];
    (
        select(&["a", "b"][..]),
        option::weighted(0.7, texts(&["app", "tier", "-bad"], &["v1", "v2", "", "no good"])),
        option::weighted(0.7, texts(&["note", "b.dev/c", LINEAGE, "/"], &["x", "y"])),
        option::weighted(0.3, vec(select(holders), 0..3)),
        option::weighted(0.3, vec(owner, 0..3)),
        option::weighted(0.2, select(&["words", ""][..])),
        option::weighted(0.05, Just("5a39bbd4-0000-4000-8000-000000000000")),
    )
        .prop_map(|(name, labels, annotations, finalizers, owners, description, uid)| {
            let said = [
                ("labels", labels),
                ("annotations", annotations),
                ("finalizers", finalizers.map(|all| json!(all))),
                ("ownerReferences", owners.map(|all| json!(all))),
                ("description", description.map(|text| json!(text))),
                ("uid", uid.map(|text| json!(text))),
            ];
            let said = said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
            let placed = [("name", json!(name)), ("project", json!(PROJECT))];
            said.chain(placed.map(|(key, value)| (key.to_owned(), value))).collect()
        })
}

fn spec() -> impl Strategy<Value = Value> {
    let port = (select(&["http", "dns", ""][..]), 1..3_i32)
        .prop_map(|(name, number)| json!({"name": name, "number": number}));
    let engine = select(&[r#"{"steam": {}}"#, r#"{"diesel": {"cylinders": 4}}"#][..]);
    (
        option::of(select(&["x", "y"][..])),
        option::of(select(&[1, 2, 101][..])),
        option::of(texts(&["k1", "k2", "k3"], &["v", "w"])),
        option::of(vec(select(&["z1", "z2"][..]), 0..3)),
        option::of(vec(port, 0..3)),
        option::of(engine),
        option::weighted(0.2, select(&["one", "two"][..])),
    )
        .prop_map(|(image, replicas, settings, zones, ports, engine, fixed)| {
            let mut spec = engine
                .map_or_else(Map::new, |engine| serde_json::from_str(engine).expect("it is JSON"));
            let said = [
                ("image", image.map(|text| json!(text))),
                ("replicas", replicas.map(|number| json!(number))),
                ("settings", settings),
                ("zones", zones.map(|all| json!(all))),
                ("ports", ports.map(|all| json!(all))),
                ("fixed", fixed.map(|text| json!(text))),
            ];
            let said = said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
            spec.extend(said);
            Value::Object(spec)
        })
}

fn status() -> impl Strategy<Value = Value> {
    let condition = (select(&["Ready", "Good"][..]), select(&["True", "False", "Perhaps"][..]))
        .prop_map(|(kind, status)| json!({"type": kind, "status": status}));
    (select(&["Up", "Down"][..]), 0..2_i32, vec(condition, 0..3)).prop_map(
        |(state, running, conditions)| {
            json!({"state": state, "running": running, "conditions": conditions})
        },
    )
}

fn odd() -> impl Strategy<Value = Odd> {
    prop_oneof![
        8 => Just(Odd::Nothing),
        1 => Just(Odd::Unknown),
        1 => Just(Odd::Twice),
        2 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, by)| Odd::Flipped(at, by)),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let object = (metadata(), option::weighted(0.9, spec()), option::weighted(0.6, status()));
    let object = object.prop_map(|(metadata, spec, status)| {
        let parts =
            [("metadata", Some(Value::Object(metadata))), ("spec", spec), ("status", status)];
        let parts = parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(parts.collect())
    });
    let wanted = prop_oneof![
        8 => Just(Wanted::Any),
        3 => Just(Wanted::Present),
        1 => Just(Wanted::Absent),
        3 => Just(Wanted::Current),
        1 => Just(Wanted::Stale),
    ];
    let merge = prop_oneof![
        5 => Just((Merge::Declared, None)),
        5 => Just((Merge::Replace, None)),
        1 => Just((Merge::Declared, Some("one"))),
        1 => Just((Merge::Apply, Some("two"))),
    ];
    let part = prop_oneof![3 => Just(Part::Main), 3 => Just(Part::Status), 1 => Just(Part::Scale)];
    let rare = prop::bool::weighted(0.05);
    let rare = (rare, rare, prop::bool::weighted(0.2));
    (object, part, merge, wanted, odd(), rare).prop_map(
        |(
            object,
            part,
            (merge, manager),
            precondition,
            odd,
            (dry_run, delete, include_lineage),
        )| Write {
            object,
            part,
            merge,
            precondition,
            manager,
            dry_run,
            include_lineage,
            odd,
            delete,
        },
    )
}

fn bytes_of(world: &World, write: &Write) -> Vec<u8> {
    let kind = world.kind("Gizmo");
    let read = Object::from_json_value(&kind, &write.object, &DecodeOptions::default());
    let object = read.expect("JSON of the kind").object;
    let mut bytes = object.encode();
    match &write.odd {
        Odd::Nothing => {}
        Odd::Unknown => bytes.extend_from_slice(&[0xfa, 0x07, 1, b'x']),
        Odd::Twice => {
            let mut again = Object::new(&kind);
            again.set_annotation("again", "yes");
            bytes.extend_from_slice(&again.encode());
        }
        Odd::Flipped(at, by) => {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
        }
    }
    bytes
}

async fn options_of(world: &World, write: &Write) -> ApplyOptions {
    let name = write.object["metadata"]["name"].as_str().expect("it has one");
    let there = world.gizmos().get(at(name).into()).await;
    let revision = there.ok().and_then(|found| found.resource_version().parse().ok());
    let precondition = match (write.precondition, revision) {
        (Wanted::Any, _) | (Wanted::Current | Wanted::Stale, None) => Precondition::Any,
        (Wanted::Present, _) => Precondition::Present,
        (Wanted::Absent, _) => Precondition::Absent,
        (Wanted::Current, Some(revision)) => Precondition::At(revision),
        (Wanted::Stale, Some(revision)) => Precondition::At(orrery_hub::Revision(revision.0 - 1)),
    };
    ApplyOptions {
        precondition,
        part: write.part,
        merge: write.merge,
        manager: write.manager.unwrap_or_default().to_owned(),
        dry_run: write.dry_run,
        include_lineage: write.include_lineage,
        ..ApplyOptions::default()
    }
}

/// Everything that is decoded and everything that stays bytes, side by side.
struct Both {
    whole: World,
    bytes: World,
}

/// What came of it, without the identities that differ from one world to the other.
fn told(outcome: Result<Applied, Error>) -> Result<(Outcome, Value), String> {
    let applied = outcome.map_err(|error| format!("{error:?}"))?;
    Ok((applied.outcome, without_uid(&applied.object)))
}

fn without_uid(object: &Object) -> Value {
    let mut value = json_of(object);
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    value
}

impl Both {
    async fn write(&self, write: &Write) -> [Result<(Outcome, Value), String>; 2] {
        if write.delete {
            for world in [&self.whole, &self.bytes] {
                let name = write.object["metadata"]["name"].as_str().expect("it has one");
                // It may not be there, or wait for its finalizers.
                let _ = world.gizmos().delete(at(name).into()).await;
            }
        }
        // Once for both: the order of maps is another one each time.
        let sent = bytes_of(&self.whole, write);
        let options = options_of(&self.whole, write).await;
        let kind = self.whole.kind("Gizmo");
        let whole = match Object::decode(&kind, &sent) {
            Ok(object) => self.whole.gizmos().apply(object, options).await,
            Err(error) => Err(Error::BadRequest(error.to_string())),
        };
        let options = options_of(&self.bytes, write).await;
        let kind = self.bytes.kind("Gizmo");
        let given = Encoded::new(&kind, sent.into());
        let bytes = self.bytes.gizmos().apply_encoded(given, options).await;
        let bytes = bytes.map(|Applied { object, outcome }| {
            let object = object.into_object().expect("what is answered can be read");
            Applied { object, outcome }
        });
        [told(whole), told(bytes)]
    }

    async fn stored(&self) -> [Vec<Value>; 2] {
        let mut stored = [Vec::new(), Vec::new()];
        for (world, stored) in [&self.whole, &self.bytes].into_iter().zip(&mut stored) {
            let all = ListOptions { include_lineage: true, ..ListOptions::default() };
            let page = world.gizmos().list(all).await.expect("listed");
            stored.extend(page.items.iter().map(without_uid));
        }
        stored
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// proves: HUB-06
    #[test]
    fn bytes_become_what_objects_become(writes in vec(write(), 1..24), held: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let build = |builder: HubBuilder| match held {
                true => builder.held_by(GIZMO, "a.dev/y"),
                false => builder,
            };
            let both = Both { whole: World::with(build).await, bytes: World::with(build).await };
            for write in &writes {
                let [whole, bytes] = both.write(write).await;
                prop_assert_eq!(whole, bytes, "{:?}", write);
                let [whole, bytes] = both.stored().await;
                prop_assert_eq!(whole, bytes, "{:?}", write);
            }
            Ok(())
        })?;
    }
}

async fn composed(first: Value, second: Value, part: Part) -> Option<Composed> {
    let world = World::new().await;
    world.create(world.read(first)).await;
    let old = world.gizmos().get_encoded(at("a").into()).await.expect("it is there");
    let given = Encoded::from(world.read(second));
    match part {
        Part::Status => old.with_status_of(&given),
        Part::Main | Part::Scale => old.declare(&given, Some(|_| false), &[]),
    }
}

#[tokio::test]
async fn what_is_usual_needs_no_decoding() {
    let metadata = json!({"name": "a", "project": PROJECT});
    let first = json!({"metadata": metadata, "spec": {"image": "x"}});
    let status = json!({"metadata": metadata, "status": {"state": "Up"}});
    let made = composed(first.clone(), status, Part::Status).await;
    assert!(matches!(made, Some(Composed::Next(_))), "{made:?}");
    let spec = json!({"metadata": metadata, "spec": {"image": "y"}});
    let made = composed(first.clone(), spec, Part::Main).await;
    assert!(matches!(made, Some(Composed::Next(_))), "{made:?}");
    let made = composed(first.clone(), first.clone(), Part::Main).await;
    assert!(matches!(made, Some(Composed::Same)), "{made:?}");
    let wrong = json!({"metadata": metadata, "spec": {"replicas": 101}});
    let made = composed(first, wrong, Part::Main).await;
    assert!(made.is_none(), "{made:?}");
}

/// Whoever was overtaken looks again, and nobody who said no revision is told of it.
#[tokio::test]
async fn writers_of_one_object_do_not_mind_each_other() {
    let world = World::new().await;
    let metadata = json!({"name": "a", "project": PROJECT});
    world.create(world.read(json!({"metadata": metadata, "spec": {"image": "x"}}))).await;
    let gizmos = world.gizmos();
    let writes = (0..12).map(|number| {
        let status = json!({"state": "Up", "running": number + 1});
        let given = world.read(json!({"metadata": metadata, "status": status}));
        gizmos.apply_encoded(Encoded::from(given), ApplyOptions::status())
    });
    let done = futures::future::join_all(writes).await;
    let mut seen = std::collections::BTreeSet::new();
    for applied in done {
        let applied = applied.expect("it is written in the end");
        assert_eq!(applied.outcome, Outcome::Changed);
        seen.insert(applied.object.resource_version().expect("it has one").to_owned());
    }
    assert_eq!(seen.len(), 12, "each is a write of its own");
    let last = world.get("a").await;
    assert!(seen.contains(last.resource_version()));
    assert_eq!((last.generation(), json_of(&last)["spec"]["image"].clone()), (1, json!("x")));
}
