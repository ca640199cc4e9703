//! What is kept of a kind that another hub has, and what is not.
use crate::support::{GIZMO, World, at};
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, Object};
use orrery_hub::cache::{Alone, Cache, CacheOptions, Missed, Replicas};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Deleted, Error, GetOptions, ListOptions,
    Outcome, Page, StatusOptions, Upstream, WatchOptions, WatchStream,
};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_store::{Store, StoreOptions, memory};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const EXPIRY: Duration = Duration::from_secs(30);

/// The way to the other hub: counts what is read there, and holds answers back while it is shut.
struct Way {
    there: Arc<dyn Accessor>,
    reads: AtomicUsize,
    open: watch::Sender<bool>,
}

impl Way {
    async fn answer<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let opened = self.open.subscribe().wait_for(|open| *open).await.map(|_| ());
        opened.expect("the way is there");
        answer
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Waits until so many reads have been answered there.
    async fn until_read(&self, count: usize) {
        while self.reads() < count {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Accessor for Way {
    fn kind(&self) -> &Arc<Kind> {
        self.there.kind()
    }
    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.answer(self.there.get(options).await).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.answer(self.there.list(options).await).await
    }
    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        self.there.apply(object, options).await
    }
    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        self.there.delete(options).await
    }
    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.there.status(options).await
    }
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        self.there.watch(options).await
    }
}

/// A centre, and servers of a site on one store that have their gizmos there.
struct Sites {
    centre: World,
    way: Arc<Way>,
    store: Store,
}

impl Sites {
    async fn new() -> Self {
        let centre = World::new().await;
        let store = Store::start(memory(), StoreOptions::default()).await.expect("a store");
        let (there, reads, open) = (centre.gizmos(), AtomicUsize::new(0), watch::Sender::new(true));
        Self { centre, way: Arc::new(Way { there, reads, open }), store }
    }

    fn server(&self, replicas: Arc<dyn Replicas>) -> World {
        let options = CacheOptions { bytes_max: 1 << 20, expiry: EXPIRY };
        World::on(self.store.clone(), |builder| {
            let accessor: Arc<dyn Accessor> = self.way.clone();
            let cache = Cache::new(accessor.clone(), options, builder.store(), replicas);
            let address = "http://centre:1".to_owned();
            builder.upstream(GIZMO, Upstream { address, accessor, cache: Some(cache) })
        })
    }

    async fn write(&self, image: &str) {
        let object = self.centre.gizmo("a", json!({"image": image}));
        self.centre.apply(object, ApplyOptions::default()).await.expect("it is written");
    }
}

fn image(object: &Object) -> String {
    let value = object.to_json_value(&<_>::default());
    value["spec"]["image"].as_str().unwrap_or_default().to_owned()
}

/// proves: HUB-14
#[tokio::test]
async fn many_who_want_one_thing_ask_once() {
    let sites = Sites::new().await;
    sites.write("x").await;
    let site = sites.server(Arc::new(Alone));
    sites.way.open.send_replace(false);
    let gizmos = site.gizmos();
    let asking = (0..10).map(|_| gizmos.get(at("a").into()));
    let asking = futures::future::join_all(asking);
    let opening = async {
        sites.way.until_read(1).await;
        sites.way.open.send_replace(true);
    };
    let (found, ()) = futures::join!(asking, opening);
    assert!(found.iter().all(|found| image(found.as_ref().expect("it is there")) == "x"));
    site.get("a").await;
    assert_eq!(sites.way.reads(), 1);
    for _ in 0..3 {
        assert_eq!(site.names(ListOptions::default()).await, ["a"]);
    }
    assert_eq!(sites.way.reads(), 2);
}

/// proves: HUB-14
#[tokio::test]
async fn an_answer_from_before_a_change_is_not_kept() {
    let sites = Sites::new().await;
    sites.write("old").await;
    let site = sites.server(Arc::new(Alone));
    sites.way.open.send_replace(false);
    let gizmos = site.gizmos();
    let changing = async {
        sites.way.until_read(1).await;
        sites.write("new").await;
        site.hub.storage("gizmos").expect("it is registered").changed(&at("a"));
        sites.way.open.send_replace(true);
    };
    let (found, ()) = futures::join!(gizmos.get(at("a").into()), changing);
    assert_eq!(image(&found.expect("it is there")), "old", "it was asked for before");
    assert_eq!(image(&site.get("a").await), "new");
    assert_eq!(sites.way.reads(), 2);
}

