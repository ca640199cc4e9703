//! The hub's operations as messages: decode, call the accessor, encode. Every edge that speaks
//! protobuf calls these functions.
mod convert;
mod errors;
mod front;
mod operations;
mod watch;

pub use errors::to_wire;
pub use front::Front;
pub use operations::HubApi;
