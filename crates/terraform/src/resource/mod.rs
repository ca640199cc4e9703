//! What becomes of a resource, decided in pure functions.
//!
//! ```text
//!   configuration --check--> what is wrong with it
//!   configuration + prior state --plan--> planned state, what needs a new resource
//!   configuration --declare--> JSON for the server
//!   JSON of the server + what is known --show--> state
//! ```
//!
//! The provider looks after what the configuration sets. What others set beside it (a label, an item of a keyed list,
//! a field that the configuration leaves out) belongs to them: it is neither shown as a difference nor taken away.
mod check;
mod declare;
mod owned;
mod path;
mod plan;
mod show;

#[cfg(test)]
mod tests;

pub use check::{Problem, check};
pub use declare::{declare, object_json};
pub use owned::{Private, owned};
pub use path::{Path, Step, of_violation};
pub use plan::{Planned, plan};
pub use show::{View, show};
