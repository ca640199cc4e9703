//! Changes in the store as changes of objects.
use crate::accessor::WatchStream;
use crate::error::Error;
use crate::index;
use crate::keys::Keys;
use crate::options::{Concern, Unread, Unreadable, WatchEvent, WatchOptions};
use crate::recent::Recent;
use crate::refusal::from_store;
use crate::store_accessor::{encode_at, fits};
use foldhash::HashSet;
use futures::stream::{self, StreamExt};
use orrery_api::{Encoded, FieldSelector, Kind, LabelSelector};
use orrery_store::{Entry, Event, EventBatch, Revision, Snapshot, Store, Watcher};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a watcher hears nothing before it is told how far the store has come, so that it can
/// go on from there even after the history before it is gone.
pub const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// How much of what is there is prepared at once for a watcher that begins with it.
const INITIAL: usize = 64;

/// How many commits that have happened already are prepared at once for a watcher.
const AT_ONCE_MAX: usize = 64;

/// How long a watcher that was told of nothing that concerns it rests before it looks again: whoever writes much that
/// concerns nobody is not held up by those who look at each commit of it.
const REST: Duration = Duration::from_millis(5);

/// What one watcher makes of what the store holds.
pub(crate) trait Reader: Send + Sync + 'static {
    /// What is there under one key, if this watcher wants it.
    fn present(&self, snapshot: &Snapshot, entry: &Entry) -> Result<Option<Encoded>, Error>;

    /// What one commit is to this watcher.
    fn changes(&self, batch: &EventBatch) -> Result<Vec<WatchEvent<Encoded>>, Error>;

    /// Whoever watches has taken everything that it was told, and comes for more.
    fn taken(&self) {}

    /// Whether changes are passed over, so that bookmarks must say how far the watch has come.
    fn passes_over(&self) -> bool {
        false
    }

    /// The keys of what may be there for this watcher; `None` where every key must be looked at.
    fn candidates(&self, _snapshot: &Snapshot) -> Option<Vec<String>> {
        None
    }
}

/// Where a watcher looks, and from when on.
pub(crate) struct Scope {
    /// What is told at the beginning.
    pub objects: String,
    /// What is followed.
    pub changes: String,
    pub after: Option<Revision>,
    pub idle: Option<Duration>,
}

/// Opens a watch on the stored view of a kind whose objects are one entry each.
pub(crate) async fn open(
    store: &Store,
    kind: &Arc<Kind>,
    keys: &Keys,
    recent: &Arc<Recent>,
    options: WatchOptions,
) -> Result<WatchStream<Encoded>, Error> {
    let wanted = Wanted::new(keys, &options);
    let (objects, changes) = (wanted.prefix.clone(), wanted.prefix.clone());
    let scope = Scope { objects, changes, after: options.after, idle: options.bookmark_interval };
    let (kind, recent) = (kind.clone(), recent.clone());
    // Whoever is told everything at the beginning knows from then on what was in its concern before a change.
    let complete = options.after.is_none() && !wanted.selects();
    let inside = complete.then(|| Mutex::new(HashSet::default()));
    let passing = Passing { told: options.unreadable, keys: <_>::default(), over: <_>::default() };
    let filter = Filter { kind, recent, wanted, concern: options.concern, inside, passing };
    follow(store, scope, filter).await
}