/// proves: HUB-14
#[tokio::test]
async fn a_write_through_one_server_is_read_through_all() {
    let sites = Sites::new().await;
    sites.write("x").await;
    let (one, two) = (sites.server(Arc::new(Alone)), sites.server(Arc::new(Alone)));
    for server in [&one, &two] {
        assert_eq!(image(&server.get("a").await), "x");
        assert_eq!(server.names(ListOptions::default()).await, ["a"]);
    }
    let reads = sites.way.reads();
    let dry = ApplyOptions { dry_run: true, ..ApplyOptions::default() };
    one.apply(one.gizmo("a", json!({"image": "dry"})), dry).await.expect("it would be");
    two.get("a").await;
    assert_eq!(sites.way.reads(), reads, "nothing was written");
    one.apply(one.gizmo("a", json!({"image": "y"})), ApplyOptions::default())
        .await
        .expect("written");
    one.apply(one.gizmo("b", json!({})), ApplyOptions::default()).await.expect("written");
    for server in [&two, &one] {
        assert_eq!(image(&server.get("a").await), "y");
        assert_eq!(server.names(ListOptions::default()).await, ["a", "b"]);
    }
    two.gizmos().delete(at("a").into()).await.expect("deleted");
    for server in [&one, &two] {
        let absent = server.gizmos().get(at("a").into()).await.expect_err("it is gone");
        assert!(matches!(absent, Error::NotFound { .. }), "{absent}");
        assert_eq!(server.names(ListOptions::default()).await, ["b"]);
    }
}

/// Clients repeat by themselves what they are told was not done.
///
/// proves: HUB-14
#[tokio::test]
async fn what_was_written_and_cannot_be_told_is_not_said_to_have_failed() {
    let sites = Sites::new().await;
    let site = sites.server(Arc::new(Alone));
    sites.store.engine().close().await;
    let made = site.apply(site.gizmo("a", json!({})), ApplyOptions::create()).await;
    let error = made.expect_err("its own store is closed");
    assert!(matches!(error, Error::Uncertain(_)), "{error:?}");
    sites.centre.get("a").await;
}

/// proves: HUB-14
#[tokio::test(start_paused = true)]
async fn nothing_is_used_after_it_expired() {
    let sites = Sites::new().await;
    sites.write("old").await;
    let site = sites.server(Arc::new(Alone));
    site.get("a").await;
    sites.write("new").await;
    tokio::time::advance(EXPIRY - Duration::from_millis(1)).await;
    assert_eq!(image(&site.get("a").await), "old", "nobody told of a change");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(image(&site.get("a").await), "new");
}

/// proves: HUB-14
#[tokio::test]
async fn what_went_wrong_and_parts_of_lists_are_not_kept() {
    let sites = Sites::new().await;
    let site = sites.server(Arc::new(Alone));
    for count in 1..3 {
        site.gizmos().get(at("a").into()).await.expect_err("there is none");
        assert_eq!(sites.way.reads(), count);
    }
    sites.write("x").await;
    assert_eq!(image(&site.get("a").await), "x");
    sites.centre.create(sites.centre.gizmo("b", json!({}))).await;
    let reads = sites.way.reads();
    for count in 1..3 {
        let first = ListOptions { limit: 1, ..ListOptions::default() };
        let page = site.gizmos().list(first.clone()).await.expect("a part");
        let next = ListOptions { continue_from: page.continue_from, ..first };
        site.gizmos().list(next).await.expect("the rest");
        assert_eq!(sites.way.reads(), reads + 2 * count);
    }
}

/// Another server, as one sees it.
struct Other {
    there: Option<Arc<Cache>>,
}

#[async_trait]
impl Replicas for Other {
    fn owner(&self, _: &str) -> Option<String> {
        Some("other".to_owned())
    }
    async fn get(&self, _: &str, _: &Arc<Kind>, options: GetOptions) -> Result<Encoded, Missed> {
        let there = self.there.as_ref().ok_or_else(|| Missed::Unreachable("away".into()))?;
        there.get_here(options).await.map_err(Missed::Refused)
    }
    async fn list(
        &self,
        _: &str,
        _: &Arc<Kind>,
        options: ListOptions,
    ) -> Result<Page<Encoded>, Missed> {
        let there = self.there.as_ref().ok_or_else(|| Missed::Unreachable("away".into()))?;
        there.list_here(options).await.map_err(Missed::Refused)
    }
}

fn kept(world: &World) -> usize {
    let storage = world.hub.storage("gizmos").expect("it is registered");
    let figures = storage.cache().expect("it has a cache").figures();
    figures.iter().map(|(_, figures)| figures.entries).sum()
}

