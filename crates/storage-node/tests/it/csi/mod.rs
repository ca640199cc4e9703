//! The CSI driver over its socket, call by call, with the codes that the specification names.

mod bad_input;
mod conformance;
mod controller;
mod crash;
mod given_up;
mod identity;
mod misuse;
mod node;
mod remote;
mod snapshots;
mod socket;
mod suite;
pub mod world;
