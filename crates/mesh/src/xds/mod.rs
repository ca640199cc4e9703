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
#[cfg(test)]
mod fake;
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
}
