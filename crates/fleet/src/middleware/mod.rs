//! The communication middleware, without any transport in it.
//!
//! ```text
//!  transport (gRPC, in process)      middleware                        server core
//!  ----------------------------      ----------------------------     -----------------
//!  first message        ───────────> hello: version, name, identity ─> opening (epoch)
//!  from-server channel  <─────────── Outbox <── Senders <── distribute <── messages
//!  further messages     ───────────> pump ──────────────────────────> states
//!  the connection ends  ───────────> pump ──────────────────────────> gone
//! ```
//! A transport turns a connection into a stream of messages and a stream of answers; what they
//! mean is decided here and in the core, the same for every transport.
pub mod claims;
pub mod distribute;
pub mod hello;
pub mod outbox;
pub mod peer;
pub mod senders;

pub use hello::Refusal;
pub use outbox::Outbox;
pub use peer::{Impersonation, Peer};
pub use senders::Senders;
