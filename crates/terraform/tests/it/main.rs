//! The provider, started by a host: by one of our own, always, and by the real Terraform, where it is.
#![allow(clippy::unwrap_used)]

mod host;
mod real;
mod server;
