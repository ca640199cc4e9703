//! Objects that other projects read: who reads what, how it looks there, and what a watch tells.
use crate::support::{PATIENCE, PROJECT, World};
use futures::StreamExt;
use orrery_api::{Encoded, LINEAGE, Object, SHARED_FROM};
use orrery_hub::{
    Accessor, ApplyOptions, DeleteOptions, Error, GetOptions, ListOptions, ObjectName, WatchEvent,
    WatchOptions, WatchStream, explain_absence,
};
use orrery_proto::core::v1::Project;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

async fn world(projects: &[&str]) -> World {
    let world = World::new().await;
    for project in projects {
        world.create_project(project).await;
    }
    world
}

fn shared_with(projects: &[&str]) -> Value {
    let projects: Vec<Value> = projects.iter().map(|name| json!({"name": name})).collect();
    json!({"enabled": true, "projects": projects})
}

impl World {
    fn secrets(&self) -> Arc<dyn Accessor> {
        self.accessor("Secret")
    }

    fn secret(&self, project: &str, name: &str, sharing: Option<Value>) -> Object {
        let mut spec = json!({"type": project, "data": {"key": "aHVzaA=="}});
        if let Some(sharing) = sharing {
            spec["sharing"] = sharing;
        }
        self.read(json!({
            "kind": "Secret", "metadata": {"name": name, "project": project}, "spec": spec,
        }))
    }

    async fn share(&self, project: &str, name: &str, sharing: Option<Value>) -> Object {
        let secret = self.secret(project, name, sharing);
        let applied = self.secrets().apply(secret, ApplyOptions::default()).await;
        applied.expect("it can be written").object
    }

    async fn read_in(&self, project: &str, name: &str) -> Result<Object, Error> {
        let name = ObjectName::new(project, name);
        self.secrets().get(GetOptions { include_shared: true, ..name.into() }).await
    }

    /// The names that a project reads, each with the project that it is of.
    async fn listed(&self, project: &str) -> Vec<String> {
        self.paged(project, 0).await
    }

    async fn paged(&self, project: &str, limit: usize) -> Vec<String> {
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let options = ListOptions { limit, continue_from: token, ..list_in(project) };
            let page = self.secrets().list_encoded(options).await.expect("a list");
            assert!(limit == 0 || page.items.len() <= limit);
            found.extend(page.items.iter().map(said));
            token = page.continue_from;
            if token.is_none() {
                return found;
            }
        }
    }

    async fn watch_in(&self, project: &str) -> WatchStream<Encoded> {
        self.secrets().watch_encoded(watch_in(project)).await.expect("a watch")
    }
}

fn list_in(project: &str) -> ListOptions {
    ListOptions { project: Some(project.into()), include_shared: true, ..ListOptions::default() }
}

fn watch_in(project: &str) -> WatchOptions {
    WatchOptions { project: Some(project.into()), include_shared: true, ..<_>::default() }
}

/// `name@owner`.
fn said(found: &Encoded) -> String {
    let owner = found.annotation(SHARED_FROM).map(str::to_owned);
    let owner = owner.unwrap_or_else(|| found.project().expect("it has a project").to_owned());
    format!("{}@{owner}", found.name().expect("it has a name"))
}

async fn told(events: &mut WatchStream<Encoded>) -> String {
    let event = tokio::time::timeout(PATIENCE, events.next()).await.expect("an event in time");
    match event.expect("the watch goes on").expect("no error") {
        WatchEvent::Added(object) => format!("+{}", said(&object)),
        WatchEvent::Modified(object) => format!("~{}", said(&object)),
        WatchEvent::Deleted(object) => format!("-{}", said(&object)),
        WatchEvent::Bookmark(_) => "*".to_owned(),
    }
}

fn path_of(error: &Error) -> &str {
    error.violations().first().map(|violation| violation.path.as_str()).unwrap_or_default()
}

/// proves: HUB-09
#[tokio::test]
async fn it_is_read_from_the_projects_that_it_is_shared_with_and_no_other() {
    let world = world(&["b", "c"]).await;
    world.share(PROJECT, "one", Some(shared_with(&["b"]))).await;
    world.share(PROJECT, "all", Some(shared_with(&["*"]))).await;
    world.share(PROJECT, "none", Some(json!({"enabled": false}))).await;
    world.share(PROJECT, "silent", None).await;
    let own = ["all@demo", "none@demo", "one@demo", "silent@demo"];
    assert_eq!(world.listed(PROJECT).await, own);
    assert_eq!(world.listed("b").await, ["all@demo", "one@demo"]);
    assert_eq!(world.listed("c").await, ["all@demo"]);
    for (project, name, read) in [("b", "one", true), ("c", "one", false), ("c", "all", true)] {
        assert_eq!(world.read_in(project, name).await.is_ok(), read, "{project}/{name}");
    }
    assert!(matches!(world.read_in("b", "silent").await, Err(Error::NotFound { .. })));
    // Whoever does not ask for it sees what is in the project and nothing else.
    let page = world.secrets().list(ListOptions { include_shared: false, ..list_in("b") }).await;
    assert!(page.expect("a list").items.is_empty());
    assert!(world.secrets().get(ObjectName::new("b", "one").into()).await.is_err());
}

