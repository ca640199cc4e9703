//! The revisioned store: one log of commits, the values that follow from it, and watches on it.
//!
//! ```text
//!   hub ── get, snapshot, watch ──▶ Store (current values in memory, recent history)
//!    │                                ▲ one watch over one prefix
//!    └──── commit ──▶ Engine ─────────┘
//!                     memory   for tests
//!                     embedded one process, one directory, one fsync for many commits
//!                     etcd     for more than one server
//! ```
//!
//! Owned here: the [`Engine`] contract and its engines, the [`Store`] that the rest of the system
//! reads from, leases, values that are sealed on their way (by whom, others say), backup and restore, and the suite that every engine passes (`conformance`,
//! behind the feature of that name).
//!
//! Not in it: kinds, names, versions or any other meaning of keys and values. Bytes go in and the
//! same bytes come out. Only this crate sees the storage engines.

mod backup;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
mod engine;
mod entries;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod judge;
mod lease;
mod memory;
mod model;
mod sealed;
mod store;
pub mod wakes;

pub use backup::{Backup, backup, inspect_backup, restore};
pub use embedded::{EmbeddedOptions, open_embedded};
pub use engine::{Batch, Change, Engine, Follower, Following, ListRequest, Listing, Watch};
pub use error::{Error, OpenError};
#[cfg(feature = "etcd")]
pub use etcd::{EtcdOptions, open_etcd};
pub use lease::Lease;
pub use memory::memory;
pub use model::{
    COMMIT_BYTES_MAX, Entry, Expect, Incarnation, KEY_BYTES_MAX, OPERATIONS_MAX, Op, Revision,
    SEGMENTS_MAX, VALUE_BYTES_MAX,
};
pub use sealed::{Sealing, sealed};
pub use store::{Event, EventBatch, Snapshot, Store, StoreOptions, Terms, Watcher};
