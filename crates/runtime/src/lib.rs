//! What every controller stands on: watch, queue, reconcile.
//!
//! ```text
//!   accessor.watch ─> Reflector ─> View (typed, indexed)
//!                        │ each change
//!                        v
//!                     KeyQueue ─> Controller ─> Reconciler::reconcile(key) ─> when to look again
//! ```
//! Owns: views fed by watches, the queue (one in flight per key, back-off, resync), leadership by
//! lease, named tasks and their clean end, objects that are made out of others, what controllers did in figures. Not in it: any one kind, any transport.
mod backoff;
pub mod conditions;
mod controller;
mod leadership;
pub mod owned;
mod pace;
mod queue;
mod reflector;
pub mod stats;
mod tasks;
mod view;
pub mod writes;

pub use backoff::Backoff;
pub use controller::{Controller, KeyQueue, Next, Reconciler};
pub use leadership::{LEASE_TTL, Leadership, Term};
pub use pace::Pace;
pub use queue::{Done, Queue};
pub use reflector::{Reflector, until_synced};
pub use tasks::{OnEnd, TaskError, Tasks};
pub use view::{Change, View};
