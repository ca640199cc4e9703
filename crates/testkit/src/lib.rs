//! Kinds that only tests use.

#[cfg(feature = "world")]
pub mod agent;
#[cfg(feature = "world")]
pub mod world;
