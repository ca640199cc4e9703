//! All accessors of a server, found by kind.
use crate::accessor::{Accessor, Layer};
use crate::cache::Cached;
use crate::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::index::ObjectTerms;
use crate::keys::Keys;
use crate::layers::admission::{Admission, OnWrite};
use crate::layers::fence::Fence;
use crate::layers::hydrate::Hydrate;
use crate::layers::lineage::Lineage;
use crate::layers::sharing::Sharing;
use crate::layers::spectator::Spectator;
use crate::layers::versions::Versions;
use crate::parts::PartsAccessor;
use crate::projects::Projects;
use crate::recent::Recent;
use crate::storages::{self, Storage, Upstream};
use crate::store_accessor::StoreAccessor;
use crate::typed::Resources;
use orrery_api::{Kind, Scheme};
use orrery_store::{Lease, Store};
use std::collections::HashMap;
use std::sync::Arc;

/// The message that defines a project; the one kind the hub itself must know.
const PROJECT: &str = "orrery.core.v1.Project";

/// The hub of one server. Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    scheme: Arc<Scheme>,
    store: Store,
    clock: Arc<dyn Clock>,
    /// By the full name of the message of their kind.
    storages: foldhash::HashMap<String, Storage>,
    recent: Vec<Arc<Recent>>,
}

impl Hub {
    pub fn builder(scheme: Arc<Scheme>, store: Store) -> HubBuilder {
        HubBuilder {
            scheme,
            store,
            clock: Arc::new(SystemClock),
            holds: HashMap::new(),
            on_write: HashMap::new(),
            layers: HashMap::new(),
            replaced: HashMap::new(),
            upstreams: HashMap::new(),
            recent: Vec::new(),
        }
    }

    /// A hub on a store in memory that is gone with it, for tests.
    pub async fn in_memory(scheme: Arc<Scheme>) -> Result<HubBuilder, Error> {
        let options = orrery_store::StoreOptions {
            terms: Some(Arc::new(ObjectTerms::new(&scheme))),
            ..orrery_store::StoreOptions::default()
        };
        let store = Store::start(orrery_store::memory(), options).await;
        Ok(Self::builder(scheme, store.map_err(crate::refusal::from_store)?))
    }

    pub fn scheme(&self) -> &Arc<Scheme> {
        &self.inner.scheme
    }