/// proves: HUB-09
#[tokio::test]
async fn it_says_there_whose_it_is_and_nothing_about_others() {
    let world = world(&["b", "c"]).await;
    let mut secret = world.secret(PROJECT, "db", Some(shared_with(&["b", "c"])));
    secret.update_meta(|meta| {
        meta.annotations
            .insert("kubectl.kubernetes.io/last-applied-configuration".into(), "x".into());
        meta.annotations.insert("note".into(), "this".into());
        meta.annotations.insert(LINEAGE.into(), "git".into());
        meta.finalizers.push("example.com/hold".into());
    });
    let options =
        ApplyOptions { manager: "kubectl".into(), include_lineage: true, ..ApplyOptions::create() };
    let there = world.apply(secret, options).await.expect("it can be written").object;
    let name = ObjectName::new("b", "db");
    let options = GetOptions { include_shared: true, include_lineage: true, ..name.into() };
    let shown = world.secrets().get(options).await.expect("it is shared");
    assert_eq!((shown.project(), shown.uid()), ("b", there.uid()));
    assert_eq!(shown.resource_version(), there.resource_version());
    let annotations = BTreeMap::from([("note", "this"), (SHARED_FROM, PROJECT)]);
    assert_eq!(shown.annotations(), annotations);
    assert!(shown.finalizers().is_empty() && !shown.is_managed());
    let sharing = shown.sharing().expect("it says so");
    assert_eq!(sharing.projects.iter().map(|it| it.name()).collect::<Vec<_>>(), ["b"]);
    assert!(there.sharing().is_some_and(|it| it.projects.len() == 2));
}

/// proves: HUB-09
#[tokio::test]
async fn what_is_its_own_comes_first_and_then_what_was_there_first() {
    let world = world(&["a", "b", "z"]).await;
    world.share("z", "db", Some(shared_with(&["b"]))).await;
    world.clock.advance(1);
    world.share("a", "db", Some(shared_with(&["*"]))).await;
    assert_eq!(world.listed("b").await, ["db@z"]);
    let mut events = world.watch_in("b").await;
    assert_eq!([told(&mut events).await, told(&mut events).await], ["+db@z", "*"]);
    // What is hidden is not heard of.
    let mut changed = world.secret("a", "db", Some(shared_with(&["*"])));
    changed.set_annotation("note", "hidden");
    world.apply(changed, ApplyOptions::default()).await.expect("it can be written");
    world.share("b", "db", None).await;
    assert_eq!([told(&mut events).await, told(&mut events).await], ["-db@z", "+db@b"]);
    world.secrets().delete(ObjectName::new("b", "db").into()).await.expect("it goes");
    assert_eq!([told(&mut events).await, told(&mut events).await], ["-db@b", "+db@z"]);
    world.secrets().delete(ObjectName::new("z", "db").into()).await.expect("it goes");
    assert_eq!([told(&mut events).await, told(&mut events).await], ["-db@z", "+db@a"]);
    assert_eq!(world.listed("b").await, ["db@a"]);
}

/// proves: HUB-09
#[tokio::test]
async fn watchers_hear_when_sharing_begins_and_ends() {
    let world = world(&["b", "c"]).await;
    let first = world.share(PROJECT, "db", None).await;
    let (mut here, mut there) = (world.watch_in("b").await, world.watch_in("c").await);
    assert_eq!([told(&mut here).await, told(&mut there).await], ["*", "*"]);
    world.share(PROJECT, "db", Some(shared_with(&["b"]))).await;
    assert_eq!(told(&mut here).await, "+db@demo");
    world.share(PROJECT, "db", Some(shared_with(&["*"]))).await;
    assert_eq!([told(&mut here).await, told(&mut there).await], ["~db@demo", "+db@demo"]);
    world.share(PROJECT, "db", Some(shared_with(&["c"]))).await;
    assert_eq!([told(&mut here).await, told(&mut there).await], ["-db@demo", "~db@demo"]);
    world.secrets().delete(ObjectName::new(PROJECT, "db").into()).await.expect("it goes");
    assert_eq!(told(&mut there).await, "-db@demo");
    // From an older revision the same is told again.
    let after = Some(first.resource_version().parse().expect("a revision"));
    let options = WatchOptions { after, ..watch_in("b") };
    let mut again = world.secrets().watch_encoded(options).await.expect("a watch");
    let again = [told(&mut again).await, told(&mut again).await, told(&mut again).await];
    assert_eq!(again, ["+db@demo", "~db@demo", "-db@demo"]);
}

