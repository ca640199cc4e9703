//! Decisions about machines.
