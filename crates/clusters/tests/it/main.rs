//! Clusters in a whole server, without machines: what is made, refused, shared and left behind.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod deletion;
mod naming;
mod providers;
mod support;
