//! The registry's entries as StorageController resources: they survive restarts and are shared by all
//! servers on one store.
//!
//! ```text
//!  put, remove ─> store ─> watch ─> entries in memory ─> get (on the path of every proxied call)
//! ```
use super::{entry, liveness, names::object_name};
use crate::{
    Change, ControllerDirectory, ControllerId, DirectoryError, Entry, Report, Room, quantity,
    status,
};
use futures::{StreamExt, stream::BoxStream};
use orrery_api::Object;
use orrery_hub::{ApplyOptions, Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{
    StorageController, StorageControllerSpec, StorageControllerStatus,
};
use orrery_runtime::{Change as Told, OnEnd, Reflector, Tasks, View};
use parking_lot::RwLock;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::{broadcast, watch};
use tokio_stream::wrappers::{BroadcastStream, errors::BroadcastStreamRecvError};

/// Who sets the fields of an entry, beside people.
const MANAGER: &str = "storage-registry";
/// How many changes a slow reader may lag behind before it is told [`Change::Missed`].
const CHANGES_BUFFERED: usize = 256;
/// What was written is seen by our own watch within milliseconds, unless the store is in trouble.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

pub struct HubDirectory {
    controllers: Resources<StorageController>,
    view: Arc<View<StorageController>>,
    clock: Arc<dyn Clock>,
    entries: Arc<Entries>,
    synced: watch::Receiver<bool>,
}

/// What the watch has told, by id.
struct Entries {
    by_id: RwLock<HashMap<ControllerId, Known>>,
    changes: broadcast::Sender<Change>,
    /// Counts what the watch told.
    told: watch::Sender<u64>,
}

#[derive(Clone)]
struct Known {
    entry: Entry,
    revision: u64,
}

impl HubDirectory {
    /// A directory on the hub's store; its watch is one of the tasks.
    pub fn spawn(hub: &Hub, tasks: &mut Tasks) -> Result<Arc<Self>, Error> {
        let mut reflector = Reflector::<StorageController>::new(hub.resources()?);
        let entries = Arc::new(Entries {
            by_id: RwLock::default(),
            changes: broadcast::Sender::new(CHANGES_BUFFERED),
            told: watch::Sender::new(0),
        });
        let told = entries.clone();
        reflector.on_change(move |change| told.take(change));
        let directory = Self {
            controllers: hub.resources()?,
            view: reflector.view(),
            clock: hub.clock().clone(),
            synced: reflector.synced(),
            entries,
        };
        tasks.spawn("storage-directory", OnEnd::StopAll, reflector.run(tasks.stop_token()));
        Ok(Arc::new(directory))
    }

    /// Returns when the watch has told everything that was there.
    async fn ready(&self) {
        // The sender lives as long as the watch; when it is gone the server is stopping.
        let _ = self.synced.clone().wait_for(|synced| *synced).await;
    }

    async fn declare(&self, wanted: &Entry) -> Result<u64, DirectoryError> {
        let name = object_name(&wanted.id);
        let named = name == wanted.id.as_str();
        let controller = StorageController {
            spec: Some(StorageControllerSpec {
                address: Some(wanted.address.to_string()),
                controller_id: (!named).then(|| wanted.id.to_string()),
                unschedulable: None,
            }),
            metadata: Some(ObjectMeta { name: name.clone(), ..ObjectMeta::default() }),
            ..StorageController::default()
        };
        let object = Object::from_typed(self.controllers.kind(), &controller)
            .map_err(|error| DirectoryError::Unavailable(error.to_string()))?;
        let options = ApplyOptions { force: true, ..ApplyOptions::declared_by(MANAGER) };
        let applied = match self.controllers.accessor().apply(object, options).await {
            Err(Error::Invalid { .. }) => {
                return Err(DirectoryError::Taken(format!(
                    "the name {name:?} belongs to another controller than {}",
                    wanted.id
                )));
            }
            applied => applied.map_err(unavailable)?,
        };
        revision(&applied.object)
    }

    /// Waits until the watch has told what was written.
    async fn seen(&self, seen: impl Fn(&Entries) -> bool) -> Result<(), DirectoryError> {
        let mut told = self.entries.told.subscribe();
        let wait = async {
            while !seen(&self.entries) {
                if told.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(SEEN_WITHIN, wait).await.map_err(|_| {
            DirectoryError::Unavailable("what was written did not come back in time".to_owned())
        })
    }
}

impl Entries {
    fn take(&self, change: &Told<StorageController>) {
        let read = |controller: &Option<Arc<StorageController>>| {
            let controller = controller.as_deref()?;
            let revision = status::meta(&controller.metadata).resource_version.parse().ok()?;
            Some(Known { entry: entry(&change.name.name, controller)?, revision })
        };
        let (old, new) = (read(&change.old), read(&change.new));
        let mut by_id = self.by_id.write();
        match new {
            Some(new) => {
                let same = old.is_some_and(|old| old.entry == new.entry);
                by_id.insert(new.entry.id.clone(), new.clone());
                if !same {
                    self.tell(Change::Put(new.entry));
                }
            }
            None => {
                if let Some(old) = old {
                    by_id.remove(&old.entry.id);
                    self.tell(Change::Removed(old.entry.id));
                }
            }
        }
        drop(by_id);
        self.told.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Having no reader is no error.
    fn tell(&self, change: Change) {
        let _readers = self.changes.send(change);
    }

    fn revision(&self, id: &ControllerId) -> Option<u64> {
        self.by_id.read().get(id).map(|known| known.revision)
    }
}

#[async_trait::async_trait]
impl ControllerDirectory for HubDirectory {
    async fn put(&self, wanted: Entry) -> Result<(), DirectoryError> {
        self.ready().await;
        let known = self.entries.by_id.read().get(&wanted.id).cloned();
        if known.is_some_and(|known| known.entry == wanted) {
            return Ok(());
        }
        let written = self.declare(&wanted).await?;
        self.seen(|entries| entries.revision(&wanted.id) >= Some(written)).await
    }

    async fn admit(&self, id: &ControllerId, books: &str) -> Result<(), DirectoryError> {
        self.ready().await;
        let found = self.view.get(&ObjectName::new("", object_name(id)));
        let Some(found) = found.filter(|_| !books.is_empty()) else { return Ok(()) };
        let status = found.status.clone().unwrap_or_default();
        if status.books.is_empty() || status.books == books {
            return Ok(());
        }
        let last = status.last_contact_time.map(|time| time.seconds);
        match liveness::judge(last, status.refresh_seconds, self.clock.now().seconds) {
            liveness::Verdict::Silent | liveness::Verdict::Never => Ok(()),
            liveness::Verdict::Ready(_) => Err(DirectoryError::Taken(format!(
                "another storage controller with the id {id} registers from {}, with another state \
                 folder: give this one an --id or a --state of its own. If the other one is gone for \
                 good, this one is taken when that has been silent for {} s",
                found.spec.as_ref().map(|spec| spec.address()).unwrap_or_default(),
                liveness::silence_seconds(status.refresh_seconds)
            ))),
        }
    }

    async fn heard(&self, id: &ControllerId, report: Report) -> Result<(), DirectoryError> {
        let (name, now) = (ObjectName::new("", object_name(id)), self.clock.now());
        let known = self.view.get(&name).and_then(|controller| controller.status.clone());
        if known.is_some_and(|status| is_recent(&status, &report, now.seconds)) {
            return Ok(());
        }
        let note = |controller: &mut StorageController| {
            let status = controller.status.get_or_insert_default();
            status.last_contact_time = Some(now);
            status.refresh_seconds = report.refresh_seconds.unwrap_or_default();
            status.backend.clone_from(&report.backend);
            if !report.books.is_empty() {
                status.books.clone_from(&report.books);
            }
            note_room(status, report.capacity);
            liveness::settle(status, now);
        };
        status::update(&self.controllers, &name, note).await.map_err(unavailable)?;
        Ok(())
    }

    async fn remove(&self, id: &ControllerId) -> Result<(), DirectoryError> {
        self.ready().await;
        let name = ObjectName::new("", object_name(id));
        let Some(found) = self.controllers.find(&name).await.map_err(unavailable)? else {
            return Ok(());
        };
        if entry(&name.name, &found).is_none_or(|entry| entry.id != *id) {
            return Ok(());
        }
        let gone = revision_of(status::meta(&found.metadata))?;
        self.controllers.delete(&name).await.map_err(unavailable)?;
        self.seen(|entries| entries.revision(id).is_none_or(|revision| gone < revision)).await
    }

    async fn get(&self, id: &ControllerId) -> Result<Option<Entry>, DirectoryError> {
        self.ready().await;
        if let Some(known) = self.entries.by_id.read().get(id) {
            return Ok(Some(known.entry.clone()));
        }
        // It may have registered with another server a moment ago.
        let name = ObjectName::new("", object_name(id));
        let found = self.controllers.find(&name).await.map_err(unavailable)?;
        let found = found.and_then(|controller| entry(&name.name, &controller));
        Ok(found.filter(|entry| entry.id == *id))
    }

    async fn list(&self) -> Result<Vec<Entry>, DirectoryError> {
        self.ready().await;
        let by_id = self.entries.by_id.read();
        let mut entries: Vec<Entry> = by_id.values().map(|known| known.entry.clone()).collect();
        entries.sort_by(|one, two| one.id.cmp(&two.id));
        Ok(entries)
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        BroadcastStream::new(self.entries.changes.subscribe())
            .map(|change| match change {
                Ok(change) => change,
                Err(BroadcastStreamRecvError::Lagged(_)) => Change::Missed,
            })
            .boxed()
    }
}

/// Whether what is written says the same, as exactly as it is written at all.
fn is_recent(status: &StorageControllerStatus, report: &Report, now: i64) -> bool {
    let refresh = report.refresh_seconds.unwrap_or_default();
    let last = status.last_contact_time.map_or(i64::MIN, |time| time.seconds);
    status.state == "Ready"
        && status.backend == report.backend
        && (report.books.is_empty() || status.books == report.books)
        && status.refresh_seconds == refresh
        && now.saturating_sub(last) < liveness::precision_seconds(refresh)
}

fn note_room(status: &mut StorageControllerStatus, room: Option<Room>) {
    let show = |bytes: Option<i64>| bytes.map(quantity::show).unwrap_or_default();
    status.capacity_bytes = room.map(|room| room.total_bytes);
    status.available_bytes = room.map(|room| room.available_bytes);
    status.capacity = show(status.capacity_bytes);
    status.available = show(status.available_bytes);
}

fn revision(object: &Object) -> Result<u64, DirectoryError> {
    let text = object.resource_version();
    text.parse().map_err(|_| DirectoryError::Unavailable("an entry has no revision".to_owned()))
}

fn revision_of(metadata: &ObjectMeta) -> Result<u64, DirectoryError> {
    let text = &metadata.resource_version;
    text.parse().map_err(|_| DirectoryError::Unavailable("an entry has no revision".to_owned()))
}

fn unavailable(error: Error) -> DirectoryError {
    DirectoryError::Unavailable(error.to_string())
}
