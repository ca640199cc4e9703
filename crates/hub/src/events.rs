//! Events: what happened to a resource, counted instead of repeated.
mod limiter;

use self::limiter::Limiter;
pub use self::limiter::limited;
use crate::clock::Clock;
use crate::error::Error;
use crate::hub::Hub;
use crate::options::ObjectName;
use crate::typed::Resources;
use orrery_api::SYSTEM_PROJECT;
use orrery_proto::core::v1::{Event, EventSpec, ObjectReference};
use orrery_proto::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Whether an event is a worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Happening {
    pub regarding: ObjectReference,
    pub severity: Severity,
    /// One word, in CamelCase.
    pub reason: &'static str,
    pub message: String,
}

/// Writes events on behalf of one part of the system. Happenings of one resource with one reason are
/// one object with a count, so their number is bounded by the number of reasons.
#[derive(Clone)]
pub struct Recorder {
    events: Resources<Event>,
    clock: Arc<dyn Clock>,
    source: &'static str,
    limiter: Arc<Mutex<Limiter>>,
}

/// Bytes of a message that are kept, as the definition of events allows; the rest is cut off.
const MESSAGE_MAX: usize = 1024;

impl Recorder {
    pub fn new(hub: &Hub, source: &'static str) -> Result<Self, Error> {
        let (events, clock) = (hub.resources()?, hub.clock().clone());
        Ok(Self { events, clock, source, limiter: Arc::default() })
    }

    /// Tells of it. An event that cannot be written is logged and holds up nobody; what happens too
    /// often to one resource is counted, and told with the next one that may be.
    pub async fn record(&self, happening: Happening) {
        self.record_times(happening, 1).await;
    }

    /// The same of what happened so many times; the last time is what is told.
    pub async fn record_times(&self, happening: Happening, times: i64) {
        let (uid, reason, now) =
            (happening.regarding.uid(), happening.reason, self.clock.now().seconds);
        let Some(times) = self.limiter.lock().take(uid, reason, times, now) else { return };
        match self.write(&happening, times).await {
            // A project that goes takes its events along.
            Ok(()) | Err(Error::ProjectTerminating { .. } | Error::ProjectNotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, reason = happening.reason, "cannot write an event");
            }
        }
    }

    /// Several may tell of the same at once; each of them counts.
    async fn write(&self, happening: &Happening, times: i64) -> Result<(), Error> {
        loop {
            match self.count(happening, times).await {
                Err(Error::Conflict { .. } | Error::AlreadyExists { .. }) => {
                    tokio::task::yield_now().await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn count(&self, happening: &Happening, times: i64) -> Result<(), Error> {
        let name = self.name(happening);
        let before = self.events.find(&name).await?;
        let revision = before.as_ref().and_then(|event| event.metadata.as_ref());
        let metadata = ObjectMeta {
            resource_version: revision
                .map(|meta| meta.resource_version.clone())
                .unwrap_or_default(),
            name: name.name,
            project: name.project,
            ..ObjectMeta::default()
        };
        let (exists, before) = (before.is_some(), before.and_then(|event| event.spec));
        let spec = Some(self.next(happening, before, times));
        let event = Event { metadata: Some(metadata), spec, ..Event::default() };
        if exists {
            return self.events.apply(&event).await.map(|_| ());
        }
        self.events.create(&event).await.map(|_| ())
    }

    fn next(&self, happening: &Happening, before: Option<EventSpec>, times: i64) -> EventSpec {
        let now = self.clock.now();
        EventSpec {
            regarding: Some(happening.regarding.clone()),
            reason: Some(happening.reason.to_owned()),
            message: Some(cut(&happening.message)),
            r#type: Some(format!("{:?}", happening.severity)),
            count: Some(before.as_ref().map_or(0, EventSpec::count).saturating_add(times)),
            first_timestamp: before.and_then(|spec| spec.first_timestamp).or(Some(now)),
            last_timestamp: Some(now),
            source: Some(self.source.to_owned()),
            ..EventSpec::default()
        }
    }

    /// The same for the same resource and reason, and short enough for a name.
    fn name(&self, happening: &Happening) -> ObjectName {
        let mut hash = Sha256::new();
        let regarding = &happening.regarding;
        let parts = [regarding.kind(), regarding.uid(), happening.reason, self.source];
        for part in parts {
            hash.update(part);
            hash.update([0]);
        }
        let digest: String = hash.finalize().iter().take(6).map(|b| format!("{b:02x}")).collect();
        let name: String = regarding.name().chars().take(48).collect();
        // What happens to resources without a project is told in the installation's own.
        let project = match regarding.project() {
            "" => SYSTEM_PROJECT,
            project => project,
        };
        ObjectName::new(project, format!("{}-{digest}", name.trim_end_matches('-')))
    }
}

/// The beginning of a text, cut between characters.
fn cut(text: &str) -> String {
    let end = (0..=MESSAGE_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or_default()].to_owned()
}
