//! Where objects came from: hidden, and kept, unless somebody says otherwise.
use crate::support::{PROJECT, World, at};
use futures::StreamExt;
use orrery_api::{Encoded, LINEAGE, Object};
use orrery_hub::patch::{Patch, PatchOptions, patch};
use orrery_hub::{
    Applied, ApplyOptions, Error, GetOptions, ListOptions, Merge, Outcome, Part, StatusOptions,
    WatchEvent, WatchOptions,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// How an object is written.
#[derive(Clone, Copy, Debug)]
enum Way {
    Declared,
    Replace,
    Apply,
    Status,
    Scale,
    Patch,
    Delete,
}

#[derive(Clone, Debug)]
struct Write {
    way: Way,
    lineage: Option<&'static str>,
    replicas: i32,
    note: bool,
    include: bool,
    encoded: bool,
    dry_run: bool,
    managed: bool,
}

fn write() -> impl Strategy<Value = Write> {
    use Way::{Apply, Declared, Delete, Patch, Replace, Scale, Status};
    let ways = [
        Declared, Declared, Declared, Replace, Replace, Apply, Apply, Status, Scale, Patch, Delete,
    ];
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1), any::<bool>());
    let lineage = option::of(select(&["here", "there"][..]));
    (select(ways.to_vec()), lineage, 1..4_i32, any::<bool>(), flags).prop_map(
        |(way, lineage, replicas, note, (include, encoded, dry_run, managed))| Write {
            way,
            lineage,
            replicas,
            note,
            include,
            encoded,
            dry_run,
            managed,
        },
    )
}

impl Write {
    fn value(&self) -> Value {
        let mut annotations = json!({});
        if let Some(lineage) = self.lineage {
            annotations[LINEAGE] = json!(lineage);
        }
        if self.note {
            annotations["note"] = json!("this");
        }
        json!({
            "metadata": {"name": "a", "project": PROJECT, "annotations": annotations},
            "spec": {"replicas": self.replicas},
            "status": {"state": if self.note { "Up" } else { "Down" }},
        })
    }

    fn options(&self) -> ApplyOptions {
        let (merge, part) = match self.way {
            Way::Declared | Way::Patch | Way::Delete => (Merge::Declared, Part::Main),
            Way::Replace => (Merge::Replace, Part::Main),
            Way::Apply => (Merge::Apply, Part::Main),
            Way::Status => (Merge::Declared, Part::Status),
            Way::Scale => (Merge::Declared, Part::Scale),
        };
        let managed = self.managed || merge == Merge::Apply;
        ApplyOptions {
            merge,
            part,
            manager: if managed { "somebody".to_owned() } else { String::new() },
            force: true,
            dry_run: self.dry_run,
            include_lineage: self.include,
            ..ApplyOptions::default()
        }
    }
}

impl World {
    /// What is answered; `None` where the object is gone or never was.
    async fn do_write(&self, write: &Write) -> Option<Object> {
        let answer = match write.way {
            Way::Patch => self.do_patch(write).await,
            Way::Delete => {
                let deleted = self.gizmos().delete(at("a").into()).await;
                deleted.map(|it| Applied { object: it.object, outcome: Outcome::Gone })
            }
            _ if write.encoded => {
                let given = Encoded::from(self.read(write.value()));
                let applied = self.gizmos().apply_encoded(given, write.options()).await;
                applied.map(|Applied { object, outcome }| Applied {
                    object: object.into_object().expect("what is answered can be read"),
                    outcome,
                })
            }
            _ => self.apply(self.read(write.value()), write.options()).await,
        };
        match answer {
            Ok(applied) => Some(applied.object),
            Err(Error::NotFound { .. }) => None,
            Err(error) => panic!("{write:?}: {error}"),
        }
    }

    async fn do_patch(&self, write: &Write) -> Result<Applied, Error> {
        let change = Patch::merge(json!({
            "metadata": {"annotations": {LINEAGE: write.lineage}},
            "spec": {"replicas": write.replicas},
        }))?;
        let options = PatchOptions {
            include_lineage: write.include,
            dry_run: write.dry_run,
            ..PatchOptions::default()
        };
        patch(&*self.gizmos(), &at("a"), &change, &options).await.map(|it| it.applied)
    }

