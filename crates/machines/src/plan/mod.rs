//! Decisions about machines: pure functions from what is wanted and what is seen to what to do next,
//! each with its reason. No clock, no store, no driver: the controllers bring those.
//!
//! ```text
//!   deployment --targets, ceilings--> sets --create, delete--> machines --act--> driver
//!   (which class, how many)           (how many)               (one life each)
//!                                     orphans: listed at the provider, unknown to us
//! ```
//!
//! # What makes the bounds hard
//!
//! The bounds of a rolling update hold at every moment, not only in the end, if the controllers
//! keep two rules, for which the store's conditional commits are made:
//!
//! 1. A set creates and deletes machines in a commit that also writes the set itself, conditional on
//!    the revision it planned from. So nobody acts on a target or ceiling that was taken back.
//! 2. A deployment writes all its sets in one commit, conditional on the revisions it planned from.
//!    So no machine was created or deleted behind its back.
//!
//! Then the sum of all ceilings is never above the limit, and no set goes above its ceiling.
pub mod backoff;
pub mod bound;
pub mod deployment;
pub mod machine;
pub mod orphans;
pub mod set;

pub use bound::Bound;
pub use machine::Phase;

/// Points in time are the store's: they outlive the process.
pub type Time = jiff::Timestamp;

/// Why something was decided: the answer to "why was my machine deleted?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One word in CamelCase, for programs.
    pub code: &'static str,
    /// A sentence, for people.
    pub message: String,
}

impl Reason {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Time from `since` to `now`; none if the clock was set back.
pub(crate) fn elapsed(now: Time, since: Time) -> std::time::Duration {
    std::time::Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// A point in time later; the end of time if there is none.
pub(crate) fn later(from: Time, by: std::time::Duration) -> Time {
    from.checked_add(by).unwrap_or(Time::MAX)
}