/// Tells a watcher what is there, where it asked for that, and then every change.
pub(crate) async fn follow(
    store: &Store,
    scope: Scope,
    reader: impl Reader,
) -> Result<WatchStream<Encoded>, Error> {
    let (after, initial) = match scope.after {
        Some(after) => {
            // Another server may have told the caller of more than this one has read yet.
            if store.revision() < after {
                store.snapshot().await.map_err(from_store)?;
            }
            (after, None)
        }
        None => {
            let snapshot = store.snapshot().await.map_err(from_store)?;
            let rest = match reader.candidates(&snapshot) {
                Some(keys) => Rest::Keys(keys.into()),
                None => Rest::Under { prefix: scope.objects, told: Arc::default() },
            };
            (snapshot.revision(), Some(Initial { snapshot, rest }))
        }
    };
    let watcher = store.watch(&scope.changes, after).map_err(from_store)?;
    let idle = scope.idle.unwrap_or(BOOKMARK_INTERVAL);
    let state = State { watcher, reader, initial, pending: VecDeque::new(), idle };
    Ok(stream::try_unfold(state, |mut state| async move {
        let event = state.next().await?;
        Ok(Some((event, state)))
    })
    .boxed())
}

/// Which objects a watcher wants.
pub(crate) struct Wanted {
    /// What the keys of their entries begin with.
    pub prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    name: Option<String>,
    only: Option<String>,
}

impl Wanted {
    pub fn new(keys: &Keys, options: &WatchOptions) -> Self {
        let name = options.name.as_deref().or_else(|| options.fields.exact("metadata.name"));
        let project = options.project.as_deref();
        let project = project.or(options.fields.exact("metadata.project"));
        let (prefix, only) = match (project, name) {
            (Some(project), Some(name)) => {
                let key = keys.object(project, name);
                (key.clone(), Some(key))
            }
            (Some(project), None) => (keys.project(project), None),
            (None, _) => (keys.all().to_owned(), None),
        };
        let (labels, fields) = (options.labels.clone(), options.fields.clone());
        Self { prefix, labels, fields, name: name.map(str::to_owned), only }
    }

    /// Whether the key is one of theirs.
    pub fn is_key(&self, key: &str) -> bool {
        let named = |name: &str| key.rsplit('/').next() == Some(name);
        self.only.as_deref().is_none_or(|only| only == key)
            && self.name.as_deref().is_none_or(named)
    }

    /// Whether keys alone do not tell.
    pub fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub fn fits(&self, found: &Encoded) -> Result<bool, Error> {
        fits(found, &self.labels, &self.fields)
    }
}

struct State<R> {
    watcher: Watcher,
    reader: R,
    /// What was there at the start, while it is told.
    initial: Option<Initial>,
    pending: VecDeque<WatchEvent<Encoded>>,
    idle: Duration,
}

struct Initial {
    snapshot: Snapshot,
    rest: Rest,
}

/// What is left to tell.
enum Rest {
    Keys(VecDeque<String>),
    /// Everything under a prefix after a key.
    Under {
        prefix: String,
        told: Arc<str>,
    },
}

impl Initial {
    /// The next entries; none at the end.
    fn part(&mut self) -> Vec<Arc<Entry>> {
        match &mut self.rest {
            Rest::Keys(keys) => {
                let next = keys.drain(..INITIAL.min(keys.len()));
                // The keys are of this very snapshot.
                next.filter_map(|key| self.snapshot.get(&key).cloned()).collect()
            }
            Rest::Under { prefix, told } => {
                // No key is empty, so everything comes after the empty one.
                let rest = self.snapshot.range_after(prefix, told);
                let part: Vec<Arc<Entry>> = rest.take(INITIAL).cloned().collect();
                if let Some(last) = part.last() {
                    *told = last.key.clone();
                }
                part
            }
        }
    }
}

