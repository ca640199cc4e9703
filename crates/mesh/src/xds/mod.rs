//! The discovery protocol, without any transport and without any Envoy type in it.
//!
//! ```text
//!   request ──> Session ──> Subscription (one per kind)      what the client wants and holds
//!   change ───> Mailbox ──> Session::mark                     what to look at again
//!               Session::next(view) ──> Push                  what to send now, in order
//! ```
//! A session is a pure state machine: it is told of requests and changes and asked what to send. It
//! reads resources through a [`View`] at the moment of sending, so a client that was slow gets the
//! latest state and none of what lay between.
mod earlier;
#[cfg(test)]
mod fake;
mod holding;
pub mod kind;
pub mod mailbox;
pub mod progress;
pub mod request;
pub mod resource;
pub mod session;
pub mod subscription;

pub use kind::Kind;
pub use mailbox::{Mailbox, Pending};
pub use progress::{Nack, Progress};
pub use request::{Protocol, Request};
pub use resource::Resource;
pub use session::{Push, Session};
pub use subscription::Subscription;

use std::sync::Arc;

/// The resources that one client should have, as they are now.
pub trait View {
    fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>>;

    /// The names of everything of a kind, for clients that ask for all.
    fn names(&self, kind: Kind) -> Vec<Arc<str>>;

    /// Whether the client keeps what it has of this for now, whatever it should have; `was_sent` is whether
    /// it has something from this stream.
    fn is_kept(&self, _kind: Kind, _name: &str, _was_sent: bool) -> bool {
        false
    }

    /// Whether a cluster waits for endpoints of its name.
    fn has_endpoints(&self, cluster: &str) -> bool;

    /// A cluster to put in the place of one that is not known any more; `None` where that cannot be.
    fn stand_in(&self, cluster: &str) -> Option<Arc<Resource>>;
}