    /// The object as every read tells it; all of them the same, or it is an error.
    async fn told(&self, include_lineage: bool) -> Vec<Option<String>> {
        let gizmos = self.gizmos();
        let get = || GetOptions { name: at("a"), include_lineage, ..GetOptions::default() };
        let list = || ListOptions { include_lineage, ..ListOptions::default() };
        let watch = || WatchOptions { include_lineage, ..WatchOptions::default() };
        let status = StatusOptions { name: at("a"), include_lineage, ..StatusOptions::default() };
        let mut objects = vec![
            gizmos.get(get()).await.expect("it is there"),
            gizmos.status(status).await.expect("it is there"),
            bytes(&gizmos.get_encoded(get()).await.expect("it is there"), include_lineage),
            gizmos.list(list()).await.expect("listed").items.remove(0),
            bytes(&gizmos.list_encoded(list()).await.expect("listed").items[0], include_lineage),
        ];
        let mut events = gizmos.watch(watch()).await.expect("watched");
        if let Some(Ok(WatchEvent::Added(object))) = events.next().await {
            objects.push(object);
        }
        let mut events = gizmos.watch_encoded(watch()).await.expect("watched");
        if let Some(Ok(WatchEvent::Added(found))) = events.next().await {
            objects.push(bytes(&found, include_lineage));
        }
        assert_eq!(objects.len(), 7, "each way tells it");
        let managed = |object: &Object| format!("{:?}", object.meta().managed_fields);
        assert!(objects.iter().all(|it| !managed(it).contains(LINEAGE)), "nobody manages it");
        objects.iter().map(|object| object.lineage().map(str::to_owned)).collect()
    }
}

/// Not even the bytes speak of it.
fn bytes(found: &Encoded, include: bool) -> Object {
    let holds = found.bytes().windows(LINEAGE.len()).any(|part| part == LINEAGE.as_bytes());
    assert!(include || !holds);
    found.object().expect("it can be read").clone()
}

/// What the seed says of it.
fn expected(there: bool, old: Option<&'static str>, write: &Write) -> Option<&'static str> {
    match (write.way, write.include) {
        (Way::Status | Way::Scale, _) if there => old,
        (_, true) => write.lineage,
        (_, false) if there => old,
        (_, false) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// proves: HUB-16
    #[test]
    fn without_the_flag_no_read_shows_it_and_no_write_changes_it(
        writes in vec(write(), 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let world = World::new().await;
            let (mut there, mut lineage) = (false, None);
            for write in &writes {
                let Some(answer) = world.do_write(write).await else { continue };
                if !write.include || matches!(write.way, Way::Delete) {
                    prop_assert_eq!(answer.lineage(), None, "{:?}", write);
                }
                if matches!(write.way, Way::Delete) {
                    (there, lineage) = (false, None);
                    continue;
                }
                if write.dry_run {
                    continue;
                }
                lineage = expected(there, lineage, write);
                there = true;
                let hidden = world.told(false).await;
                prop_assert!(hidden.iter().all(Option::is_none), "{:?}", write);
                let told = world.told(true).await;
                prop_assert!(told.iter().all(|it| it.as_deref() == lineage), "{:?} {:?}", write, told);
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_watcher_of_changes_sees_it_only_when_it_asks() {
    let world = World::new().await;
    let asked = WatchOptions { include_lineage: true, ..WatchOptions::default() };
    let (mut all, mut some) =
        (world.watch(asked).await, world.watch(WatchOptions::default()).await);
    assert_eq!((all.next().await.as_str(), some.next().await.as_str()), ("*", "*"));
    let mut object = world.gizmo("a", json!({}));
    object.set_lineage(Some("here"));
    let options = ApplyOptions { include_lineage: true, ..ApplyOptions::create() };
    world.apply(object, options).await.expect("created");
    for (watched, expect) in [(&mut all, Some("here")), (&mut some, None)] {
        let event = watched.event().await.expect("no error");
        let WatchEvent::Added(object) = event else { panic!("{event:?}") };
        assert_eq!(object.lineage(), expect);
    }
}