#[tokio::test]
async fn a_watch_of_one_name_hears_of_that_name() {
    let world = world(&["b"]).await;
    let options = WatchOptions { name: Some("db".into()), ..watch_in("b") };
    let mut events = world.secrets().watch_encoded(options).await.expect("a watch");
    assert_eq!(told(&mut events).await, "*");
    world.share(PROJECT, "other", Some(shared_with(&["b"]))).await;
    world.share(PROJECT, "db", Some(shared_with(&["b"]))).await;
    assert_eq!(told(&mut events).await, "+db@demo");
}

/// proves: HUB-09
#[tokio::test]
async fn sharing_gives_nothing_but_reading() {
    let world = world(&["b"]).await;
    world.share(PROJECT, "db", Some(shared_with(&["b"]))).await;
    let shown = world.read_in("b", "db").await.expect("it is shared");
    let name = ObjectName::new("b", "db");
    // It names a revision of an object that is not there.
    let sent_back = world.secrets().apply(shown.clone(), ApplyOptions::default()).await;
    assert!(matches!(sent_back, Err(Error::NotFound { .. })), "{sent_back:?}");
    let mut copy = shown.clone();
    copy.update_meta(|meta| (meta.uid, meta.resource_version) = <_>::default());
    let refused = world.secrets().apply(copy.clone(), ApplyOptions::default()).await;
    let refused = refused.expect_err("it is another project's").to_string();
    assert!(refused.contains("shared by project \"demo\""), "{refused}");
    let encoded = world.secrets().apply_encoded(copy.clone().into(), ApplyOptions::default()).await;
    assert!(matches!(encoded, Err(Error::BadRequest(_))));
    let deleted = world.secrets().delete(DeleteOptions::from(name.clone())).await;
    let absent = deleted.expect_err("it is not there");
    assert!(matches!(absent, Error::NotFound { .. }));
    let explained = explain_absence(&*world.secrets(), &name, absent).await.to_string();
    assert!(explained.contains("can only be read here"), "{explained}");
    // Without the word about whose it is, it is a copy.
    copy.remove_annotation(SHARED_FROM);
    copy.set_sharing(&<_>::default());
    world.secrets().apply(copy, ApplyOptions::default()).await.expect("a copy of its own");
    assert_eq!(world.listed("b").await, ["db@b"]);
}

/// proves: HUB-08
#[tokio::test]
async fn projects_stand_by_their_ids_in_the_store() {
    let world = world(&["b"]).await;
    let projects = world.hub.resources::<Project>().expect("projects are registered");
    let b = projects.find(&ObjectName::new("", "b")).await.expect("it can be read");
    let id = b.and_then(|b| b.metadata).expect("it is there").uid;
    world.share(PROJECT, "db", Some(shared_with(&["b"]))).await;
    let snapshot = world.hub.store().snapshot().await.expect("a snapshot");
    let stored = snapshot.range("objects/core/Secret/").next().expect("one").value.clone();
    let stored = Object::decode(&world.kind("Secret"), &stored).expect("a secret");
    assert_eq!(stored.sharing().expect("it says so").projects[0].name(), id);
    for unknown in ["nowhere", &id] {
        let wrong = world.secret(PROJECT, "x", Some(shared_with(&["b", unknown])));
        let error = world.apply(wrong, ApplyOptions::default()).await.expect_err("unknown");
        assert_eq!(path_of(&error), "spec.sharing.projects[1].name", "{error}");
        assert!(error.to_string().contains("there is no project of this name"), "{error}");
    }
}

