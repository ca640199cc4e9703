//! One connection and what its own task does for it.
//!
//! ```text
//!   task of a connection:  hyper ── a request ──> guest: the one request that runs in this task
//!                            │  └─ more at once ─> tasks of their own, elsewhere
//!                            v
//!                          Gathered: what all of them write while the task runs ──> one write
//! ```
//! Most connections have one request at a time. Such a request needs no task of its own, wakes nobody, and its
//! head, its message and its end leave in one packet. Connections live on threads of their own, see [`threads`].
mod gathered;
mod hosted;
mod moment;
mod processors;
mod relay;
mod silence;
mod threads;
mod turns;

pub use gathered::gathered;
pub use hosted::{Guest, Hosted};
pub use silence::{QuietTimer, Silence};
pub use threads::{Threads, aside};
pub use turns::in_turns;