impl<R: Reader> State<R> {
    async fn next(&mut self) -> Result<WatchEvent<Encoded>, Error> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            self.reader.taken();
            if let Some(initial) = self.initial.take() {
                self.tell(initial)?;
                continue;
            }
            let mut batches = self.watcher.ready(AT_ONCE_MAX).map_err(from_store)?;
            if batches.is_empty() {
                match tokio::time::timeout(self.idle, self.watcher.next()).await {
                    Ok(batch) => batches.push(batch.map_err(from_store)?),
                    Err(_) => return Ok(WatchEvent::Bookmark(self.watcher.bookmark())),
                }
            }
            for batch in &batches {
                self.pending.extend(self.reader.changes(batch)?);
            }
            if self.reader.passes_over()
                && let Some(last) = batches.last()
            {
                self.rest(batches.len()).await;
                self.pending.push_back(WatchEvent::Bookmark(last.revision));
            }
        }
    }

    /// Lets commits gather where the last ones, so many, told nothing, and no more of them wait than are looked at at once.
    async fn rest(&self, passed: usize) {
        if self.pending.is_empty() && passed < AT_ONCE_MAX {
            tokio::time::sleep(REST).await;
        }
    }

    /// Tells the next part of what was there, and after all of it that this was it.
    fn tell(&mut self, mut initial: Initial) -> Result<(), Error> {
        let part = initial.part();
        for entry in &part {
            let found = self.reader.present(&initial.snapshot, entry)?;
            self.pending.extend(found.map(WatchEvent::Added));
        }
        if part.is_empty() {
            self.pending.push_back(WatchEvent::Bookmark(initial.snapshot.revision()));
        } else {
            self.initial = Some(initial);
        }
        Ok(())
    }
}

/// Objects that are one entry each.
struct Filter {
    kind: Arc<Kind>,
    recent: Arc<Recent>,
    wanted: Wanted,
    concern: Option<Concern>,
    /// The keys of what is in the concern, where that is known of all.
    inside: Option<Mutex<HashSet<Arc<str>>>>,
    passing: Passing,
}

/// Passes over what cannot be read, where somebody hears of it instead.
struct Passing {
    told: Option<Unreadable>,
    /// What cannot be read as it was last.
    keys: Mutex<HashSet<Arc<str>>>,
    /// What could not be read, and can be as it was last. That is told when what it is now was taken: whoever hears
    /// of both must never know of neither.
    over: Mutex<HashSet<Arc<str>>>,
}

impl Passing {
    /// What was made of an entry; nothing where it cannot be read.
    fn entry<T>(&self, entry: &Entry, made: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
        let Some(told) = &self.told else { return made };
        if let Err(error) = &made {
            self.over.lock().remove(&entry.key);
            self.keys.lock().insert(entry.key.clone());
            told.tell(&entry.key, Some(Unread { value: &entry.value, error }));
            return Ok(None);
        }
        if self.keys.lock().remove(&entry.key) {
            self.over.lock().insert(entry.key.clone());
        }
        made
    }

    fn event<T>(&self, event: &Event, made: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
        match event {
            Event::Put { entry, .. } => self.entry(entry, made),
            Event::Delete { .. } => {
                self.gone(event.key());
                made
            }
        }
    }

    fn holds(&self, key: &str) -> bool {
        self.told.is_some() && self.keys.lock().contains(key)
    }

    fn gone(&self, key: &str) {
        let Some(told) = &self.told else { return };
        let was_over = self.over.lock().remove(key);
        if self.keys.lock().remove(key) || was_over {
            told.tell(key, None);
        }
    }

    /// What can be read again was taken.
    fn taken(&self) {
        let Some(told) = &self.told else { return };
        let over = std::mem::take(&mut *self.over.lock());
        over.iter().for_each(|key| told.tell(key, None));
    }
}

impl Reader for Filter {
    fn present(&self, _snapshot: &Snapshot, entry: &Entry) -> Result<Option<Encoded>, Error> {
        self.passing.entry(entry, self.found(entry))
    }

    fn changes(&self, batch: &EventBatch) -> Result<Vec<WatchEvent<Encoded>>, Error> {
        let mut changes = Vec::with_capacity(batch.events.len());
        let is_heard = |event: &Event| self.is_concerned(event) || self.passing.holds(event.key());
        for event in batch.events.iter().filter(|event| is_heard(event)) {
            changes.extend(self.passing.event(event, self.change(event))?);
        }
        Ok(changes)
    }

    fn taken(&self) {
        self.passing.taken();
    }