/// proves: HUB-14
#[tokio::test]
async fn an_answer_is_kept_by_its_owner_only() {
    let sites = Sites::new().await;
    sites.write("x").await;
    let owner = sites.server(Arc::new(Alone));
    let there = owner.hub.storage("gizmos").and_then(|storage| storage.cache()).cloned();
    let asks = sites.server(Arc::new(Other { there }));
    for _ in 0..3 {
        assert_eq!(image(&asks.get("a").await), "x");
        assert_eq!(asks.names(ListOptions::default()).await, ["a"]);
    }
    assert_eq!((sites.way.reads(), kept(&asks), kept(&owner)), (2, 0, 2));
    asks.apply(asks.gizmo("a", json!({"image": "y"})), ApplyOptions::default()).await.expect("ok");
    assert_eq!(image(&owner.get("a").await), "y", "who writes need not own");

    let alone = sites.server(Arc::new(Other { there: None }));
    let reads = sites.way.reads();
    for count in 1..3 {
        assert_eq!(image(&alone.get("a").await), "y");
        assert_eq!(
            (sites.way.reads(), kept(&alone)),
            (reads + count, 0),
            "past an owner who is away"
        );
    }
}

/// Readers beside a writer, through servers that keep answers and one that asks another: whatever was answered to the
/// writer before a read began, the read shows.
///
/// proves: HUB-14
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_read_is_older_than_a_write_that_was_answered() {
    const WRITES: usize = 150;
    let sites = Sites::new().await;
    sites.write("0").await;
    let (one, two) = (sites.server(Arc::new(Alone)), sites.server(Arc::new(Alone)));
    let there = one.hub.storage("gizmos").and_then(|storage| storage.cache()).cloned();
    let three = sites.server(Arc::new(Other { there }));
    let servers = Arc::new([one, two, three]);
    let answered = Arc::new(AtomicUsize::new(0));
    let number = |object: &Object| image(object).parse::<usize>().expect("a number");
    let readers = (0..6).map(|reader| {
        let (servers, answered) = (servers.clone(), answered.clone());
        tokio::spawn(async move {
            let mut reads = 0;
            while answered.load(Ordering::SeqCst) < WRITES {
                let server = &servers[reader % 3];
                let before = answered.load(Ordering::SeqCst);
                let found = server.get("a").await;
                assert!(before <= number(&found), "{before} was answered: {}", number(&found));
                let before = answered.load(Ordering::SeqCst);
                let listed = server.gizmos().list(ListOptions::default()).await.expect("a list");
                assert!(
                    before <= number(&listed.items[0]),
                    "{before} was answered before the list"
                );
                reads += 1;
                // What is kept is answered at once: others have their turn in between.
                tokio::task::yield_now().await;
            }
            reads
        })
    });
    let readers: Vec<_> = readers.collect();
    for write in 1..=WRITES {
        let server = &servers[write % 3];
        let object = server.gizmo("a", json!({"image": write.to_string()}));
        server.apply(object, ApplyOptions::default()).await.expect("it is written");
        answered.store(write, Ordering::SeqCst);
    }
    for reader in readers {
        assert!(0 < reader.await.expect("no read is too old"));
    }
}

/// proves: HUB-15
#[tokio::test]
async fn storages_are_found_by_name() {
    let sites = Sites::new().await;
    let site = sites.server(Arc::new(Alone));
    let found = site.hub.storage("gizmos").expect("by its plural");
    assert_eq!(found.kind().full_name(), GIZMO);
    assert_eq!(found.upstream().map(|there| there.address.as_str()), Some("http://centre:1"));
    let full = found.kind().qualified_plural();
    assert!(site.hub.storage(&full).is_some_and(|it| it.kind() == found.kind()));
    assert!(site.hub.storage("projects").is_some_and(|it| it.upstream().is_none()));
    assert!(site.hub.storage("gizmo").is_none(), "a singular is no storage");
    let local: Vec<_> = site.hub.accessors().map(|it| it.kind().full_name().to_owned()).collect();
    assert!(!local.contains(&GIZMO.to_owned()) && local.len() + 1 == site.hub.storages().count());
}

/// What acts by itself at a site leaves the objects of the centre alone.
#[tokio::test]
async fn parts_of_a_server_read_what_others_keep() {
    let sites = Sites::new().await;
    sites.write("x").await;
    let site = sites.server(Arc::new(Alone));
    let parts = site.hub.for_parts();
    let gizmos = parts.accessor(&site.kind("Gizmo")).expect("a kind");
    let found = gizmos.get(at("a").into()).await.expect("it is read");
    let status = gizmos.apply(found.clone(), ApplyOptions::status()).await.expect("no failure");
    assert_eq!((status.outcome, &status.object), (Outcome::Unchanged, &found));
    let mut changed = found.clone();
    changed.update_meta(|meta: &mut ObjectMeta| meta.finalizers.push("x/y".into()));
    let refused = gizmos.apply(changed, ApplyOptions::default()).await.expect_err("not by parts");
    assert!(refused.to_string().contains("http://centre:1"), "{refused}");
    let refused = gizmos.delete(at("a").into()).await.expect_err("not by parts");
    assert!(matches!(refused, Error::Forbidden(_)), "{refused}");
    assert_eq!(sites.centre.get("a").await, found, "nothing happened to it");
    site.gizmos().delete(at("a").into()).await.expect("whoever asks may");
}
