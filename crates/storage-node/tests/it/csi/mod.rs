//! The CSI driver over its socket, call by call, with the codes that the specification names.

mod conformance;
mod controller;
mod crash;
mod identity;
mod node;
mod remote;
mod snapshots;
pub mod world;