/// proves: HUB-08
#[tokio::test]
async fn a_project_that_is_made_again_does_not_inherit_what_was_shared_with_the_old_one() {
    let world = world(&["b", "c"]).await;
    world.share(PROJECT, "both", Some(shared_with(&["b", "c"]))).await;
    world.share(PROJECT, "only", Some(shared_with(&["b"]))).await;
    let projects = world.accessor("Project");
    projects.delete(ObjectName::new("", "b").into()).await.expect("it goes");
    let sharing = |object: Object| object.sharing().expect("it says so");
    let both = sharing(world.read_in(PROJECT, "both").await.expect("it is there"));
    assert_eq!(both.projects.iter().map(|it| it.name()).collect::<Vec<_>>(), ["c"]);
    let only = sharing(world.read_in(PROJECT, "only").await.expect("it is there"));
    assert!(!only.enabled() && only.projects.is_empty());
    world.create_project("b").await;
    assert!(world.listed("b").await.is_empty());
    assert_eq!(world.listed("c").await, ["both@demo"]);
    // What is read can be written.
    let mut read = world.read_in(PROJECT, "only").await.expect("it is there");
    read.set_annotation("note", "this");
    world.apply(read, ApplyOptions::default()).await.expect("it can be written");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let world = world(&["b"]).await;
    let cases = [
        (json!({"enabled": true}), "spec.sharing.projects"),
        (json!({"enabled": false, "projects": [{"name": "b"}]}), "spec.sharing.projects"),
        (json!({"projects": [{"name": "b"}]}), "spec.sharing.projects"),
        (shared_with(&["*", "b"]), "spec.sharing.projects"),
        (shared_with(&["b", "b"]), "spec.sharing.projects[1].name"),
        (shared_with(&["Not A Name"]), "spec.sharing.projects[0].name"),
        (json!({"enabled": true, "projects": [{}]}), "spec.sharing.projects[0].name"),
    ];
    for (sharing, path) in cases {
        let wrong = world.secret(PROJECT, "x", Some(sharing.clone()));
        let error = world.apply(wrong, ApplyOptions::default()).await.expect_err("refused");
        assert_eq!(path_of(&error), path, "{sharing}: {error}");
    }
}

#[tokio::test]
async fn who_reads_it_is_nothing_to_act_on() {
    let world = world(&["b"]).await;
    let first = world.share(PROJECT, "db", None).await;
    let shared = world.share(PROJECT, "db", Some(shared_with(&["b"]))).await;
    assert_eq!(shared.generation(), first.generation());
    let secrets = world.secrets();
    let given: Encoded = world.secret(PROJECT, "db", Some(shared_with(&["*"]))).into();
    let encoded = secrets.apply_encoded(given, ApplyOptions::default()).await.expect("written");
    let encoded = encoded.object.into_object().expect("a secret");
    assert_eq!(encoded.generation(), first.generation());
    assert_ne!(encoded.resource_version(), shared.resource_version());
    let other = world.read(json!({
        "kind": "Secret", "metadata": {"name": "db", "project": PROJECT},
        "spec": {"type": "new", "sharing": shared_with(&["*"])},
    }));
    let other = world.apply(other, ApplyOptions::default()).await.expect("written").object;
    assert_eq!(other.generation(), first.generation() + 1);
}

/// One step of somebody who shares, or takes back.
#[derive(Clone, Debug)]
struct Step {
    project: usize,
    name: usize,
    what: usize,
}

const PROJECTS: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 3] = ["k", "l", "m"];

fn step() -> impl Strategy<Value = Step> {
    (0..3_usize, 0..3_usize, 0..6_usize).prop_map(|(project, name, what)| Step {
        project,
        name,
        what,
    })
}

async fn take(world: &World, step: &Step) {
    let (project, name) = (PROJECTS[step.project], NAMES[step.name]);
    world.clock.advance(1);
    let sharing = match step.what {
        0 => {
            let gone = world.secrets().delete(ObjectName::new(project, name).into()).await;
            assert!(matches!(gone, Ok(_) | Err(Error::NotFound { .. })));
            return;
        }
        1 => None,
        2 => Some(shared_with(&["*"])),
        to => Some(shared_with(&[PROJECTS[to - 3]])),
    };
    world.share(project, name, sharing).await;
}

/// What a watch makes of a list: by name, the owner.
fn follow(events: &mut WatchStream<Encoded>, seen: &mut BTreeMap<String, String>) {
    use futures::FutureExt as _;
    while let Some(event) = events.next().now_or_never() {
        match event.expect("it goes on").expect("no error") {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let name = object.name().expect("a name").to_owned();
                seen.insert(name, said(&object));
            }
            WatchEvent::Deleted(object) => {
                let was = seen.remove(object.name().expect("a name"));
                assert_eq!(was, Some(said(&object)), "what goes was there");
            }
            WatchEvent::Bookmark(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is shared, taken back, hidden and deleted: get, list, list in pages and watch say the same.
    ///
    /// proves: HUB-09
    #[test]
    fn every_way_to_read_says_the_same(steps in prop::collection::vec(step(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let world = world(&PROJECTS).await;
            let mut events = world.watch_in("b").await;
            let mut seen = BTreeMap::new();
            for step in &steps {
                take(&world, step).await;
                let listed = world.listed("b").await;
                assert_eq!(listed, world.paged("b", 1).await);
                for _ in 0..64 {
                    follow(&mut events, &mut seen);
                    if seen.values().eq(&listed) {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                assert_eq!(seen.values().cloned().collect::<Vec<_>>(), listed);
                for name in NAMES {
                    let found = world.read_in("b", name).await.ok().map(Encoded::from);
                    assert_eq!(found.as_ref().map(said).as_ref(), seen.get(name));
                }
            }
        });
    }
}