    /// Forgets what was kept for watchers and was not asked for since the last call. To be called now and
    /// then; nothing else depends on it.
    pub fn rest(&self) {
        self.inner.recent.iter().for_each(|recent| recent.rest());
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The same hub for one who acts alone: what it writes is refused by the store once the lease
    /// has ended.
    pub fn fenced(&self, lease: &Lease) -> Self {
        self.with(|storage| Arc::new(Fence::new(storage.accessor.clone(), lease.fence())))
    }

    /// The same hub for the parts of this server that act by themselves: what another service keeps they read, and do
    /// not write.
    pub fn for_parts(&self) -> Self {
        self.with(|storage| match storage.upstream() {
            Some(upstream) => Arc::new(Spectator::new(storage.accessor.clone(), &upstream.address)),
            None => storage.accessor.clone(),
        })
    }

    fn with(&self, wrap: impl Fn(&Storage) -> Arc<dyn Accessor>) -> Self {
        let wrapped = |storage: &Storage| Storage {
            accessor: wrap(storage),
            elsewhere: storage.elsewhere.clone(),
        };
        let storages = self.inner.storages.iter();
        let inner = Inner {
            scheme: self.inner.scheme.clone(),
            store: self.inner.store.clone(),
            clock: self.inner.clock.clone(),
            storages: storages.map(|(kind, storage)| (kind.clone(), wrapped(storage))).collect(),
            recent: self.inner.recent.clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The accessor of a kind.
    pub fn accessor(&self, kind: &Kind) -> Result<&Arc<dyn Accessor>, Error> {
        let found = self.inner.storages.get(kind.full_name()).map(Storage::accessor);
        found.ok_or_else(|| Error::BadRequest(format!("{} cannot be accessed", kind.kind())))
    }

    /// Every accessor whose objects are in the store of this server. What looks after everything that is here has
    /// nothing to do with what others keep.
    pub fn accessors(&self) -> impl Iterator<Item = &Arc<dyn Accessor>> {
        self.storages().filter(|it| it.upstream().is_none()).map(Storage::accessor)
    }

    /// The storage of a name: the plural of its kind.
    pub fn storage(&self, name: &str) -> Option<&Storage> {
        storages::find(self.storages(), name)
    }

    /// Every storage.
    pub fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.inner.storages.values()
    }

    /// Where the objects of a kind are kept, if that is not the store of this server.
    pub fn upstream_of(&self, kind: &Kind) -> Option<&Upstream> {
        self.inner.storages.get(kind.full_name())?.upstream()
    }

    /// The resources of a kind as Rust types.
    pub fn resources<T: prost::Message + prost::Name + Default>(
        &self,
    ) -> Result<Resources<T>, Error> {
        let kind = self.inner.scheme.kind_of::<T>();
        let kind = kind.map_err(|error| Error::BadRequest(error.to_string()))?;
        Ok(Resources::new(self.accessor(&kind)?.clone()))
    }
}

/// Says what the accessors of a hub are made of.
pub struct HubBuilder {
    scheme: Arc<Scheme>,
    store: Store,
    clock: Arc<dyn Clock>,
    holds: HashMap<String, Vec<&'static str>>,
    on_write: HashMap<String, OnWrite>,
    layers: HashMap<String, Vec<Arc<dyn Layer>>>,
    replaced: HashMap<String, Arc<dyn Accessor>>,
    upstreams: HashMap<String, Arc<Upstream>>,
    recent: Vec<Arc<Recent>>,
}

impl HubBuilder {
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The finalizer that every object of a kind has from its creation until it is deleted and what it
    /// stands for is undone. `message` is the full name of the kind's message.
    pub fn held_by(mut self, message: &str, finalizer: &'static str) -> Self {
        self.holds.entry(message.to_owned()).or_default().push(finalizer);
        self
    }

    /// Brings what is given into the form that is kept, before anything else looks at it.
    pub fn on_write(mut self, message: &str, hook: OnWrite) -> Self {
        self.on_write.insert(message.to_owned(), hook);
        self
    }

    /// Puts a layer around the accessor of a kind, inside of admission; the last one added is the
    /// outermost.
    pub fn layer(mut self, message: &str, layer: impl Layer + 'static) -> Self {
        self.layers.entry(message.to_owned()).or_default().push(Arc::new(layer));
        self
    }

    /// Serves a kind by what another hub keeps. What an object must be like and what becomes of it is decided there,
    /// so nothing is admitted, hydrated or held here.
    pub fn upstream(mut self, message: &str, upstream: Upstream) -> Self {
        self.upstreams.insert(message.to_owned(), Arc::new(upstream));
        self
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn scheme(&self) -> &Arc<Scheme> {
        &self.scheme
    }

    /// Serves a kind by an accessor of its own that only keeps objects, such as one that talks to another store.
    pub fn serve(mut self, message: &str, accessor: Arc<dyn Accessor>) -> Self {
        self.replaced.insert(message.to_owned(), accessor);
        self
    }

    pub fn build(mut self) -> Result<Hub, Error> {
        let projects = Arc::new(self.projects()?);
        let kinds: Vec<Arc<Kind>> =
            self.scheme.all_kinds().filter(|kind| kind.spoke_of().is_none()).cloned().collect();
        let mut storages = foldhash::HashMap::default();
        for kind in kinds {
            self.check_stored_plainly(&kind)?;
            let message = kind.full_name().to_owned();
            let elsewhere = self.upstreams.get(&message).cloned();
            let accessor = match &elsewhere {
                Some(upstream) => {
                    self.warn_of_hidden(&kind, &upstream.address);
                    self.stack_elsewhere(&message, upstream)
                }
                None => self.stack(kind, &projects),
            };
            storages.insert(message, Storage { accessor, elsewhere });
        }
        let Self { scheme, store, clock, recent, .. } = self;
        Ok(Hub { inner: Arc::new(Inner { scheme, store, clock, storages, recent }) })
    }

    /// What is shared or kept in versions is looked for where the objects of the store are.
    fn check_stored_plainly(&self, kind: &Kind) -> Result<(), Error> {
        let elsewhere = self.replaced.contains_key(kind.full_name())
            || self.upstreams.contains_key(kind.full_name())
            || self.scheme.spokes(kind).iter().any(|it| it.parts.iter().all(|it| it.internal()));
        if !elsewhere || !(kind.shareable() || kind.versioned()) {
            return Ok(());
        }
        let kind = kind.full_name();
        let text = format!(
            "{kind} can be shared or has versions, so its objects must be kept as they are"
        );
        Err(Error::Internal(text))
    }

    fn projects(&self) -> Result<Projects, Error> {
        let kind = self.scheme.all_kinds().find(|kind| kind.full_name() == PROJECT);
        let kind = kind.ok_or_else(|| Error::Internal(format!("{PROJECT} is not registered")))?;
        let keys = Keys::of(kind, self.scheme.group_suffix());
        Ok(Projects::new(kind.clone(), keys, self.store.clone()))
    }

    /// What the store has of a kind from before comes back when nobody else keeps it any more.
    fn warn_of_hidden(&self, kind: &Kind, upstream: &str) {
        let keys = Keys::of(kind, self.scheme.group_suffix());
        let hidden = self.store.snapshot_now().range(keys.all()).count();
        if 0 < hidden {
            let kind = kind.plural();
            tracing::warn!(
                kind,
                hidden,
                upstream,
                "what this server's store has of a kind is not shown, for another server keeps it"
            );
        }
    }

    /// Around what another hub keeps: the cache, the layers of the kind, and where objects came from stays hidden.
    fn stack_elsewhere(&mut self, message: &str, upstream: &Upstream) -> Arc<dyn Accessor> {
        let innermost: Arc<dyn Accessor> = match &upstream.cache {
            Some(cache) => Arc::new(Cached::new(cache.clone())),
            None => upstream.accessor.clone(),
        };
        let layers = self.layers.remove(message).unwrap_or_default();
        Arc::new(Lineage::new(layers.iter().fold(innermost, |inner, layer| layer.wrap(inner))))
    }

    fn stack(&mut self, kind: Arc<Kind>, projects: &Arc<Projects>) -> Arc<dyn Accessor> {
        let message = kind.full_name().to_owned();
        let keys = Keys::of(&kind, self.scheme.group_suffix());
        let innermost = self.replaced.remove(&message).unwrap_or_else(|| {
            let stored = self.stored(kind, keys, projects);
            Arc::new(Hydrate::new(stored, projects.clone()))
        });
        let layers = self.layers.remove(&message).unwrap_or_default();
        let layered = layers.iter().fold(innermost, |inner, layer| layer.wrap(inner));
        let holds = self.holds.remove(&message).unwrap_or_default();
        let on_write = self.on_write.get(&message).copied();
        let admission = Admission::new(layered, self.clock.clone(), holds, on_write);
        Arc::new(Lineage::new(Arc::new(admission)))
    }

    /// The objects of a kind in the store: as they are, or in the stored form that the scheme has
    /// for them.
    fn stored(
        &mut self,
        kind: Arc<Kind>,
        keys: Keys,
        projects: &Arc<Projects>,
    ) -> Arc<dyn Accessor> {
        let (store, projects) = (self.store.clone(), projects.clone());
        let form = self
            .scheme
            .spokes(&kind)
            .iter()
            .find(|spoke| spoke.parts.iter().all(|part| part.internal()))
            .cloned();
        match form {
            Some(form) => Arc::new(PartsAccessor::new(form, keys, store, projects)),
            None => {
                let stored =
                    StoreAccessor::new(kind.clone(), keys.clone(), store.clone(), projects.clone());
                let recent = stored.recent().clone();
                self.recent.push(recent.clone());
                let mut stored: Arc<dyn Accessor> = Arc::new(stored);
                if kind.shareable() {
                    let (keys, store) = (keys.clone(), store.clone());
                    stored = Arc::new(Sharing::new(stored, keys, store, projects, recent));
                }
                if kind.versioned() {
                    stored = Arc::new(Versions::new(stored, keys, store, self.clock.clone()));
                }
                stored
            }
        }
    }
}
