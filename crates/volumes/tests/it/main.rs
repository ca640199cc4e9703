//! The registry and its proxy over real sockets, with peers that it knows nothing about.
#![allow(clippy::unwrap_used)]

mod echo;
mod proxy;
mod raw;
mod registry;
mod tls;
mod world;
