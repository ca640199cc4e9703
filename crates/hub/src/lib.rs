//! The hub: declarative resources behind accessors.
//!
//! ```text
//!   caller ─> Lineage ─> Admission ─> (layers of a kind) ─> Hydrate ─> (Versions, Sharing) ─> StoreAccessor ─> store
//!             hidden      merge,         refuse, audit ...   project     what was and     bytes at a
//!                         default,                           names/ids   others share     revision
//!                         validate
//!   caller ─> Lineage ─> (layers of a kind) ─> Cached ─> accessor of another hub, which does all the rest
//! ```
//! Owns: accessors and their layers, what becomes of an object when it is written (generation,
//! finalizers, optimistic concurrency), who owns which field, patches, project names and ids, the
//! files of objects, the key layout.
//! Not in it: transports, who may do what, any one kind's behaviour, the storage engines.
mod accessor;
pub mod artifacts;
mod batch;
pub mod cache;
mod clock;
mod cursor;
mod error;
pub mod events;
mod hub;
mod index;
mod keys;
mod layers;
mod leases;
mod merge;
mod options;
pub mod ownership;
mod paging;
mod parts;
pub mod patch;
mod projects;
mod recent;
mod refusal;
mod sharing;
mod storages;
mod store_accessor;
mod typed;
mod watch;

pub use accessor::{Accessor, Layer, WatchStream};
pub use batch::Batch;
pub use clock::{Clock, ManualClock, SystemClock};
pub use cursor::Cursor;
pub use error::Error;
pub use hub::{Hub, HubBuilder};
pub use index::ObjectTerms;
pub use keys::{OBJECTS, secret_prefixes};
pub use layers::admission::OnWrite;
pub use layers::sharing::explain_absence;
pub use layers::versions::KEPT_MAX as VERSIONS_KEPT_MAX;
pub use options::{
    Admit, Applied, ApplyOptions, Concern, DeleteOptions, Deleted, GetOptions, ListOptions, Merge,
    ObjectName, Outcome, Page, Part, Precondition, Propagation, StatusOptions, Unread, Unreadable,
    Version, WatchEvent, WatchOptions,
};
pub use orrery_store::{Lease, Revision};
pub use refusal::modified;
pub use storages::{Storage, Upstream};
pub use typed::Resources;
pub use watch::BOOKMARK_INTERVAL;
