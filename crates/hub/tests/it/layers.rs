//! Accessors wrapped by layers, and accessors that talk to something else.
use crate::support::{GIZMO, World, at};
use async_trait::async_trait;
use futures::StreamExt;
use orrery_api::{Kind, Object};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Deleted, Error, GetOptions, ListOptions,
    ObjectName, Outcome, Page, Revision, StatusOptions, WatchOptions, WatchStream,
};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

type Log = Arc<Mutex<Vec<String>>>;

/// Notes what passes it, in and out.
struct Noting {
    inner: Arc<dyn Accessor>,
    name: &'static str,
    log: Log,
}

impl Noting {
    fn note<T>(&self, call: &str, answer: Result<T, Error>) -> Result<T, Error> {
        self.log.lock().push(format!("{}<{call}", self.name));
        answer
    }

    fn enter(&self, call: &str) {
        self.log.lock().push(format!("{}>{call}", self.name));
    }
}

#[async_trait]
impl Accessor for Noting {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }
    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.enter("get");
        self.note("get", self.inner.get(options).await)
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.enter("list");
        self.note("list", self.inner.list(options).await)
    }
    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        self.enter("apply");
        self.note("apply", self.inner.apply(object, options).await)
    }
    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        self.enter("delete");
        self.note("delete", self.inner.delete(options).await)
    }
    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.enter("status");
        self.note("status", self.inner.status(options).await)
    }
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        self.enter("watch");
        self.note("watch", self.inner.watch(options).await)
    }
}

fn noting(
    name: &'static str,
    log: &Log,
) -> impl Fn(Arc<dyn Accessor>) -> Arc<dyn Accessor> + use<> {
    let log = log.clone();
    move |inner| Arc::new(Noting { inner, name, log: log.clone() })
}

/// proves: HUB-07
#[tokio::test]
async fn layers_wrap_in_the_order_they_are_added_and_only_their_kind() {
    let log = Log::default();
    let world = World::with(|builder| {
        builder.layer(GIZMO, noting("first", &log)).layer(GIZMO, noting("second", &log))
    })
    .await;
    assert!(log.lock().is_empty(), "projects are another kind");
    let taken = || std::mem::take(&mut *log.lock());
    let both = |call: &str| {
        [
            format!("second>{call}"),
            format!("first>{call}"),
            format!("first<{call}"),
            format!("second<{call}"),
        ]
    };
    world.create(world.gizmo("a", json!({}))).await;
    assert_eq!(taken(), [both("get"), both("apply")].concat(), "admission stands outside");
    world.get("a").await;
    assert_eq!(taken(), both("get"));
    world.gizmos().list(ListOptions::default()).await.expect("a list");
    assert_eq!(taken(), both("list"));
    world.gizmos().status(at("a").into()).await.expect("a status");
    assert_eq!(taken(), both("status"));
    let _watch = world.watch(WatchOptions::default()).await;
    assert_eq!(taken(), both("watch"));
    world.gizmos().delete(at("a").into()).await.expect("deleted");
    assert_eq!(taken(), [both("get"), both("delete")].concat());
}

/// proves: HUB-07
#[tokio::test]
async fn a_layer_can_refuse() {
    struct Frozen(Arc<dyn Accessor>);
    #[async_trait]
    impl Accessor for Frozen {
        fn kind(&self) -> &Arc<Kind> {
            self.0.kind()
        }
        async fn get(&self, options: GetOptions) -> Result<Object, Error> {
            self.0.get(options).await
        }
        async fn list(&self, options: ListOptions) -> Result<Page, Error> {
            self.0.list(options).await
        }
        async fn apply(&self, _: Object, _: ApplyOptions) -> Result<Applied, Error> {
            Err(Error::Forbidden("frozen".into()))
        }
        async fn delete(&self, _: DeleteOptions) -> Result<Deleted, Error> {
            Err(Error::Forbidden("frozen".into()))
        }
        async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
            self.0.status(options).await
        }
        async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
            self.0.watch(options).await
        }
    }
    let freeze = |inner: Arc<dyn Accessor>| Arc::new(Frozen(inner)) as Arc<dyn Accessor>;
    let world = World::with(|builder| builder.layer(GIZMO, freeze)).await;
    for dry_run in [true, false] {
        let options = ApplyOptions { dry_run, ..ApplyOptions::create() };
        let refused = world.apply(world.gizmo("a", json!({})), options).await;
        assert_eq!(refused.expect_err("frozen").to_string(), "frozen");
    }
}

/// Another service: a map that counts its changes.
struct Elsewhere {
    kind: Arc<Kind>,
    objects: Mutex<(u64, BTreeMap<ObjectName, Object>)>,
}

#[async_trait]
impl Accessor for Elsewhere {
    fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }
    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        let ObjectName { project, name } = options.name.clone();
        let found = self.objects.lock().1.get(&options.name).cloned();
        found.ok_or_else(|| Error::NotFound { kind: self.kind.qualified_plural(), project, name })
    }
    async fn list(&self, _: ListOptions) -> Result<Page, Error> {
        let (revision, objects) = &*self.objects.lock();
        let items = objects.values().cloned().collect();
        Ok(Page { items, revision: Revision(*revision), continue_from: None, remaining: None })
    }
    async fn apply(&self, mut object: Object, _: ApplyOptions) -> Result<Applied, Error> {
        let (revision, objects) = &mut *self.objects.lock();
        *revision += 1;
        object.update_meta(|meta| meta.resource_version = revision.to_string());
        let old = objects.insert(ObjectName::of(&object), object.clone());
        let outcome = if old.is_some() { Outcome::Changed } else { Outcome::Created };
        Ok(Applied { object, outcome })
    }
    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let object = self.get(options.name.clone().into()).await?;
        self.objects.lock().1.remove(&options.name);
        Ok(Deleted { object, gone: true })
    }
    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.get(options.name.into()).await
    }
    async fn watch(&self, _: WatchOptions) -> Result<WatchStream, Error> {
        Ok(futures::stream::pending().boxed())
    }
}

/// proves: HUB-06
#[tokio::test]
async fn a_kind_can_be_served_from_elsewhere() {
    let kind = crate::support::scheme().resolve("", "Gizmo").expect("a kind");
    let elsewhere = Arc::new(Elsewhere { kind, objects: Mutex::default() });
    let world = World::with(|builder| builder.serve(GIZMO, elsewhere.clone())).await;
    let created = world.create(world.gizmo("a", json!({"image": "x"}))).await;
    assert_eq!(created.generation(), 1, "admission holds for it as for every kind");
    let invalid = world.apply(world.gizmo("a", json!({"replicas": 101})), ApplyOptions::default());
    assert_eq!(invalid.await.expect_err("too many").reason(), "Invalid");
    assert_eq!(world.names(ListOptions::default()).await, ["a"]);
    assert_eq!(elsewhere.objects.lock().1.len(), 1);
    let snapshot = world.hub.store().snapshot().await.expect("a snapshot");
    assert_eq!(snapshot.range("objects/fixture/").count(), 0, "nothing of it is in the store");
    world.gizmos().delete(at("a").into()).await.expect("deleted");
    assert!(elsewhere.objects.lock().1.is_empty());
}