    fn passes_over(&self) -> bool {
        self.concern.is_some()
    }

    fn candidates(&self, snapshot: &Snapshot) -> Option<Vec<String>> {
        let Wanted { prefix, labels, fields, .. } = &self.wanted;
        let terms = index::fewest(snapshot, &self.kind, prefix, labels, fields)?;
        Some(index::keys(snapshot, &terms, prefix, "").map(str::to_owned).collect())
    }
}

impl Filter {
    /// What was there at the beginning, if this watcher wants it.
    fn found(&self, entry: &Entry) -> Result<Option<Encoded>, Error> {
        if !self.wanted.is_key(&entry.key) {
            return Ok(None);
        }
        let found = encode_at(&self.kind, entry, entry.modified)?;
        if let (Some(concern), Some(inside)) = (&self.concern, &self.inside)
            && concern.is_in(&found)
        {
            inside.lock().insert(entry.key.clone());
        }
        Ok(self.wanted.fits(&found)?.then_some(found))
    }

    /// Whether the watcher must hear of a change. What comes and what goes concerns every one.
    fn is_concerned(&self, event: &Event) -> bool {
        let Some(concern) = &self.concern else { return true };
        let is_in = |entry: &Entry| concern.is_in(&Encoded::new(&self.kind, entry.value.clone()));
        match (event, &self.inside) {
            (Event::Put { entry, previous }, Some(inside)) => {
                let mut inside = inside.lock();
                let (now, key) = (is_in(entry), &entry.key);
                let before = if now { !inside.insert(key.clone()) } else { inside.remove(key) };
                now || before || previous.is_none()
            }
            (Event::Put { entry, previous: Some(previous) }, None) => {
                is_in(entry) || is_in(previous)
            }
            (Event::Put { previous: None, .. }, None) => true,
            (Event::Delete { previous, .. }, inside) => {
                if let Some(inside) = inside {
                    inside.lock().remove(&previous.key);
                }
                true
            }
        }
    }

    /// What a change in the store is to this watcher. An object that no longer fits the selectors
    /// is gone for it, as it was when it still did; one that begins to fit is new.
    fn change(&self, event: &Event) -> Result<Option<WatchEvent<Encoded>>, Error> {
        Ok(match event {
            Event::Put { entry, previous } => {
                let revision = entry.modified;
                match (self.shown(entry, revision)?, self.before(previous.as_deref())?) {
                    (Some(now), None) => Some(WatchEvent::Added(now)),
                    (Some(now), Some(_)) => Some(WatchEvent::Modified(now)),
                    (None, Some(before)) => Some(self.left(before, revision)?),
                    (None, None) => None,
                }
            }
            Event::Delete { previous, revision } => {
                self.shown(previous, *revision)?.map(WatchEvent::Deleted)
            }
        })
    }

    /// What was there before, if this watcher saw it. Nothing is decoded where everything fits.
    fn before<'a>(&self, previous: Option<&'a Entry>) -> Result<Option<&'a Entry>, Error> {
        let Some(previous) = previous else { return Ok(None) };
        let seen = match self.wanted.selects() {
            true => self.shown(previous, previous.modified)?.is_some(),
            false => self.wanted.is_key(&previous.key),
        };
        Ok(seen.then_some(previous))
    }

    fn left(&self, before: &Entry, revision: Revision) -> Result<WatchEvent<Encoded>, Error> {
        self.recent.encoded(&self.kind, before, revision).map(WatchEvent::Deleted)
    }

    /// An object that changed, at the revision of the change, if it fits.
    fn shown(&self, entry: &Entry, revision: Revision) -> Result<Option<Encoded>, Error> {
        if !self.wanted.is_key(&entry.key) {
            return Ok(None);
        }
        let found = self.recent.encoded(&self.kind, entry, revision)?;
        Ok(self.wanted.fits(&found)?.then_some(found))
    }
}
